/** Lanes: how full each is; capacity and pause are changed in place. */

import { useEffect, useState } from "preact/hooks";
import { api } from "../api";
import { duration, number, short } from "../format";
import { useResource } from "../resource";
import { Link, toLane } from "../router";
import { attempt, changed, mayAct, samples } from "../store";
import type { Lane } from "../types";
import { Spark } from "../ui/chart";
import { LaneDialog, PauseDialog } from "../ui/lane-dialogs";
import { Button, Card, Empty, Failed, Loading, Meter, When } from "../ui/parts";
import { Head } from "../ui/shell";

export function LanesPage() {
  const lanes = useResource("lanes", api.lanes, changed.lanes);
  const stats = useResource("stats", api.stats, changed.stats);
  const [pausing, setPausing] = useState<Lane | null>(null);
  const [editing, setEditing] = useState<Lane | null>(null);
  const age = new Map(stats.data?.lanes.map((lane) => [lane.lane, lane.oldest_age]));

  return (
    <>
      <Head title="Lanes" />
      {lanes.problem && <Failed problem={lanes.problem} retry={lanes.reload} />}
      {!lanes.data && !lanes.problem && <Loading />}
      {lanes.data && !lanes.data.items.length && (
        <Card>
          <Empty icon="lanes" title="There is no lane yet">
            A lane appears with its first task.
          </Empty>
        </Card>
      )}
      <div class="lanes">
        {lanes.data?.items.map((lane) => (
          <LaneCard
            key={lane.name}
            lane={lane}
            age={age.get(lane.name) ?? null}
            reload={lanes.reload}
            onPause={() => setPausing(lane)}
            onEdit={() => setEditing(lane)}
          />
        ))}
      </div>
      {pausing && (
        <PauseDialog lane={pausing} reload={lanes.reload} onClose={() => setPausing(null)} />
      )}
      {editing && (
        <LaneDialog lane={editing} reload={lanes.reload} onClose={() => setEditing(null)} />
      )}
    </>
  );
}

interface LaneCardProps {
  lane: Lane;
  age: number | null;
  reload: () => void;
  onPause: () => void;
  onEdit: () => void;
}

function LaneCard({ lane, age, reload, onPause, onEdit }: LaneCardProps) {
  const full = lane.capacity !== null && lane.running >= lane.capacity;
  const depth = samples.value.slice(-150).map((sample) => {
    const then = sample.lanes[lane.name];
    return then ? then.queued + then.pending : 0;
  });
  const resume = async () => {
    await attempt(() => api.resumeLane(lane.name), `Lane ${lane.name} goes on`);
    reload();
  };
  return (
    <section class={`card lane ${lane.paused ? "is-paused" : ""}`} data-row tabIndex={-1}>
      <header>
        <h2>
          <Link to={toLane(lane.name)}>{lane.name}</Link>
        </h2>
        <div class="aside">
          {mayAct.value && (
            <>
              <Button
                icon="settings"
                tone="quiet"
                small
                label={`Settings of ${lane.name}`}
                onClick={onEdit}
              />
              {lane.paused ? (
                <Button icon="play" tone="primary" small onClick={resume}>
                  Resume
                </Button>
              ) : (
                <Button icon="pause" small onClick={onPause}>
                  Pause
                </Button>
              )}
            </>
          )}
        </div>
      </header>
      <div class="lane-room">
        <div>
          <span class="figure">{number(lane.running)}</span>
          <span class="faint"> of </span>
          <Capacity lane={lane} reload={reload} />
          <span class="faint"> running</span>
        </div>
        <Meter value={lane.running} of={lane.capacity} tone={full ? "full" : ""} />
      </div>
      <dl class="lane-figures">
        <div>
          <dt>queued</dt>
          <dd>{short(lane.queued)}</dd>
        </div>
        <div>
          <dt>pending</dt>
          <dd>{short(lane.pending)}</dd>
        </div>
        <div>
          <dt>oldest</dt>
          <dd>{age ? duration(age) : "–"}</dd>
        </div>
        <Spark values={depth} color="queued" />
      </dl>
      <footer>
        {lane.paused ? (
          <span class="paused-note">
            Paused{lane.paused_reason && `: ${lane.paused_reason}`}
            {lane.paused_until && (
              <>
                {" "}
                · resumes <When at={lane.paused_until} />
              </>
            )}
          </span>
        ) : (
          <span class="faint">{rules(lane)}</span>
        )}
      </footer>
    </section>
  );
}

function rules(lane: Lane): string {
  const told: string[] = [
    { priority: "by priority", fifo: "first in, first out", fair: "fair by group" }[lane.order],
  ];
  if (lane.rate) told.push(`${number(lane.rate.starts)} in ${duration(lane.rate.seconds)}`);
  if (lane.max_depth !== null) told.push(`at most ${short(lane.max_depth)} wait`);
  if (lane.ageing !== null) told.push(`ages every ${duration(lane.ageing)}`);
  return told.join(" · ");
}

/** The capacity, changed by its buttons or by typing; empty means no limit. */
function Capacity({ lane, reload }: { lane: Lane; reload: () => void }) {
  const [typed, setTyped] = useState<string | null>(null);
  // What was asked for last is shown, and counted on from, before the server has said so.
  const [asked, setAsked] = useState<{ capacity: number | null } | null>(null);
  useEffect(() => setAsked(null), [lane.capacity]);
  const { capacity } = asked ?? lane;
  if (!mayAct.value) return <span class="figure">{capacity ?? "∞"}</span>;

  const set = async (wanted: number | null) => {
    setTyped(null);
    if (wanted === capacity) return;
    setAsked({ capacity: wanted });
    const told = wanted === null ? "has no limit" : `has capacity ${number(wanted)}`;
    const change = () => api.changeLane(lane.name, { capacity: wanted });
    if (!(await attempt(change, `Lane ${lane.name} ${told}`))) setAsked(null);
    reload();
  };
  const commit = () => {
    if (typed === null) return;
    const wanted = typed.trim() === "" ? null : Math.floor(Number(typed));
    if (wanted === null || wanted >= 0) void set(wanted);
    else setTyped(null);
  };
  return (
    <span class="stepper">
      <button
        type="button"
        aria-label={`Less capacity for ${lane.name}`}
        disabled={capacity === 0}
        onClick={() => set(Math.max(0, (capacity ?? lane.running + 1) - 1))}
      >
        −
      </button>
      <input
        inputMode="numeric"
        aria-label={`Capacity of ${lane.name}`}
        placeholder="∞"
        value={typed ?? capacity ?? ""}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onBlur={commit}
        onKeyDown={(event) => {
          if (event.key === "Enter") event.currentTarget.blur();
          if (event.key === "Escape") setTyped(null);
        }}
      />
      <button
        type="button"
        aria-label={`More capacity for ${lane.name}`}
        onClick={() => set((capacity ?? lane.running) + 1)}
      >
        +
      </button>
    </span>
  );
}

/** How the yard fares: figures, charts, and what failed last. */

import { useMemo, useState } from "preact/hooks";
import { api } from "../api";
import { duration, number, percent, short } from "../format";
import { useResource } from "../resource";
import { Link, toKind, toLane, toTask } from "../router";
import { points } from "../series";
import { changed, samples, yard } from "../store";
import { type KindStats, STATES, type State } from "../types";
import { Charts, Tiles } from "../ui/figures";
import { Card, Empty, Loading, Meter, Segments, When } from "../ui/parts";
import { Head } from "../ui/shell";

const RANGES = [5, 15, 60].map((value) => ({ value, label: `${value} min` }));

export function OverviewPage() {
  const [minutes, setMinutes] = useState(15);
  const found = useMemo(() => points(samples.value, minutes), [samples.value, minutes]);
  return (
    <>
      <Head title="Overview">
        <Segments label="Time shown" value={minutes} choices={RANGES} onChoose={setMinutes} />
      </Head>
      <Ribbon />
      <Tiles found={found} />
      <Charts found={found} />
      <div class="columns">
        <Kinds />
        <div>
          <Lanes />
          <Failures />
        </div>
      </div>
    </>
  );
}

/** All tasks by state, as one band. */
function Ribbon() {
  const counts = yard.value?.counts ?? {};
  const of = (state: State) => counts[state] ?? 0;
  return (
    <div class="ribbon">
      <div class="band" aria-hidden="true">
        {STATES.filter(of).map((state) => (
          <i key={state} class={state} style={{ flexGrow: of(state) }} />
        ))}
      </div>
      <ul>
        {STATES.map((state) => (
          <li key={state}>
            <Link to={`tasks?state=${state}`} class={state}>
              <i class="dot" />
              <b title={number(of(state))}>{short(of(state))}</b>
              <span>{state}</span>
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Kinds() {
  const stats = useResource("stats", api.stats, changed.stats);
  if (!stats.data) return <Card title="Kinds">{stats.loading && <Loading rows={5} />}</Card>;
  if (!stats.data.kinds.length)
    return (
      <Card title="Kinds">
        <Empty icon="kinds" title="Nothing has run yet" />
      </Card>
    );
  const kinds = [...stats.data.kinds].sort((a, b) => b.count - a.count);
  return (
    <Card title="Kinds" aside={<Link to="kinds">All kinds</Link>}>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>Kind</th>
              <th class="right">Ended</th>
              <th class="right">Success</th>
              <th class="right">Run p50</th>
              <th class="right">p95</th>
              <th class="right">p99</th>
              <th class="right">Wait p95</th>
            </tr>
          </thead>
          <tbody>
            {kinds.slice(0, 12).map((kind) => (
              <KindRow key={kind.kind} kind={kind} />
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

function KindRow({ kind }: { kind: KindStats }) {
  const { success, run, wait } = kind;
  const time = (seconds: number, count: number) => (count ? duration(seconds) : "–");
  return (
    <tr>
      <td>
        <Link to={toKind(kind.kind)} class="strong">
          {kind.kind}
        </Link>
      </td>
      <td class="right">{short(kind.count)}</td>
      <td class={`right ${success !== null && success < 0.95 ? "bad" : ""}`}>
        {success === null ? "–" : percent(success)}
      </td>
      <td class="right">{time(run.p50, run.count)}</td>
      <td class="right">{time(run.p95, run.count)}</td>
      <td class="right">{time(run.p99, run.count)}</td>
      <td class="right">{time(wait.p95, wait.count)}</td>
    </tr>
  );
}

function Lanes() {
  const lanes = useResource("lanes", api.lanes, changed.lanes);
  if (!lanes.data) return null;
  return (
    <Card title="Lanes" aside={<Link to="lanes">All lanes</Link>}>
      <ul class="lane-list">
        {lanes.data.items.slice(0, 8).map((lane) => (
          <li key={lane.name}>
            <Link to={toLane(lane.name)} class="strong">
              {lane.name}
            </Link>
            {lane.paused ? (
              <span class="badge paused">
                <i class="dot" />
                paused
              </span>
            ) : (
              <Meter value={lane.running} of={lane.capacity} />
            )}
            <span class="right">
              {lane.running}
              <span class="faint"> / {lane.capacity ?? "∞"}</span>
            </span>
            <span class="right faint">{short(lane.queued + lane.pending)} wait</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Failures() {
  const failed = useResource(
    "failures",
    () => api.tasks({ state: "failed" }, "", null, 5),
    changed.tasks,
  );
  if (!failed.data) return null;
  return (
    <Card title="Latest failures" aside={<Link to="tasks?state=failed">All failed</Link>}>
      {failed.data.items.length ? (
        <ul class="failures">
          {failed.data.items.map((task) => (
            <li key={task.id}>
              <Link to={toTask(task.id)}>
                <b>{task.kind}</b>
                <span class="faint">
                  <When at={task.ended_at} />
                </span>
                <code>
                  {task.error ? `${task.error.type}: ${task.error.message}` : task.reason}
                </code>
              </Link>
            </li>
          ))}
        </ul>
      ) : (
        <Empty icon="check" title="No task has failed" />
      )}
    </Card>
  );
}

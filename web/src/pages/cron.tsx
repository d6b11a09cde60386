/** Cron: what is started when; edited while everything runs. */

import { useState } from "preact/hooks";
import { api } from "../api";
import { pretty } from "../format";
import { useResource } from "../resource";
import { Link, toKind } from "../router";
import { attempt, changed, mayAct, tell, yard } from "../store";
import type { Cron, Json } from "../types";
import { FormDialog } from "../ui/dialog";
import { Button, Card, Empty, Failed, Field, Loading, When } from "../ui/parts";
import { Head } from "../ui/shell";

export function CronPage() {
  const crons = useResource("crons", api.crons, changed.stats);
  const [editing, setEditing] = useState<Cron | "new" | null>(null);
  const items = crons.data?.items ?? [];
  return (
    <>
      <Head title="Cron">
        {mayAct.value && (
          <Button icon="plus" onClick={() => setEditing("new")}>
            New
          </Button>
        )}
      </Head>
      <Card class="flush">
        {crons.problem ? (
          <Failed problem={crons.problem} retry={crons.reload} />
        ) : !crons.data ? (
          <Loading />
        ) : items.length ? (
          <Table crons={items} reload={crons.reload} onEdit={setEditing} />
        ) : (
          <Empty icon="cron" title="Nothing is started by the clock">
            Declare one with <code>@yard.cron("*/5 * * * *")</code> or make one here.
          </Empty>
        )}
      </Card>
      {editing && (
        <CronDialog
          cron={editing === "new" ? null : editing}
          reload={crons.reload}
          onClose={() => setEditing(null)}
        />
      )}
    </>
  );
}

interface TableProps {
  crons: Cron[];
  reload: () => void;
  onEdit: (cron: Cron) => void;
}

function Table({ crons, reload, onEdit }: TableProps) {
  const flip = async (cron: Cron) => {
    const change = cron.paused ? api.resumeCron : api.pauseCron;
    await attempt(() => change(cron.name), `${cron.name} ${cron.paused ? "goes on" : "is paused"}`);
    reload();
  };
  return (
    <div class="scroll">
      <table class="stacks">
        <thead>
          <tr>
            <th>Name</th>
            <th>Schedule</th>
            <th>Starts</th>
            <th>Missed ticks</th>
            <th class="right">Last</th>
            <th class="right">Next</th>
            <th />
          </tr>
        </thead>
        <tbody>
          {crons.map((cron) => (
            <tr key={cron.name} data-row tabIndex={-1} class={cron.paused ? "gone" : ""}>
              <td>
                <b>{cron.name}</b>
                <small class="faint block">
                  {cron.declared ? "declared by the program" : "made here"}
                </small>
              </td>
              <td data-label="Schedule">
                <code class="schedule">{cron.schedule}</code>
                <small class="faint block">{cron.timezone}</small>
              </td>
              <td data-label="Starts">
                <Link to={toKind(cron.kind)}>{cron.kind}</Link>
                <small class="faint block">{cron.lane}</small>
              </td>
              <td data-label="Missed ticks" class="faint">
                {
                  {
                    skip: "skipped",
                    one: "the last is started",
                    all: "all are started",
                  }[cron.catch_up]
                }
              </td>
              <td data-label="Last" class="right">
                <When at={cron.last_at} />
              </td>
              <td data-label="Next" class="right">
                {cron.paused ? (
                  <span class="badge paused">
                    <i class="dot" />
                    paused
                  </span>
                ) : (
                  <When at={cron.next_at} />
                )}
              </td>
              <td class="right nowrap">
                {mayAct.value && (
                  <>
                    <Button
                      icon={cron.paused ? "play" : "pause"}
                      tone="quiet"
                      small
                      label={`${cron.paused ? "Resume" : "Pause"} ${cron.name}`}
                      onClick={() => flip(cron)}
                    />
                    <Button
                      icon="settings"
                      tone="quiet"
                      small
                      label={`Edit ${cron.name}`}
                      onClick={() => onEdit(cron)}
                    />
                  </>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface CronDialogProps {
  cron: Cron | null;
  reload: () => void;
  onClose: () => void;
}

function CronDialog({ cron, reload, onClose }: CronDialogProps) {
  const [name, setName] = useState(cron?.name ?? "");
  const [schedule, setSchedule] = useState(cron?.schedule ?? "*/5 * * * *");
  const [timezone, setTimezone] = useState(cron?.timezone ?? "UTC");
  const [catchUp, setCatchUp] = useState<Cron["catch_up"]>(cron?.catch_up ?? "one");
  const [kind, setKind] = useState(cron?.kind ?? yard.value?.kinds[0] ?? "");
  const shown = pretty(cron?.params ?? {});
  const [params, setParams] = useState(shown);
  const save = async () => {
    let parsed: Json;
    try {
      parsed = JSON.parse(params) as Json;
    } catch {
      tell("The parameters are no JSON", true);
      return false;
    }
    const when = { schedule, timezone, catch_up: catchUp };
    const what = { kind, params: parsed };
    // Of one that is there, only what has changed: the rest of its task is not shown here.
    const same = kind === cron?.kind && params === shown;
    const done = await attempt(
      () =>
        cron
          ? api.changeCron(name, same ? when : { ...when, ...what })
          : api.putCron(name, { ...when, ...what }),
      `${name} saved`,
    );
    reload();
    return done;
  };
  const remove = async () => {
    if (await attempt(() => api.deleteCron(name), `${name} is gone`)) onClose();
    reload();
  };
  return (
    <FormDialog
      title={cron ? `Cron ${cron.name}` : "New cron"}
      action="Save"
      onSubmit={save}
      onClose={onClose}
    >
      {!cron && (
        <Field label="Name">
          <input required value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </Field>
      )}
      <div class="fields">
        <Field label="Schedule" hint="minute hour day month weekday">
          <input
            class="mono"
            required
            value={schedule}
            onInput={(event) => setSchedule(event.currentTarget.value)}
          />
        </Field>
        <Field label="Time zone">
          <input value={timezone} onInput={(event) => setTimezone(event.currentTarget.value)} />
        </Field>
      </div>
      <div class="fields">
        <Field label="Starts">
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
            {[...new Set([...(yard.value?.kinds ?? []), ...(kind ? [kind] : [])])].map((choice) => (
              <option key={choice}>{choice}</option>
            ))}
          </select>
        </Field>
        <Field label="Missed ticks">
          <select
            value={catchUp}
            onChange={(event) => setCatchUp(event.currentTarget.value as Cron["catch_up"])}
          >
            <option value="skip">skip them</option>
            <option value="one">start the last</option>
            <option value="all">start all</option>
          </select>
        </Field>
      </div>
      <Field label="Parameters">
        <textarea
          class="mono"
          rows={4}
          spellcheck={false}
          value={params}
          onInput={(event) => setParams(event.currentTarget.value)}
        />
      </Field>
      {cron && !cron.declared && (
        <Button icon="trash" tone="danger" small onClick={remove}>
          Delete
        </Button>
      )}
    </FormDialog>
  );
}

/** Kinds: what the program knows how to do, how each fares, and a form to enqueue one. */

import { useEffect, useState } from "preact/hooks";
import { api } from "../api";
import { duration, percent, pretty, short } from "../format";
import { useResource } from "../resource";
import { go, Link, query, toKind, toTask } from "../router";
import { attempt, changed, mayAct, tell } from "../store";
import type { Json, Kind } from "../types";
import { FormDialog } from "../ui/dialog";
import { Button, Card, Empty, Failed, Field, Loading } from "../ui/parts";
import { Head } from "../ui/shell";

export function KindsPage() {
  const kinds = useResource("kinds", api.kinds);
  const stats = useResource("stats", api.stats, changed.stats);
  const items = kinds.data?.items ?? [];
  const wanted = query.value.get("enqueue");
  const chosen = wanted ? items.find((kind) => kind.name === wanted) : undefined;
  const fares = new Map(stats.data?.kinds.map((kind) => [kind.kind, kind]));
  return (
    <>
      <Head title="Kinds" />
      <Card class="flush">
        {kinds.problem ? (
          <Failed problem={kinds.problem} retry={kinds.reload} />
        ) : !kinds.data ? (
          <Loading />
        ) : items.length ? (
          <div class="scroll">
            <table class="stacks">
              <thead>
                <tr>
                  <th>Kind</th>
                  <th>Lane</th>
                  <th>Parameters</th>
                  <th class="right">Timeout</th>
                  <th class="right">Retries</th>
                  <th class="right">Ended</th>
                  <th class="right">Success</th>
                  <th class="right">Run p95</th>
                  <th />
                </tr>
              </thead>
              <tbody>
                {items.map((kind) => {
                  const fare = fares.get(kind.name);
                  return (
                    <tr key={kind.name} data-row tabIndex={-1}>
                      <td>
                        <Link to={toKind(kind.name)} class="strong">
                          {kind.name}
                        </Link>
                        {kind.description && (
                          <small class="faint block">{kind.description.split("\n")[0]}</small>
                        )}
                      </td>
                      <td data-label="Lane">{kind.lane}</td>
                      <td data-label="Parameters" class="chips">
                        {names(kind).map((name) => (
                          <span key={name} class="chip">
                            {name}
                          </span>
                        ))}
                      </td>
                      <td data-label="Timeout" class="right">
                        {kind.timeout ? duration(kind.timeout) : "–"}
                      </td>
                      <td data-label="Retries" class="right">
                        {kind.retries ?? "–"}
                      </td>
                      <td data-label="Ended" class="right">
                        {short(fare?.count ?? 0)}
                      </td>
                      <td
                        data-label="Success"
                        class={`right ${(fare?.success ?? 1) < 0.95 ? "bad" : ""}`}
                      >
                        {fare?.success == null ? "–" : percent(fare.success)}
                      </td>
                      <td data-label="Run p95" class="right">
                        {fare?.run.count ? duration(fare.run.p95) : "–"}
                      </td>
                      <td class="right">
                        {mayAct.value && (
                          <Button
                            small
                            icon="plus"
                            onClick={() => go(`kinds?enqueue=${encodeURIComponent(kind.name)}`)}
                          >
                            Enqueue
                          </Button>
                        )}
                      </td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </div>
        ) : (
          <Empty icon="kinds" title="The program declares no kind">
            Functions become kinds with <code>@yard.task</code>.
          </Empty>
        )}
      </Card>
      {chosen && <EnqueueDialog kind={chosen} onClose={() => go("kinds", "replace")} />}
    </>
  );
}

const HIDDEN = '"***"'; // what the server shows of a secret

type Schema = { [name: string]: Json };

const properties = (kind: Kind): Schema => (kind.parameters.properties ?? {}) as Schema;
const names = (kind: Kind) => Object.keys(properties(kind));

/** A value of the right type for each parameter, to begin with. */
function skeleton(kind: Kind): Json {
  const blank = { string: "", integer: 0, number: 0, boolean: false, array: [], object: {} };
  return Object.fromEntries(
    Object.entries(properties(kind)).map(([name, schema]) => {
      const { default: preset, type } = schema as {
        default?: Json;
        type?: keyof typeof blank;
      };
      return [name, preset ?? (type ? (blank[type] ?? null) : null)];
    }),
  );
}

function EnqueueDialog({ kind, onClose }: { kind: Kind; onClose: () => void }) {
  const given = query.value.get("params");
  const [params, setParams] = useState("{}");
  const [priority, setPriority] = useState("5");
  const [delay, setDelay] = useState("");
  const [keys, setKeys] = useState("");
  useEffect(() => {
    try {
      setParams(pretty(given ? (JSON.parse(given) as Json) : skeleton(kind)));
    } catch {
      setParams(pretty(skeleton(kind)));
    }
  }, [kind.name, given]);

  const enqueue = async () => {
    let parsed: Json;
    try {
      parsed = JSON.parse(params) as Json;
    } catch (error) {
      tell(`The parameters are no JSON: ${(error as Error).message}`, true);
      return false;
    }
    return attempt(async () => {
      const answer = await api.enqueue({
        kind: kind.name,
        params: parsed,
        priority: Number(priority),
        ...(delay && { delay: Number(delay) }),
        ...(keys.trim() && { keys: keys.split(/[\s,]+/).filter(Boolean) }),
      });
      setTimeout(() => go(toTask(answer.id)));
    }, `${kind.name} is enqueued`);
  };
  const rows = Math.min(14, Math.max(4, params.split("\n").length));
  return (
    <FormDialog
      title={`Enqueue ${kind.name}`}
      action="Enqueue"
      disabled={params.includes(HIDDEN)}
      onSubmit={enqueue}
      onClose={onClose}
    >
      <Field label="Parameters (JSON)">
        <textarea
          class="mono"
          rows={rows}
          spellcheck={false}
          value={params}
          onInput={(event) => setParams(event.currentTarget.value)}
        />
      </Field>
      {params.includes(HIDDEN) && (
        <p class="bad">What stands as *** was hidden, being secret. Fill it in again.</p>
      )}
      <div class="fields">
        <Field label="Priority">
          <input
            type="number"
            min="1"
            max="10"
            value={priority}
            onInput={(event) => setPriority(event.currentTarget.value)}
          />
        </Field>
        <Field label="Delay (s)">
          <input
            type="number"
            min="0"
            step="any"
            placeholder="none"
            value={delay}
            onInput={(event) => setDelay(event.currentTarget.value)}
          />
        </Field>
        <Field label="Keys">
          <input
            placeholder="sub:42"
            value={keys}
            onInput={(event) => setKeys(event.currentTarget.value)}
          />
        </Field>
      </div>
    </FormDialog>
  );
}

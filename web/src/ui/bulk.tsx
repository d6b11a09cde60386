/** Acting on many tasks: how many is asked of the server first, and done only then. */

import { useEffect, useState } from "preact/hooks";
import { api } from "../api";
import { moment, number, plural } from "../format";
import { complain, tell } from "../store";
import type { Action, Filter } from "../types";
import { FormDialog } from "./dialog";

export type Bulk = { action: Action; ids: string[] } | { action: Action; filter: Filter };

const DONE = {
  cancel: "cancelled",
  pause: "paused",
  resume: "resumed",
  retry: "retried",
  prioritize: "moved",
};
const AT_ONCE = 8;

interface BulkProps {
  bulk: Bulk;
  onClose: () => void;
  onDone: () => void;
}

export function BulkDialog({ bulk, onClose, onDone }: BulkProps) {
  const { action } = bulk;
  const [count, setCount] = useState("ids" in bulk ? bulk.ids.length : null);
  const [more, setMore] = useState(false); // than were counted
  const [done, setDone] = useState<number | null>(null);
  useEffect(() => {
    if ("filter" in bulk)
      api.actOnAll(action, bulk.filter, true).then((answer) => {
        setCount(answer.matched);
        setMore(answer.more);
      }, complain);
  }, []);

  const run = async () => {
    try {
      const finished =
        "ids" in bulk
          ? await each(action, bulk.ids, setDone)
          : await inTurns(action, bulk.filter, setDone);
      tell(`${plural(finished, "task")} ${DONE[action]}`);
      onDone();
      return true;
    } catch (error) {
      complain(error);
      setDone(null);
      return false;
    }
  };
  const many = more ? `more than ${plural(count ?? 0, "task")}` : plural(count ?? 0, "task");
  const verb = action[0]!.toUpperCase() + action.slice(1);
  return (
    <FormDialog
      title={count === null ? `${verb} tasks` : `${verb} ${many}?`}
      action={count === null ? "Counting…" : `${verb} ${number(count)}${more ? "+" : ""}`}
      tone={action === "cancel" ? "danger" : "primary"}
      disabled={!count || done !== null}
      onSubmit={run}
      onClose={onClose}
    >
      <p>
        {"ids" in bulk ? "The tasks you selected." : <Described filter={bulk.filter} />}{" "}
        {action === "cancel" && "Running ones are asked to stop; nothing that has ended changes."}
        {action === "retry" && "Each begins again with its full number of retries."}
      </p>
      {done !== null && count !== null && (
        <p role="status">
          {number(done)} of {more ? "more than " : ""}
          {number(count)} done
        </p>
      )}
    </FormDialog>
  );
}

function Described({ filter }: { filter: Filter }) {
  const { since, until, ...named } = filter;
  const parts = Object.entries(named).map(([name, value]) => [name, value] as const);
  if (since) parts.push(["created from", moment(since)]);
  if (until) parts.push([since ? "to" : "created to", moment(until)]);
  return (
    <>
      Every task with{" "}
      {parts.map(([name, value], at) => (
        <span key={name}>
          {at > 0 && ", "}
          {name} <code>{value}</code>
        </span>
      ))}
      , on this page or not.
    </>
  );
}

/** The chosen ones, a few at a time; one that has moved on meanwhile is not an error of the rest. */
async function each(action: Action, ids: string[], told: (done: number) => void) {
  let done = 0;
  const left = [...ids];
  const refused: unknown[] = [];
  const hand = async () => {
    for (let id = left.pop(); id !== undefined; id = left.pop()) {
      try {
        await api.act(id, action);
        told(++done);
      } catch (error) {
        refused.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, hand));
  if (refused.length) complain(refused[0]);
  return done;
}

/** The server does a bounded number each time and says whether there are more. */
async function inTurns(action: Action, filter: Filter, told: (done: number) => void) {
  let done = 0;
  for (;;) {
    const turn = await api.actOnAll(action, filter, false);
    done += turn.done;
    told(done);
    if (!turn.more || !turn.done) return done;
  }
}

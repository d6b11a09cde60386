/** Every attempt of a task on one scale of time: how long it waited, how long it ran, how it ended. */

import { useState } from "preact/hooks";
import { duration, moment } from "../format";
import { now } from "../store";
import type { Attempt, TaskView } from "../types";
import { Copy } from "./parts";

interface Span {
  from: number;
  to: number;
}

export function Timeline({ task }: { task: TaskView }) {
  const begin = Date.parse(task.created_at);
  const end = Math.max(task.ended_at ? Date.parse(task.ended_at) : now.value, begin + 1);
  const share = (at: number) => Math.min(1, Math.max(0, (at - begin) / (end - begin)));
  let free = begin;
  const rows = task.attempts.map((attempt) => {
    const from = attempt.started_at ? Date.parse(attempt.started_at) : free;
    const to = attempt.ended_at ? Date.parse(attempt.ended_at) : end;
    const row = { attempt, wait: { from: free, to: from }, run: { from, to } };
    free = to;
    return row;
  });
  const waits = !task.ended_at && task.state !== "running";
  return (
    <div class="timeline">
      <Event name="created" at={task.created_at} />
      {rows.map(({ attempt, wait, run }) => (
        <Row key={attempt.attempt} attempt={attempt} wait={wait} run={run} share={share} />
      ))}
      {waits && (
        <div class="span">
          <span class="name">{task.state}</span>
          <Bars share={share} wait={{ from: free, to: end }} />
          <span class="took">{duration((end - free) / 1000)}</span>
        </div>
      )}
      {task.ended_at && <Event name={`${task.state} (${task.reason})`} at={task.ended_at} />}
    </div>
  );
}

function Event({ name, at }: { name: string; at: string }) {
  return (
    <div class="event">
      <span class="name">{name}</span>
      <time dateTime={at}>{moment(at)}</time>
    </div>
  );
}

interface RowProps {
  attempt: Attempt;
  wait: Span;
  run: Span;
  share: (at: number) => number;
}

function Row({ attempt, wait, run, share }: RowProps) {
  const [open, setOpen] = useState(false);
  const tone = toneOf(attempt);
  const { error } = attempt;
  return (
    <>
      <div class="span">
        <span class="name">
          Attempt {attempt.attempt}
          <small class={tone}>{attempt.outcome}</small>
        </span>
        <Bars share={share} wait={wait} run={run} tone={tone} />
        <span class="took">{duration((run.to - run.from) / 1000)}</span>
      </div>
      {attempt.started_at && (
        <div class="note">
          <span class="faint">
            {attempt.node && `${attempt.node} · `}
            waited {duration((wait.to - wait.from) / 1000)}
          </span>
          {error && (
            <code class="bad">
              {error.type}: {error.message}
            </code>
          )}
          {error?.stack && (
            <button
              type="button"
              class="linklike"
              aria-expanded={open}
              onClick={() => setOpen(!open)}
            >
              {open ? "hide" : "stack"}
            </button>
          )}
        </div>
      )}
      {open && error?.stack && (
        <div class="code">
          <Copy text={error.stack} />
          <pre class="stack" tabIndex={0}>
            {error.stack}
          </pre>
        </div>
      )}
    </>
  );
}

function toneOf(attempt: Attempt): string {
  if (!attempt.ended_at) return "running";
  if (attempt.outcome === "completed") return "completed";
  if (["released", "rescued", "snoozed"].includes(attempt.outcome)) return "queued";
  if (["cancelled", "operator", "system", "body"].includes(attempt.outcome)) return "cancelled";
  return "failed";
}

function Bars({
  share,
  wait,
  run,
  tone,
}: {
  share: (at: number) => number;
  wait: Span;
  run?: Span;
  tone?: string;
}) {
  const place = ({ from, to }: Span) => ({
    left: `${share(from) * 100}%`,
    width: `${(share(to) - share(from)) * 100}%`,
  });
  return (
    <span class="bars">
      <i class="wait" style={place(wait)} />
      {run && <i class={`run ${tone}`} style={place(run)} />}
    </span>
  );
}

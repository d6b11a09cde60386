/** Tasks as rows: where each is, what it is about, how long it took. */

import { between, duration, since } from "../format";
import { go, Link, toTask } from "../router";
import { mayAct, now } from "../store";
import type { TaskSummary } from "../types";
import { ProgressBar, StateBadge, When } from "./parts";

interface TableProps {
  tasks: TaskSummary[];
  selected: ReadonlySet<string>;
  choose: (id: string, chosen: boolean) => void;
  chooseAll: (all: boolean) => void;
}

export function TaskTable({ tasks, selected, choose, chooseAll }: TableProps) {
  return (
    <div class="scroll">
      <table class="tasks">
        <thead>
          <tr>
            {mayAct.value && (
              <th class="tick">
                <input
                  type="checkbox"
                  aria-label="Select all on this page"
                  checked={selected.size === tasks.length}
                  onChange={(event) => chooseAll(event.currentTarget.checked)}
                />
              </th>
            )}
            <th class="state">State</th>
            <th class="name">Task</th>
            <th class="lane-cell">Lane</th>
            <th class="right pri">Priority</th>
            <th class="right try">Attempt</th>
            <th>Details</th>
            <th class="right took">Took</th>
            <th class="right when">When</th>
          </tr>
        </thead>
        <tbody>
          {tasks.map((task) => (
            <Row key={task.id} task={task} selected={selected.has(task.id)} choose={choose} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface RowProps {
  task: TaskSummary;
  selected: boolean;
  choose: (id: string, chosen: boolean) => void;
}

function Row({ task, selected, choose }: RowProps) {
  return (
    <tr
      data-row
      tabIndex={-1}
      class={selected ? "selected" : ""}
      onClick={(event) => {
        const target = event.target as Element;
        if (!target.closest("a, input, button") && !getSelection()?.toString()) go(toTask(task.id));
      }}
    >
      {mayAct.value && (
        <td class="tick">
          <input
            type="checkbox"
            aria-label={`Select ${task.id}`}
            checked={selected}
            onChange={(event) => choose(task.id, event.currentTarget.checked)}
          />
        </td>
      )}
      <td class="state">
        <StateBadge state={task.state} asked={task.asked} />
      </td>
      <td class="name">
        <Link to={toTask(task.id)} title={task.id}>
          <b>{task.kind}</b> <code>{task.id}</code>
        </Link>
      </td>
      <td class="lane-cell">{task.lane}</td>
      <td class={`right pri ${task.priority === 5 ? "faint" : ""}`}>{task.priority}</td>
      <td class={`right try ${task.attempt > 1 ? "" : "faint"}`}>{task.attempt}</td>
      <td class="what">
        <What task={task} />
      </td>
      <td class="right took">{took(task)}</td>
      <td class="right when">
        <When at={moved(task)} />
      </td>
    </tr>
  );
}

function What({ task }: { task: TaskSummary }) {
  if (task.state === "running" && task.progress) return <ProgressBar progress={task.progress} />;
  if (task.error && task.state !== "completed")
    return <span class="bad">{`${task.error.type}: ${task.error.message}`}</span>;
  return <span class="faint">{task.keys.join(", ")}</span>;
}

/** When it came, or will come, to where it is. */
const moved = (task: TaskSummary) =>
  task.ended_at ?? (task.state === "running" ? task.started_at : task.run_at);

function took(task: TaskSummary): string {
  if (!task.started_at) return "";
  if (task.ended_at) return duration(Math.max(0, between(task.started_at, task.ended_at)));
  return task.state === "running"
    ? duration(Math.max(0, Math.floor(since(task.started_at, now.value))))
    : "";
}

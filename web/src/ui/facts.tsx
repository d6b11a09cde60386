/** All that is known of a task beside what became of it. */

import { between, duration, number, since } from "../format";
import { go, Link, toKind, toLane, toTask } from "../router";
import { mayAct, now } from "../store";
import type { TaskView } from "../types";
import { Button, Card, When } from "./parts";

export function Facts({ task }: { task: TaskView }) {
  const ran =
    task.started_at &&
    (task.ended_at
      ? between(task.started_at, task.ended_at)
      : task.state === "running"
        ? since(task.started_at, now.value)
        : null);
  return (
    <Card title="Facts" class="facts">
      <dl>
        <dt>Kind</dt>
        <dd>
          <Link to={toKind(task.kind)}>{task.kind}</Link>
        </dd>
        <dt>Lane</dt>
        <dd>
          <Link to={toLane(task.lane)}>{task.lane}</Link>
        </dd>
        <dt>Priority</dt>
        <dd>{task.priority}</dd>
        <dt>Attempts</dt>
        <dd>
          {number(task.attempt)}{" "}
          <span class="faint">
            ({task.charged} of {task.max_charged} charged)
          </span>
        </dd>
        <dt>Created</dt>
        <dd>
          <When at={task.created_at} />
        </dd>
        {task.state === "pending" && <dt>Due</dt>}
        {task.state === "pending" && (
          <dd>
            <When at={task.run_at} />
          </dd>
        )}
        {ran != null && ran !== "" && <dt>Ran</dt>}
        {ran != null && ran !== "" && <dd>{duration(Math.max(0, ran))}</dd>}
        <Fact name="Worker" value={task.node} />
        <Fact name="Timeout" value={duration(task.timeout)} />
        {task.deadline && <dt>Deadline</dt>}
        {task.deadline && (
          <dd>
            <When at={task.deadline} />
          </dd>
        )}
        {task.keys.length > 0 && <dt>Keys</dt>}
        {task.keys.length > 0 && (
          <dd>
            {task.keys.map((key) => (
              <Link key={key} to={`tasks?key=${encodeURIComponent(key)}`} class="chip">
                {key}
              </Link>
            ))}
          </dd>
        )}
        <Fact name="Group" value={task.group} />
        <Fact name="Dedup" value={task.dedup} />
        <Fact name="Requires" value={task.requires.join(", ")} />
        <Fact name="Losses" value={task.losses ? number(task.losses) : ""} />
        {task.depends_on.length > 0 && <dt>Depends on</dt>}
        {task.depends_on.length > 0 && (
          <dd>
            {task.depends_on.slice(0, 8).map((id) => (
              <Link key={id} to={toTask(id)} class="chip">
                {id}
              </Link>
            ))}
            {task.depends_on.length > 8 && ` and ${number(task.depends_on.length - 8)} more`}
          </dd>
        )}
      </dl>
      {mayAct.value && (
        <Button icon="plus" small onClick={() => go(copyOf(task))}>
          Enqueue another like it
        </Button>
      )}
    </Card>
  );
}

const copyOf = (task: TaskView) =>
  `kinds?${new URLSearchParams({ enqueue: task.kind, params: JSON.stringify(task.payload) })}`;

function Fact({ name, value }: { name: string; value: string | null }) {
  if (!value) return null;
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}

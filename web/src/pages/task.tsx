/** One task: what it is, what became of each attempt, and why it waits. */

import { useState } from "preact/hooks";
import { api } from "../api";
import { progress as told } from "../format";
import { useResource } from "../resource";
import { Link, toTask } from "../router";
import { attempt, mayAct, tasksMoved } from "../store";
import type { Action, TaskError, TaskView } from "../types";
import { FormDialog } from "../ui/dialog";
import {
  Button,
  Card,
  Copy,
  Failed,
  Field,
  JsonBlock,
  Loading,
  Meter,
  StateBadge,
} from "../ui/parts";
import { Facts } from "../ui/facts";
import { Logs } from "../ui/logs";
import { Head } from "../ui/shell";
import { Timeline } from "../ui/timeline";

export function TaskPage({ id }: { id: string }) {
  const found = useResource(id, () => api.task(id), tasksMoved);
  const task = found.data;
  if (found.problem) return <Failed problem={found.problem} retry={found.reload} />;
  if (!task) return <Loading rows={10} />;
  return (
    <>
      <Head title={`${task.kind}`}>
        <Actions task={task} reload={found.reload} />
      </Head>
      <div class="task-line">
        <StateBadge state={task.state} asked={task.asked} />
        <Copy text={task.id}>
          <code>{task.id}</code>
        </Copy>
        {task.progress && task.state === "running" && (
          <span class="task-progress">
            <Meter value={task.progress.done} of={task.progress.total} />
            {told(task.progress)}
          </span>
        )}
      </div>
      <div class="columns task-columns">
        <div>
          <Waits task={task} />
          {task.error && task.state !== "completed" && <ErrorCard error={task.error} />}
          <Card title="Timeline">
            <Timeline task={task} />
          </Card>
          <Logs task={task} />
          {task.result !== null && (
            <Card title="Result">
              <JsonBlock value={task.result} />
            </Card>
          )}
          <Card title="Parameters">
            <JsonBlock value={task.payload} />
          </Card>
          {task.checkpoint !== null && (
            <Card title="Checkpoint">
              <JsonBlock value={task.checkpoint} />
            </Card>
          )}
        </div>
        <Facts task={task} />
      </div>
    </>
  );
}

const ENDED = ["completed", "failed", "cancelled"];

function Actions({ task, reload }: { task: TaskView; reload: () => void }) {
  const [asking, setAsking] = useState<"cancel" | "prioritize" | null>(null);
  if (!mayAct.value) return null;
  const act = async (action: Action, done: string, priority?: number) => {
    const well = await attempt(() => api.act(task.id, action, priority), done);
    reload();
    return well;
  };
  const may = (action: Action) => task.actions.includes(action);
  return (
    <>
      {may("prioritize") && (
        <Button icon="up" onClick={() => setAsking("prioritize")}>
          Priority
        </Button>
      )}
      {may("pause") && !task.asked && (
        <Button icon="pause" onClick={() => act("pause", "Asked to pause")}>
          Pause
        </Button>
      )}
      {may("resume") && (
        <Button icon="play" tone="primary" onClick={() => act("resume", "It goes on")}>
          Resume
        </Button>
      )}
      {may("retry") && (
        <Button icon="retry" tone="primary" onClick={() => act("retry", "It is tried again")}>
          Retry
        </Button>
      )}
      {may("cancel") && task.asked !== "cancel" && (
        <Button icon="stop" tone="danger" onClick={() => setAsking("cancel")}>
          Cancel
        </Button>
      )}
      {asking === "cancel" && (
        <FormDialog
          title="Cancel this task?"
          action="Cancel the task"
          tone="danger"
          onSubmit={() => act("cancel", "Cancelled")}
          onClose={() => setAsking(null)}
        >
          <p>
            {task.state === "running"
              ? "It runs: its body is asked to stop."
              : "It will not be started. It can be retried later."}
          </p>
        </FormDialog>
      )}
      {asking === "prioritize" && (
        <Prioritize
          task={task}
          act={(priority) => act("prioritize", `Priority ${priority}`, priority)}
          onClose={() => setAsking(null)}
        />
      )}
    </>
  );
}

interface PrioritizeProps {
  task: TaskView;
  act: (priority: number) => Promise<boolean>;
  onClose: () => void;
}

function Prioritize({ task, act, onClose }: PrioritizeProps) {
  const [priority, setPriority] = useState(task.priority);
  return (
    <FormDialog title="Priority" action="Set" onSubmit={() => act(priority)} onClose={onClose}>
      <Field label={`${priority}`} hint="1 is started first, 10 last.">
        <input
          type="range"
          min="1"
          max="10"
          value={priority}
          onInput={(event) => setPriority(Number(event.currentTarget.value))}
        />
      </Field>
    </FormDialog>
  );
}

function Waits({ task }: { task: TaskView }) {
  if (ENDED.includes(task.state) || task.state === "running") return null;
  const texts = task.waits.length ? task.waits.map((wait) => wait.text) : [task.why];
  return (
    <Card title="Why it waits" class="waits">
      <ul>
        {texts.map((text) => (
          <li key={text}>{linked(text)}</li>
        ))}
      </ul>
    </Card>
  );
}

const TASK_ID = /\b([0-9a-hjkmnp-tv-z]{26})\b/;

/** The text with every id of a task as a link to it. */
const linked = (text: string) =>
  text.split(TASK_ID).map((part, at) =>
    at % 2 ? (
      <Link key={at} to={toTask(part)} class="linklike">
        <code>{part}</code>
      </Link>
    ) : (
      part
    ),
  );

function ErrorCard({ error }: { error: TaskError }) {
  return (
    <Card title={error.type} class="error">
      <p class="message">{error.message}</p>
      {error.stack && (
        <div class="code">
          <Copy text={error.stack} />
          <pre class="stack" tabIndex={0}>
            {error.stack}
          </pre>
        </div>
      )}
    </Card>
  );
}

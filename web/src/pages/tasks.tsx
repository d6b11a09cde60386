/** Tasks: found by filters that live in the URL, a page at a time, acted on alone or together. */

import { useEffect, useState } from "preact/hooks";
import { api } from "../api";
import { between, duration, number, plural, short, since } from "../format";
import { useResource } from "../resource";
import { go, Link, query, toTask, withQuery } from "../router";
import { mayAct, now, tasksMoved, yard } from "../store";
import { type Action, type Filter, STATES, type State, type TaskSummary } from "../types";
import { BulkDialog, type Bulk } from "../ui/bulk";
import { Button, Card, Empty, Failed, Loading, ProgressBar, StateBadge, When } from "../ui/parts";
import { Head } from "../ui/shell";

const FILTERS = ["kind", "lane", "key"] as const;

function filterOf(params: URLSearchParams): Filter {
  const filter: Filter = {};
  const state = params.get("state");
  if (STATES.includes(state as State)) filter.state = state as State;
  for (const name of FILTERS) {
    const value = params.get(name);
    if (value) filter[name] = value;
  }
  return filter;
}

export function TasksPage() {
  const params = query.value;
  const filter = filterOf(params);
  const q = params.get("q") ?? "";
  const cursor = params.get("cursor");
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [bulk, setBulk] = useState<Bulk | null>(null);
  const found = useResource(
    params.toString(),
    () => api.tasks(filter, q, cursor),
    tasksMoved,
    bulk !== null,
  );
  const items = found.data?.items ?? [];
  useEffect(() => setSelected(new Set()), [params.toString()]);

  const choose = (id: string, chosen: boolean) => {
    const next = new Set(selected);
    if (chosen) next.add(id);
    else next.delete(id);
    setSelected(next);
  };
  const act = (action: Action) =>
    setBulk(selected.size ? { action, ids: [...selected] } : { action, filter });

  return (
    <>
      <Head title="Tasks">
        {mayAct.value && (selected.size > 0 || !q) && (
          <Actions
            count={selected.size}
            filter={filter}
            tasks={items.filter((task) => selected.has(task.id))}
            act={act}
          />
        )}
      </Head>
      <States chosen={filter.state} />
      <Filters filter={filter} q={q} />
      <Card class="flush">
        {found.problem ? (
          <Failed problem={found.problem} retry={found.reload} />
        ) : !found.data ? (
          <Loading rows={14} />
        ) : items.length ? (
          <Table
            tasks={items}
            selected={selected}
            choose={choose}
            chooseAll={(all) => setSelected(new Set(all ? items.map((task) => task.id) : []))}
          />
        ) : (
          <Nothing filtered={!!q || Object.keys(filter).length > 0} />
        )}
        {(cursor || found.data?.next) && <Pager next={found.data?.next ?? null} first={!cursor} />}
      </Card>
      {bulk && (
        <BulkDialog
          bulk={bulk}
          onClose={() => setBulk(null)}
          onDone={() => {
            setSelected(new Set());
            found.reload();
          }}
        />
      )}
    </>
  );
}

/** Which actions can do something in which state. */
const POSSIBLE: Record<Action, readonly State[]> = {
  cancel: ["pending", "queued", "running", "paused"],
  pause: ["pending", "queued", "running"],
  resume: ["paused"],
  retry: ["failed", "cancelled"],
  prioritize: [],
};
const ICONS = { cancel: "stop", pause: "pause", resume: "play", retry: "retry" } as const;

interface ActionsProps {
  count: number;
  filter: Filter;
  tasks: TaskSummary[];
  act: (action: Action) => void;
}

function Actions({ count, filter, tasks, act }: ActionsProps) {
  if (!count && !Object.keys(filter).length) return null;
  const states = count ? tasks.map((task) => task.state) : filter.state ? [filter.state] : STATES;
  const may = (action: Action) => states.some((state) => POSSIBLE[action].includes(state));
  const shown = (["retry", "resume", "pause", "cancel"] as const).filter(may);
  if (!shown.length) return null;
  return (
    <div class="actions">
      <span class="faint">{count ? `${number(count)} selected` : "All that match"}</span>
      {shown.map((action) => (
        <Button
          key={action}
          icon={ICONS[action]}
          small
          tone={action === "cancel" ? "danger" : undefined}
          onClick={() => act(action)}
        >
          {action[0]!.toUpperCase() + action.slice(1)}
          {count ? "" : " all"}
        </Button>
      ))}
    </div>
  );
}

function States({ chosen }: { chosen: State | undefined }) {
  const counts = yard.value?.counts ?? {};
  const total = STATES.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  return (
    <nav class="tabs" aria-label="State">
      <Link to={withQuery({ state: null, cursor: null })} current={!chosen}>
        All <b>{short(total)}</b>
      </Link>
      {STATES.map((state) => (
        <Link
          key={state}
          to={withQuery({ state, cursor: null })}
          current={state === chosen}
          class={state}
        >
          <i class="dot" />
          {state} <b>{short(counts[state] ?? 0)}</b>
        </Link>
      ))}
    </nav>
  );
}

function Filters({ filter, q }: { filter: Filter; q: string }) {
  const lanes = useResource("lanes", api.lanes);
  const set = (name: string, value: string) =>
    go(withQuery({ [name]: value.trim() || null, cursor: null }), "replace");
  const kinds = [...new Set([...(yard.value?.kinds ?? []), ...(filter.kind ? [filter.kind] : [])])];
  const names = lanes.data?.items.map((lane) => lane.name) ?? [];
  if (filter.lane && !names.includes(filter.lane)) names.push(filter.lane);
  const any = q || filter.kind || filter.lane || filter.key;
  return (
    <div class="filters">
      <Chooser
        label="Kind"
        any="Any kind"
        value={filter.kind}
        choices={kinds.sort()}
        onChoose={(value) => set("kind", value)}
      />
      <Chooser
        label="Lane"
        any="Any lane"
        value={filter.lane}
        choices={names.sort()}
        onChoose={(value) => set("lane", value)}
      />
      <input
        key={filter.key}
        class={filter.key ? "set" : ""}
        placeholder="Key, as in sub:42"
        aria-label="Key"
        defaultValue={filter.key ?? ""}
        onChange={(event) => set("key", event.currentTarget.value)}
      />
      {q && (
        <span class="chip">
          “{q}”
          <button type="button" aria-label="Forget the search" onClick={() => set("q", "")}>
            ×
          </button>
        </span>
      )}
      {any && (
        <Link to={filter.state ? `tasks?state=${filter.state}` : "tasks"} class="linklike">
          Clear
        </Link>
      )}
    </div>
  );
}

interface ChooserProps {
  label: string;
  any: string;
  value: string | undefined;
  choices: string[];
  onChoose: (value: string) => void;
}

function Chooser({ label, any, value, choices, onChoose }: ChooserProps) {
  return (
    <select
      aria-label={label}
      class={value ? "set" : ""}
      value={value ?? ""}
      onChange={(event) => onChoose(event.currentTarget.value)}
    >
      <option value="">{any}</option>
      {choices.map((choice) => (
        <option key={choice} value={choice}>
          {choice}
        </option>
      ))}
    </select>
  );
}

interface TableProps {
  tasks: TaskSummary[];
  selected: ReadonlySet<string>;
  choose: (id: string, chosen: boolean) => void;
  chooseAll: (all: boolean) => void;
}

function Table({ tasks, selected, choose, chooseAll }: TableProps) {
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
            <th>State</th>
            <th>Task</th>
            <th>Lane</th>
            <th class="right">Priority</th>
            <th class="right">Attempt</th>
            <th>What</th>
            <th class="right">Took</th>
            <th class="right">When</th>
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
    return <code class="bad">{`${task.error.type}: ${task.error.message}`}</code>;
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

function Nothing({ filtered }: { filtered: boolean }) {
  if (!filtered)
    return (
      <Empty icon="tasks" title="The yard is empty">
        Tasks appear here as soon as they are enqueued. <Link to="kinds">Enqueue one</Link>.
      </Empty>
    );
  return (
    <Empty icon="search" title="No task matches">
      <Link to="tasks">Show all tasks</Link>
    </Empty>
  );
}

function Pager({ next, first }: { next: string | null; first: boolean }) {
  return (
    <footer class="pager">
      <span class="faint">{first ? `The newest ${plural(50, "task")}` : "Older tasks"}</span>
      <Button icon="left" small disabled={first} onClick={() => go(withQuery({ cursor: null }))}>
        Newest
      </Button>
      <Button small disabled={first} onClick={() => history.back()}>
        Back
      </Button>
      <Button small disabled={!next} onClick={() => next && go(withQuery({ cursor: next }))}>
        Older
      </Button>
    </footer>
  );
}

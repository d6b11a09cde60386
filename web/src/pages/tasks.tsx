/** Tasks: found by filters that live in the URL, a page at a time, acted on alone or together. */

import { useEffect, useState } from "preact/hooks";
import { api } from "../api";
import { createdIn } from "../created";
import { plural } from "../format";
import { useResource } from "../resource";
import { go, Link, query, withQuery } from "../router";
import { mayAct, tasksMoved } from "../store";
import { type Action, type Filter, STATES, type State } from "../types";
import { type Bulk, BulkDialog } from "../ui/bulk";
import { BulkActions } from "../ui/bulk-actions";
import { Button, Card, Empty, Failed, Loading } from "../ui/parts";
import { Head } from "../ui/shell";
import { Filters, StateTabs } from "../ui/task-filters";
import { TaskTable } from "../ui/task-table";

const FILTERS = ["kind", "lane", "key"] as const;

function filterOf(params: URLSearchParams): Filter {
  const filter: Filter = {};
  const state = params.get("state");
  if (STATES.includes(state as State)) filter.state = state as State;
  for (const name of FILTERS) {
    const value = params.get(name);
    if (value) filter[name] = value;
  }
  return { ...filter, ...createdIn(params) };
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
    () => api.tasks(filterOf(params), q, cursor),
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
    setBulk(selected.size ? { action, ids: [...selected] } : { action, filter: filterOf(params) });

  return (
    <>
      <Head title="Tasks">
        {mayAct.value && (selected.size > 0 || !q) && (
          <BulkActions
            count={selected.size}
            filter={filter}
            tasks={items.filter((task) => selected.has(task.id))}
            act={act}
          />
        )}
      </Head>
      <StateTabs chosen={filter.state} />
      <Filters filter={filter} q={q} />
      <Card class="flush">
        {found.problem ? (
          <Failed problem={found.problem} retry={found.reload} />
        ) : !found.data ? (
          <Loading rows={14} />
        ) : items.length ? (
          <TaskTable
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

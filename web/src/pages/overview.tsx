/** How the yard fares: figures, charts, and what failed last. */

import { useMemo, useState } from "preact/hooks";
import { api } from "../api";
import { duration, number, percent, short } from "../format";
import { useResource } from "../resource";
import { Link, toKind, toLane, toTask } from "../router";
import { deepest, type Point, points } from "../series";
import { changed, samples, yard } from "../store";
import { type KindStats, STATES, type State } from "../types";
import { Chart, type Line, Spark } from "../ui/chart";
import { Card, Empty, Loading, Meter, Segments, When } from "../ui/parts";
import { Head } from "../ui/shell";

const RANGES = [5, 15, 60].map((value) => ({ value, label: `${value} min` }));
const LANE_COLORS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];

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
        {STATES.map((state) => (
          // The root keeps a few running beside a million completed in sight.
          <i key={state} class={state} style={{ flexGrow: Math.sqrt(of(state)) }} />
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

interface TileProps {
  name: string;
  value: string;
  unit?: string;
  values: number[];
  color: string;
}

function Tile({ name, value, unit, values, color }: TileProps) {
  return (
    <div class="tile">
      <span>{name}</span>
      <strong>
        {value}
        {unit && <small>{unit}</small>}
      </strong>
      <Spark values={values} color={color} />
    </div>
  );
}

const figure = (value: number) => (value < 10 ? value.toFixed(1) : short(Math.round(value)));
const known = (values: (number | null | undefined)[]) => values.map((value) => value ?? 0);

function Tiles({ found }: { found: Point[] }) {
  const recent = found.slice(-5);
  const mean = (of: (point: Point) => number) =>
    recent.reduce((sum, point) => sum + of(point), 0) / (recent.length || 1);
  const latest = (of: (point: Point) => number | null | undefined) =>
    found.map(of).findLast((value) => value != null);
  const wait = latest((point) => point.wait[1]);
  const run = latest((point) => point.run[1]);
  const last = found[found.length - 1];
  return (
    <div class="tiles">
      <Tile
        name="Completed"
        value={figure(mean((point) => point.completed))}
        unit="/s"
        values={found.map((point) => point.completed)}
        color="completed"
      />
      <Tile
        name="Failed"
        value={figure(mean((point) => point.failed))}
        unit="/s"
        values={found.map((point) => point.failed)}
        color="failed"
      />
      <Tile
        name="Running"
        value={number(last?.running ?? 0)}
        values={found.map((point) => point.running)}
        color="running"
      />
      <Tile
        name="Waiting"
        value={short(last?.waiting ?? 0)}
        values={found.map((point) => point.waiting)}
        color="queued"
      />
      <Tile
        name="Wait p95"
        value={wait == null ? "–" : duration(wait)}
        values={known(found.map((point) => point.wait[1]))}
        color="accent"
      />
      <Tile
        name="Run p95"
        value={run == null ? "–" : duration(run)}
        values={known(found.map((point) => point.run[1]))}
        color="accent"
      />
    </div>
  );
}

const PERCENTILES = [
  ["p50", "--c1"],
  ["p95", "--c2"],
  ["p99", "--c4"],
] as const;

const percentiles = (found: Point[], of: "wait" | "run"): Line[] =>
  PERCENTILES.map(([label, color], at) => ({
    label,
    color,
    values: found.map((point) => point[of][at] ?? null),
  }));

function Charts({ found }: { found: Point[] }) {
  const times = useMemo(() => found.map((point) => point.at), [found]);
  const lanes = useMemo(() => deepest(found, LANE_COLORS.length).sort(), [found]);
  if (found.length < 2)
    return (
      <Card>
        <Empty icon="overview" title="Gathering samples">
          The charts begin a few seconds after the server does.
        </Empty>
      </Card>
    );
  const perSecond = (value: number) => `${figure(value)}/s`;
  const rates = (of: "completed" | "finished" | "failed" | "retried") =>
    found.map((point) => point[of]);
  const charts: { title: string; format: (value: number) => string; lines: Line[] }[] = [
    {
      title: "Throughput",
      format: perSecond,
      lines: [
        {
          label: "completed",
          color: "--completed",
          values: rates("completed"),
          fill: true,
        },
        { label: "attempts", color: "--c1", values: rates("finished") },
      ],
    },
    {
      title: "Waiting by lane",
      format: short,
      lines: lanes.map((name, at) => ({
        label: name,
        color: LANE_COLORS[at]!,
        values: found.map((point) => point.lanes[name] ?? 0),
      })),
    },
    {
      title: "Failures",
      format: perSecond,
      lines: [
        { label: "retried", color: "--queued", values: rates("retried"), fill: true },
        { label: "failed", color: "--failed", values: rates("failed"), fill: true },
      ],
    },
    { title: "Wait time", format: duration, lines: percentiles(found, "wait") },
    { title: "Run time", format: duration, lines: percentiles(found, "run") },
    {
      title: "Running",
      format: short,
      lines: [
        {
          label: "tasks",
          color: "--running",
          values: found.map((point) => point.running),
          fill: true,
        },
      ],
    },
  ];
  return (
    <div class="charts">
      {charts.map(({ title, lines, format }) => (
        <Card key={title}>
          <Chart label={title} times={times} lines={lines} format={format} />
        </Card>
      ))}
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

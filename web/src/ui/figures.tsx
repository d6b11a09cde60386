/** The figures and charts of the overview. */

import { useMemo } from "preact/hooks";
import { duration, number, rounded, short } from "../format";
import { deepest, type Point } from "../series";
import { Chart, type Line, Spark } from "./chart";
import { Card, Empty } from "./parts";

const LANE_COLORS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];

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

const figure = (value: number) =>
  value < 10 ? rounded(value, value < 1 ? 2 : 1) : short(Math.round(value));
const known = (values: (number | null | undefined)[]) => values.map((value) => value ?? 0);

export function Tiles({ found }: { found: Point[] }) {
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

export function Charts({ found }: { found: Point[] }) {
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
  const charts: {
    title: string;
    format: (value: number) => string;
    whole?: boolean;
    lines: Line[];
  }[] = [
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
      whole: true,
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
      whole: true,
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
      {charts.map(({ title, lines, format, whole }) => (
        <Card key={title}>
          <Chart label={title} times={times} lines={lines} format={format} whole={whole} />
        </Card>
      ))}
    </div>
  );
}

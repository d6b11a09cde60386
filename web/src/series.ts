/** From samples to points of a chart: as many as there is room for. */

import type { Sample, Times } from "./types";

export interface Point {
  at: number; // seconds
  finished: number; // a second
  completed: number;
  failed: number;
  retried: number;
  wait: (number | null)[]; // p50, p95, p99
  run: (number | null)[];
  waiting: number;
  lanes: { [name: string]: number }; // waiting
  running: number;
}

const POINTS = 150;

export function points(samples: Sample[], minutes: number): Point[] {
  if (!samples.length) return [];
  const last = Date.parse(samples[samples.length - 1]!.at);
  const shown = Math.min(minutes * 60_000, last - Date.parse(samples[0]!.at));
  const width = Math.max(1, shown / POINTS);
  const groups: Sample[][] = [];
  let group = -1;
  for (const sample of samples) {
    const age = last - Date.parse(sample.at);
    if (age > shown) continue;
    const place = Math.floor(age / width);
    if (place !== group) groups.push([]);
    group = place;
    groups[groups.length - 1]!.push(sample);
  }
  return groups.map(point);
}

function point(samples: Sample[]): Point {
  const last = samples[samples.length - 1]!;
  const mean = (of: (sample: Sample) => number) =>
    samples.reduce((sum, sample) => sum + of(sample), 0) / samples.length;
  const lanes = Object.entries(last.lanes);
  return {
    at: Date.parse(last.at) / 1000,
    finished: mean((sample) => sample.finished_per_second),
    completed: mean((sample) => sample.completed_per_second),
    failed: mean((sample) => sample.failed_per_second),
    retried: mean((sample) => sample.retried_per_second),
    wait: worst(samples.map((sample) => sample.wait)),
    run: worst(samples.map((sample) => sample.run)),
    waiting: last.queued + last.pending,
    lanes: Object.fromEntries(lanes.map(([name, lane]) => [name, lane.queued + lane.pending])),
    running: last.running,
  };
}

/** Percentiles cannot be added up: of several samples the worst is shown, never hidden. */
function worst(times: Times[]): (number | null)[] {
  const known = times.filter((time) => time.count > 0);
  if (!known.length) return [null, null, null];
  return (["p50", "p95", "p99"] as const).map((p) => Math.max(...known.map((time) => time[p])));
}

/** The lanes with most waiting, so that a chart of many stays legible. */
export function deepest(found: Point[], most: number): string[] {
  const depth = new Map<string, number>();
  for (const { lanes } of found)
    for (const [name, waiting] of Object.entries(lanes))
      depth.set(name, Math.max(depth.get(name) ?? 0, waiting));
  return [...depth.keys()].sort((a, b) => depth.get(b)! - depth.get(a)!).slice(0, most);
}

/** From samples to points of a chart: as many as there is room for. */

import type { Sample } from "./types";

export interface Point {
  at: number; // seconds
  enqueued: number; // a second
  completed: number;
  failed: number;
  retried: number;
  wait: (number | null)[]; // p50, p95, p99
  run: (number | null)[];
  lanes: { [name: string]: number }; // waiting
  running: number;
}

const POINTS = 150;

export function points(samples: Sample[], minutes: number): Point[] {
  const last = samples.length ? Date.parse(samples[samples.length - 1]!.at) : 0;
  const recent = samples.filter((sample) => Date.parse(sample.at) > last - minutes * 60_000);
  const width = Math.max(1, Math.round((minutes * 30) / POINTS));
  const found: Point[] = [];
  for (let end = recent.length; end > 0; end -= width)
    found.unshift(point(recent.slice(Math.max(0, end - width), end)));
  return found;
}

function point(samples: Sample[]): Point {
  const last = samples[samples.length - 1]!;
  const seconds = total(samples, (sample) => sample.seconds) || 1;
  const rate = (of: (sample: Sample) => number) => total(samples, of) / seconds;
  const lanes = Object.entries(last.lanes);
  return {
    at: Date.parse(last.at) / 1000,
    enqueued: rate((sample) => sample.enqueued),
    completed: rate((sample) => sample.completed),
    failed: rate((sample) => sample.failed),
    retried: rate((sample) => sample.retried),
    wait: worst(samples.map((sample) => sample.wait)),
    run: worst(samples.map((sample) => sample.run)),
    lanes: Object.fromEntries(lanes.map(([name, lane]) => [name, lane.queued + lane.pending])),
    running: lanes.reduce((sum, [, lane]) => sum + lane.running, 0),
  };
}

const total = (samples: Sample[], of: (sample: Sample) => number) =>
  samples.reduce((sum, sample) => sum + (of(sample) || 0), 0);

/** Percentiles cannot be added up: of several samples the worst is shown, never hidden. */
function worst(times: (Sample["wait"] | undefined)[]): (number | null)[] {
  const known = times.filter((time) => time != null);
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

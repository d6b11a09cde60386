/** What the API answers. Instants are RFC 3339 strings, durations seconds. */

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export const STATES = [
  "pending",
  "queued",
  "running",
  "paused",
  "completed",
  "failed",
  "cancelled",
] as const;
export type State = (typeof STATES)[number];

export type Role = "viewer" | "operator" | "admin" | "node";

export interface Session {
  name: string;
  role: Role;
  expires_at: string | null;
}

export interface YardView {
  version: string;
  store: string;
  paused: boolean;
  counts: Partial<Record<State, number>>;
  kinds: string[];
  lanes: number;
  nodes: number;
  clock: string;
}

export interface TaskError {
  type: string;
  message: string;
  stack?: string;
}

export interface Progress {
  done: number;
  total: number | null;
  note: string;
}

export interface TaskSummary {
  id: string;
  kind: string;
  lane: string;
  priority: number;
  state: State;
  reason: string;
  attempt: number;
  created_at: string;
  run_at: string;
  started_at: string | null;
  ended_at: string | null;
  node: string | null;
  keys: string[];
  asked: "cancel" | "pause" | null;
  progress: Progress | null;
  error: TaskError | null;
}

/** One attempt; the last one may still be running. */
export interface Attempt {
  attempt: number;
  outcome: string; // running, completed, cancelled, or why it did not end well
  started_at: string | null;
  ended_at: string | null;
  node: string | null;
  error: TaskError | null;
}

export interface TaskView extends TaskSummary {
  payload: Json;
  result: Json;
  checkpoint: Json;
  charged: number;
  max_charged: number;
  parked_on: string | null;
  group: string;
  dedup: string | null;
  requires: string[];
  depends_on: string[];
  waits_for: number;
  on_failure: string;
  timeout: number;
  deadline: string | null;
  losses: number;
  attempts: Attempt[];
  waits: Wait[];
  why: string;
  actions: Action[];
}

export type Level = "debug" | "info" | "warning" | "error" | "critical";

/** What a body has said; numbers are of its attempt, and one that is missing was dropped. */
export interface LogLine {
  attempt: number;
  number: number;
  at: string;
  level: Level;
  text: string;
}

export interface Wait {
  condition: string;
  code: string;
  text: string;
  figures: { [name: string]: Json };
}

export interface Page<Item> {
  items: Item[];
  next: string | null;
}

export interface Rate {
  starts: number;
  seconds: number;
  burst: number;
}

export interface Lane {
  name: string;
  capacity: number | null;
  max_depth: number | null;
  rate: Rate | null;
  order: "priority" | "fifo" | "fair";
  ageing: number | null;
  paused: boolean;
  paused_reason: string | null;
  paused_until: string | null;
  running: number;
  queued: number;
  pending: number;
}

export type LaneChange = Partial<
  Pick<Lane, "capacity" | "max_depth" | "rate" | "order" | "ageing">
>;

export interface Usage {
  cpu: number;
  memory: number;
  read_bytes: number;
  written_bytes: number;
  processes: number;
}

export interface Node {
  id: string;
  state: "registering" | "ready" | "suspect" | "draining" | "down" | "quarantined";
  kinds: string[];
  slots: number;
  running: number;
  capabilities: string[];
  labels: { [name: string]: string };
  host: string | null;
  pid: number | null;
  registered_at: string;
  seen_at: string;
  lease_seconds: number;
  lease_left: number;
  usage: Usage | null;
}

export interface Cron {
  name: string;
  schedule: string;
  timezone: string;
  catch_up: "skip" | "one" | "all";
  paused: boolean;
  declared: boolean;
  next_at: string | null;
  last_at: string | null;
  kind: string;
  lane: string;
  params: Json;
}

export interface CronChange {
  schedule: string;
  timezone: string;
  catch_up: Cron["catch_up"];
  kind: string;
  params: Json;
}

export interface Audited {
  no: number;
  at: string;
  actor: string;
  action: string;
  subject: string;
  detail: string;
}

export interface Times {
  count: number;
  mean: number;
  p50: number;
  p95: number;
  p99: number;
}

export interface KindStats {
  kind: string;
  count: number;
  success: number | null;
  ended: { [how: string]: number };
  run: Times;
  wait: Times;
}

export interface LaneStats {
  lane: string;
  oldest_age: number | null;
}

export interface Stats {
  kinds: KindStats[];
  lanes: LaneStats[];
}

/** One look at the yard; rates and times are of the last seconds. */
export interface Sample {
  at: string;
  queued: number;
  pending: number;
  running: number;
  finished_per_second: number; // attempts that ended, in any way
  completed_per_second: number;
  failed_per_second: number;
  retried_per_second: number;
  wait: Times;
  run: Times;
  lanes: { [name: string]: { queued: number; pending: number; running: number } };
}

export interface Series {
  every: number; // seconds
  points: Sample[];
}

export interface Kind {
  name: string;
  lane: string;
  parameters: { [name: string]: Json };
  description: string;
  timeout: number;
  retries: number;
}

export interface Filter {
  state?: State;
  kind?: string;
  lane?: string;
  key?: string;
  since?: string; // of creation, both
  until?: string;
}

export type Action = "cancel" | "pause" | "resume" | "retry" | "prioritize";

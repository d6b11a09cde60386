/** The API, typed. Every call answers data or throws a Problem. */

import type {
  Action,
  Audited,
  Cron,
  CronChange,
  Filter,
  Json,
  Kind,
  Lane,
  LaneChange,
  LogLine,
  Node,
  Page,
  Series,
  Session,
  Stats,
  TaskSummary,
  TaskView,
  YardView,
} from "./types";

/** This file is at …/dashboard/assets/, wherever the app is mounted. */
export const DASHBOARD = new URL("../", import.meta.url).pathname;
export const API = new URL("../../api/", import.meta.url).pathname;

/** An error as RFC 9457 tells it. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

type Query = { [name: string]: string | number | null | undefined };

async function call<T>(method: string, path: string, query?: Query, body?: unknown): Promise<T> {
  const url = new URL(API + path, location.origin);
  for (const [name, value] of Object.entries(query ?? {}))
    if (value != null && value !== "") url.searchParams.set(name, String(value));
  const init: RequestInit = { method, credentials: "same-origin", cache: "no-store" };
  if (method !== "GET") {
    init.headers = { "content-type": "application/json" };
    init.body = JSON.stringify(body ?? {});
  }
  let answer: Response;
  try {
    answer = await fetch(url, init);
  } catch {
    throw new Problem(0, "unreachable", "The server does not answer.");
  }
  const text = await answer.text();
  const data: unknown = isJson(answer) && text ? JSON.parse(text) : null;
  if (answer.ok) return data as T;
  const told = (data ?? {}) as { [name: string]: string | undefined };
  const where = told.path ? ` (${told.path})` : "";
  const message = (told.detail || told.title || `The server answered ${answer.status}.`) + where;
  throw new Problem(answer.status, told.code ?? "", message);
}

const isJson = (answer: Response) => /[/+]json/.test(answer.headers.get("content-type") ?? "");
const get = <T>(path: string, query?: Query) => call<T>("GET", path, query);
const post = <T>(path: string, body?: unknown) => call<T>("POST", path, undefined, body);
const named = (...parts: string[]) => parts.map(encodeURIComponent).join("/");

export const api = {
  session: () => get<Session>("me"),
  login: (token: string) => post<Session>("login", { token }),
  logout: () => post<null>("logout"),

  yard: () => get<YardView>("yard"),
  stats: () => get<Stats>("stats"),
  series: (minutes: number) => get<Series>("stats/series", { minutes }),
  pauseYard: () => post<null>("queue/pause", { scope: "all" }),
  resumeYard: () => post<null>("queue/resume", { scope: "all" }),

  tasks: (filter: Filter, q: string, cursor: string | null, limit = 50) =>
    get<Page<TaskSummary>>("tasks", { ...filter, q, cursor, limit }),
  task: (id: string) => get<TaskView>(`tasks/${named(id)}`),
  logs: (id: string, after: string | null) =>
    get<Page<LogLine>>(`tasks/${named(id)}/logs`, { after, limit: 1000 }),
  act: (id: string, action: Action, priority?: number) =>
    post<null>(`tasks/${named(id)}/${action}`, priority == null ? {} : { priority }),
  actOnAll: (action: Action, filter: Filter, dry_run: boolean) =>
    post<{ matched: number; done: number; more: boolean }>("tasks/actions", {
      action,
      filter,
      dry_run,
    }),
  enqueue: (task: { kind: string; params: Json; [option: string]: Json }) =>
    post<{ id: string; outcome: string }>("tasks", task),

  lanes: () => get<Page<Lane>>("lanes"),
  changeLane: (name: string, change: LaneChange) =>
    call<Lane>("PATCH", `lanes/${named(name)}`, undefined, change),
  pauseLane: (name: string, reason: string, seconds: number | null) =>
    post<Lane>(`lanes/${named(name)}/pause`, {
      ...(reason && { reason }),
      ...(seconds != null && { for: seconds }),
    }),
  resumeLane: (name: string) => post<Lane>(`lanes/${named(name)}/resume`),

  nodes: () => get<Page<Node>>("nodes"),
  drain: (id: string) => post<null>(`nodes/${named(id)}/drain`),

  crons: () => get<Page<Cron>>("crons"),
  putCron: (name: string, cron: CronChange) =>
    call<Cron>("PUT", `crons/${named(name)}`, undefined, cron),
  changeCron: (name: string, change: Partial<CronChange>) =>
    call<Cron>("PATCH", `crons/${named(name)}`, undefined, change),
  pauseCron: (name: string) => post<null>(`crons/${named(name)}/pause`),
  resumeCron: (name: string) => post<null>(`crons/${named(name)}/resume`),
  deleteCron: (name: string) => call<null>("DELETE", `crons/${named(name)}`),

  audit: (before: number | null, limit = 50) => get<Page<Audited>>("audit", { before, limit }),
  kinds: () => get<Page<Kind>>("kinds"),
};

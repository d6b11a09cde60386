/** The event stream: it tells what has changed, and the pages ask for what they show. */

import { API, api } from "./api";
import { patience } from "./resource";
import { addSample, changed, complain, connection, readYard, samples, session } from "./store";
import type { Sample } from "./types";

const SILENCE = 12_000; // samples come every 2 s, so a stream silent for so long is dead
const SHORTEST = 500;
const LONGEST = 10_000;

let source: EventSource | null = null;
let pause = SHORTEST;
let retry = 0;
let watchdog = 0;
let yardAsked = 0;
let yardPause = patience(0);

export function connect(): void {
  disconnect();
  connection.value = connection.value === "lost" ? "lost" : "connecting";
  source = new EventSource(`${API}events`);
  source.onopen = opened;
  source.onerror = lost;
  source.onmessage = heard;
  on("tasks", () => {
    changed.tasks.value += 1;
    yardSoon();
  });
  on("lanes", () => {
    changed.lanes.value += 1;
    yardSoon();
  });
  on("nodes", () => (changed.nodes.value += 1));
  on("stats", (data) => {
    addSample(data as Sample);
    changed.stats.value += 1;
  });
  on("reset", everything);
}

export function disconnect(): void {
  clearTimeout(retry);
  clearTimeout(watchdog);
  source?.close();
  source = null;
}

function on(name: string, then: (data: unknown) => void): void {
  source!.addEventListener(name, (event) => {
    heard();
    then(event.data ? JSON.parse(event.data) : null);
  });
}

function opened(): void {
  pause = SHORTEST;
  connection.value = "live";
  heard();
  everything(); // what changed while nobody listened
}

function heard(): void {
  clearTimeout(watchdog);
  watchdog = window.setTimeout(lost, SILENCE);
}

/** The browser reconnects by itself after some losses but not after all of them, so we always do. */
function lost(): void {
  disconnect();
  connection.value = "lost";
  retry = window.setTimeout(again, pause);
  pause = Math.min(pause * 2, LONGEST);
}

async function again(): Promise<void> {
  try {
    session.value = await api.session();
    connect();
  } catch (error) {
    complain(error);
    if (session.value) lost();
  }
}

function everything(): void {
  readYard().catch(complain);
  api.series(60).then((series) => (samples.value = series.points), complain);
  for (const sort of Object.values(changed)) sort.value += 1;
}

/** However much happens, counts are read at most once a second, and less often if that is slow. */
function yardSoon(): void {
  if (yardAsked) return;
  yardAsked = window.setTimeout(async () => {
    const asked = Date.now();
    await readYard().catch(complain);
    yardPause = patience(Date.now() - asked);
    yardAsked = 0;
  }, yardPause);
}

/** A page that nobody sees holds no stream, as browsers open only a few to one server for all their
 * tabs; it catches up when it is seen again. */
document.addEventListener("visibilitychange", () => {
  if (!session.value) return;
  if (document.hidden) disconnect();
  else connect();
});
addEventListener("online", () => connection.value === "lost" && void again());

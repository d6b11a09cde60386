/** What the bodies of one task say, heard over a stream of its own as they say it. */

import { signal } from "@preact/signals";
import { API, api } from "./api";
import { harmless, stamp } from "./format";
import type { Level, LogLine } from "./types";

export const KEPT_LINES = 2000;
const SHORTEST = 1000;
const LONGEST = 15_000;

/** A line, and how many before it were dropped: numbers that are missing tell. */
export interface Said extends LogLine {
  missing: number;
}

export type Hearing = "connecting" | "live" | "lost" | "over";

export class TaskLog {
  /** The last ones. */
  readonly lines = signal<Said[]>([]);
  /** How many came before them. */
  readonly earlier = signal(0);
  readonly hearing = signal<Hearing>("connecting");
  /** The last attempt whose end was heard. */
  readonly ended = signal(0);
  /** The last attempt that is known of. */
  attempt = 0;
  private source: EventSource | null = null;
  private pause = SHORTEST;
  private retry = 0;

  constructor(private readonly id: string) {}

  /** Hear it from the beginning; what was heard before is not told twice. */
  open(): void {
    this.close();
    if (this.hearing.value !== "lost") this.hearing.value = "connecting";
    const source = new EventSource(`${API}tasks/${encodeURIComponent(this.id)}/logs/stream`);
    this.source = source;
    source.onopen = () => {
      this.pause = SHORTEST;
      this.hearing.value = "live";
    };
    source.addEventListener("lines", (event) => this.add(JSON.parse(event.data) as LogLine[]));
    source.addEventListener("end", () => this.end());
    source.onerror = () => {
      this.hearing.value = "lost";
      // The browser goes on by itself where the connection broke, but not where it was refused.
      if (source.readyState === EventSource.CLOSED) this.again();
    };
  }

  close(): void {
    clearTimeout(this.retry);
    this.source?.close();
    this.source = null;
  }

  private again(): void {
    this.retry = window.setTimeout(() => this.open(), this.pause);
    this.pause = Math.min(this.pause * 2, LONGEST);
  }

  private end(): void {
    this.close();
    this.ended.value = Math.max(this.attempt, this.lines.value.at(-1)?.attempt ?? 0);
    this.hearing.value = "over";
  }

  private add(heard: LogLine[]): void {
    const fresh = withGaps(heard, this.lines.value.at(-1));
    if (!fresh.length) return;
    const all = [...this.lines.value, ...fresh];
    const surplus = Math.max(0, all.length - KEPT_LINES);
    this.earlier.value += surplus;
    this.lines.value = surplus ? all.slice(surplus) : all;
  }
}

/** In the place of the last line that is missing the server says how many are. */
const isGap = ({ level, text }: LogLine) =>
  level === "warning" && /^\([\d,]+ lines? (was|were) dropped here\b/.test(text);

/** These lines, without those up to `last`; each knows how many are missing before it. */
function withGaps(lines: LogLine[], last: LogLine | undefined): Said[] {
  let { attempt, number } = last ?? { attempt: 0, number: 0 };
  const fresh: Said[] = [];
  for (const line of lines) {
    if (line.attempt < attempt || (line.attempt === attempt && line.number <= number)) continue;
    if (line.attempt !== attempt) number = 0;
    attempt = line.attempt;
    if (isGap(line)) continue;
    fresh.push({ ...line, missing: line.number - number - 1 });
    number = line.number;
  }
  return fresh;
}

const LEVELS: Level[] = ["debug", "info", "warning", "error", "critical"];
export const isAtLeast = (level: Level, least: Level) =>
  LEVELS.indexOf(level) >= LEVELS.indexOf(least);

/** Lines as text that is harmless in a terminal, too: none can look like two. */
export function asText(lines: Said[]): string {
  let attempt = 0;
  const parts: string[] = [];
  for (const line of lines) {
    if (line.attempt !== attempt) parts.push(`attempt ${line.attempt}`);
    attempt = line.attempt;
    if (line.missing) parts.push(`    (${dropped(line.missing)})`);
    const [first, ...more] = harmless(line.text).split("\n");
    parts.push(`${stamp(line.at)}  ${line.level.padEnd(8)}  ${first}`);
    parts.push(...more.map((text) => `    ${text}`));
  }
  return parts.join("\n") + "\n";
}

export const dropped = (count: number) =>
  count === 1 ? "1 line dropped" : `${count.toLocaleString("en")} lines dropped`;

/** Every line that is kept, also those that are no longer shown. */
export async function wholeLog(id: string): Promise<Said[]> {
  const all: Said[] = [];
  let after: string | null = null;
  do {
    const page: { items: LogLine[]; next: string | null } = await api.logs(id, after);
    all.push(...withGaps(page.items, all.at(-1)));
    after = page.next;
  } while (after);
  return all;
}

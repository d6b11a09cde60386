/** When tasks were created, as the address tells it: `within=1h`, or instants in `since` and
 * `until`. */

import { now } from "./store";
import type { Filter } from "./types";

const MINUTE = 60_000;
const PRESETS = [
  ["15m", "Last 15 minutes", 15 * MINUTE],
  ["1h", "Last hour", 60 * MINUTE],
  ["24h", "Last 24 hours", 24 * 60 * MINUTE],
  ["7d", "Last 7 days", 7 * 24 * 60 * MINUTE],
] as const;
export const CHOICES = PRESETS.map(([value, label]) => ({ value, label }));

const long = (preset: string | null) => PRESETS.find(([name]) => name === preset)?.[2];

/** Which choice the address means; "custom" if it has instants of its own. */
export function chosen(params: URLSearchParams): string {
  const within = params.get("within");
  if (long(within)) return within!;
  return instant(params.get("since")) || instant(params.get("until")) ? "custom" : "";
}

/** What to ask for now: "the last hour" moves on, instants stay. */
export function createdIn(params: URLSearchParams): Pick<Filter, "since" | "until"> {
  const within = long(params.get("within"));
  if (within) return { since: new Date(now.peek() - within).toISOString() };
  const since = instant(params.get("since"));
  const until = instant(params.get("until"));
  return { ...(since && { since }), ...(until && { until }) };
}

function instant(text: string | null): string | undefined {
  const at = Date.parse(text ?? "");
  return Number.isNaN(at) ? undefined : new Date(at).toISOString();
}

/** The instants that a choice begins with when it is made one's own. */
export const customOf = (params: URLSearchParams): string =>
  new Date(now.peek() - (long(params.get("within")) ?? 60 * MINUTE)).toISOString();

/** Between the field of a form, whose time is that of the person, and an instant. */
export function toField(at: string | undefined): string {
  if (!at) return "";
  const date = new Date(at);
  return new Date(date.getTime() - date.getTimezoneOffset() * MINUTE).toISOString().slice(0, 19);
}
export const fromField = (text: string): string => instant(text) ?? "";

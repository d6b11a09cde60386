/** Numbers and times for people. */

import type { Json, Progress } from "./types";

const NUMBER = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const MOMENT = new Intl.DateTimeFormat("en-GB", {
  day: "2-digit",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});

export const number = (value: number) => NUMBER.format(value);
export const short = (value: number) => (value < 10_000 ? number(value) : SHORT.format(value));
export const plural = (count: number, one: string) =>
  `${number(count)} ${one}${count === 1 ? "" : "s"}`;

/** At most so many digits behind the point, and no zeros at the end: 5.0 → "5". */
export const rounded = (value: number, digits: number) => String(Number(value.toFixed(digits)));

export const moment = (at: string) => MOMENT.format(new Date(at));
export const clock = (seconds: number) =>
  new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour12: false });

const TIME = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
});
/** The time of day, to the millisecond. */
export const time = (at: string) => TIME.format(new Date(at));
/** For text that leaves the page: the same on every machine. */
export const stamp = (at: string) => new Date(at).toISOString();

const UNSAFE =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
/** Controls and marks that turn the direction of text are shown as what they are; lines stay. */
export const harmless = (text: string) =>
  text.replace(/\r\n?/g, "\n").replace(UNSAFE, escaped);
const escaped = (character: string) => {
  const code = character.charCodeAt(0).toString(16);
  return code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
};

/** A duration, in two units where one would be coarse: 85 → "1m 25s", 1500 → "25m". */
export function duration(seconds: number): string {
  if (seconds < 0.001) return seconds <= 0 ? "0 s" : `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${rounded(seconds * 1000, seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 60) return `${rounded(seconds, seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return units(seconds, 60, "m", 1, "s");
  if (seconds < 86_400) return units(seconds, 3600, "h", 60, "m");
  return units(seconds, 86_400, "d", 3600, "h");
}

function units(seconds: number, large: number, first: string, small: number, second: string) {
  const rest = seconds < 10 * large ? Math.floor((seconds % large) / small) : 0;
  return `${Math.floor(seconds / large)}${first}${rest ? ` ${rest}${second}` : ""}`;
}

export const since = (at: string, now: number) => (now - Date.parse(at)) / 1000;
export const between = (from: string, to: string) => (Date.parse(to) - Date.parse(from)) / 1000;

export function relative(at: string, now: number): string {
  const seconds = since(at, now);
  if (Math.abs(seconds) < 1) return "now";
  const told = duration(Math.floor(Math.abs(seconds)));
  return seconds > 0 ? `${told} ago` : `in ${told}`;
}

export function bytes(count: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let power = 0;
  while (count >= 1000 && power < units.length - 1) {
    count /= 1000;
    power += 1;
  }
  return `${rounded(count, count < 10 && power ? 1 : 0)} ${units[power]}`;
}

export const percent = (share: number) =>
  share === 1 ? "100 %" : `${rounded(share * 100, share > 0.99 ? 2 : 1)} %`;

export function progress({ done, total, note }: Progress): string {
  const figure = total ? `${number(done)} of ${number(total)}` : number(done);
  return note ? `${figure} · ${note}` : figure;
}

export const pretty = (value: Json) => JSON.stringify(value, null, 2);

/** What every page shares: who is here, what the yard is like now, whether we hear of changes. */

import { computed, effect, signal } from "@preact/signals";
import { api, Problem } from "./api";
import type { Sample, Session, YardView } from "./types";

// --- who is here ---

export const session = signal<Session | null | undefined>(undefined); // undefined: not asked yet
export const mayAct = computed(() => /operator|admin/.test(session.value?.role ?? ""));

// --- the yard ---

export const yard = signal<YardView | null>(null);
export const samples = signal<Sample[]>([]);
const KEPT = 3600_000; // milliseconds

export function addSample(sample: Sample): void {
  const kept = samples.value;
  if (kept.length && kept[kept.length - 1]!.at >= sample.at) return;
  const first = kept.findIndex(({ at }) => Date.parse(at) > Date.parse(sample.at) - KEPT);
  samples.value = [...kept.slice(Math.max(0, first)), sample];
}

// --- whether we hear of changes ---

export type Connection = "connecting" | "live" | "lost";
export const connection = signal<Connection>("connecting");

/** Each grows when something of its sort has changed. */
export const changed = {
  tasks: signal(0),
  lanes: signal(0),
  nodes: signal(0),
  stats: signal(0),
};

/** Progress is told by no event of its own: who shows tasks looks with each sample, too. */
export const tasksMoved = computed(() => changed.tasks.value + changed.stats.value);

/** Whether anybody looks. */
export const visible = signal(!document.hidden);
document.addEventListener("visibilitychange", () => (visible.value = !document.hidden));

/** The server's clock less ours, in milliseconds, so that "3 s ago" is right on any machine. */
const ahead = signal(0);
const ticking = signal(Date.now());
setInterval(() => (ticking.value = Date.now()), 1000);
export const now = computed(() => ticking.value + ahead.value);

export async function readYard(): Promise<void> {
  const view = await api.yard();
  ahead.value = Date.parse(view.clock) - Date.now();
  yard.value = view;
}

// --- notes to the person ---

export interface Note {
  id: number;
  text: string;
  bad: boolean;
}
export const notes = signal<Note[]>([]);
let lastNote = 0;

export function tell(text: string, bad = false): void {
  const note = { id: ++lastNote, text, bad };
  notes.value = [...notes.value.slice(-3), note];
  setTimeout(() => dismiss(note.id), bad ? 9000 : 4000);
}

export const dismiss = (id: number) => {
  notes.value = notes.value.filter((note) => note.id !== id);
};

/** Say what went wrong; a session that has ended leads to the login page. */
export function complain(error: unknown): void {
  if (error instanceof Problem && error.status === 401) session.value = null;
  else if (error instanceof Problem && error.status === 0) connection.value = "lost";
  else tell(error instanceof Error ? error.message : String(error), true);
}

/** Do it, say that it is done or why not, and answer whether it was. */
export async function attempt(what: () => Promise<unknown>, done: string): Promise<boolean> {
  try {
    await what();
  } catch (error) {
    complain(error);
    return false;
  }
  if (done) tell(done);
  return true;
}

// --- light and dark ---

export type Theme = "system" | "light" | "dark";
const THEMES: Theme[] = ["system", "light", "dark"];

const stored = () => {
  try {
    return localStorage.getItem("taskyard-theme") as Theme | null;
  } catch {
    return null;
  }
};
export const theme = signal<Theme>(stored() ?? "system");
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(systemDark.matches);
systemDark.addEventListener("change", () => (systemIsDark.value = systemDark.matches));
export const isDark = computed(() =>
  theme.value === "system" ? systemIsDark.value : theme.value === "dark",
);

effect(() => {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  try {
    localStorage.setItem("taskyard-theme", theme.value);
  } catch {
    // A browser that keeps nothing still shows the theme.
  }
});

export const nextTheme = () => {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!;
};

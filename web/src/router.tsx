/** Where we are: the path below the dashboard's and its query, as signals. */

import { computed, signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { DASHBOARD as BASE } from "./api";

const here = () => location.pathname.slice(BASE.length).replace(/\/+$/, "");

export const path = signal(here());
const search = signal(location.search);
export const query = computed(() => new URLSearchParams(search.value));

const follow = () => {
  path.value = here();
  search.value = location.search;
};
addEventListener("popstate", follow);

export const href = (to: string) => BASE + to;

export function go(to: string, how: "push" | "replace" = "push"): void {
  history[`${how}State`](null, "", href(to));
  const moved = path.value !== here();
  follow();
  if (moved) scrollTo(0, 0);
}

/** The same page with some of its query changed; what is empty is left out. */
export function withQuery(changes: { [name: string]: string | null }): string {
  const next = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(changes))
    if (value) next.set(name, value);
    else next.delete(name);
  const text = next.toString();
  return path.value + (text && `?${text}`);
}

interface LinkProps {
  to: string;
  class?: string;
  title?: string;
  current?: boolean;
  children: ComponentChildren;
}

export function Link({ to, current, children, ...rest }: LinkProps) {
  const click = (event: MouseEvent) => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to);
  };
  return (
    <a href={href(to)} onClick={click} aria-current={current ? "page" : undefined} {...rest}>
      {children}
    </a>
  );
}

export const toTask = (id: string) => `tasks/${encodeURIComponent(id)}`;
export const toLane = (name: string) => `tasks?lane=${encodeURIComponent(name)}`;
export const toKind = (name: string) => `tasks?kind=${encodeURIComponent(name)}`;

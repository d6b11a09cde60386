/** Data a component shows: fetched when it appears and again, not too often, when it has changed. */

import type { ReadonlySignal } from "@preact/signals";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./api";
import { complain } from "./store";

export interface Resource<T> {
  data: T | null;
  problem: Problem | null;
  loading: boolean;
  reload: () => void;
}

/** How long to wait before asking again for what took so many milliseconds: a server that is busy
 * is not kept busy by those who watch it. */
export const patience = (took: number) => Math.max(1000, 5 * took);

/** `key` names what is fetched: a new one is fetched at once. `on` tells of changes. */
export function useResource<T>(
  key: string,
  fetch: () => Promise<T>,
  on?: ReadonlySignal<number>,
  hold = false,
): Resource<T> {
  const [shown, show] = useState<{ key: string; data: T | null; problem: Problem | null }>({
    key: "",
    data: null,
    problem: null,
  });
  const [loading, setLoading] = useState(true);
  const latest = useRef({ key, fetch, hold, next: 0, timer: 0 });
  Object.assign(latest.current, { key, fetch, hold });

  const load = useCallback(() => {
    const asked = latest.current.key;
    const began = Date.now();
    latest.current.next = began + patience(0);
    setLoading(true);
    latest.current.fetch().then(
      (data) => {
        if (latest.current.key !== asked) return;
        latest.current.next = Date.now() + patience(Date.now() - began);
        setLoading(false);
        show({ key: asked, data, problem: null });
      },
      (error: unknown) => {
        if (latest.current.key !== asked) return;
        setLoading(false);
        if (error instanceof Problem && error.status !== 401 && error.status !== 0)
          show({ key: asked, data: null, problem: error });
        else complain(error);
      },
    );
  }, []);

  useEffect(load, [key]);

  const version = on?.value ?? 0;
  useEffect(() => {
    const state = latest.current;
    if (!version || state.timer) return;
    const wait = Math.max(0, state.next - Date.now());
    state.timer = window.setTimeout(() => {
      state.timer = 0;
      if (!state.hold && !document.hidden) load();
    }, wait);
  }, [version]);
  useEffect(() => () => clearTimeout(latest.current.timer), []);

  // The page before stays to be seen while the next one comes: no flicker.
  return {
    data: shown.data,
    problem: shown.key === key ? shown.problem : null,
    loading,
    reload: load,
  };
}

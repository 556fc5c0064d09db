// What is asked for again whenever the state has changed, but not more often than it is of use.

import { useEffect, useRef, useState } from "preact/hooks";

import { ask } from "./api";

export interface Fresh<T> {
  value?: T;
  error?: string;
}

/** The answer to `path`, asked for again when `trigger` changes and at most every `every` ms. */
export function useFresh<T>(path: string, trigger: unknown, every: number): Fresh<T> {
  const [fresh, setFresh] = useState<Fresh<T> & { path: string }>({ path });
  const last = useRef({ path: "", at: 0 });
  useEffect(() => {
    const abort = new AbortController();
    const rest = last.current.path === path ? last.current.at + every - Date.now() : 0;
    const timer = window.setTimeout(() => {
      last.current = { path, at: Date.now() };
      ask<T>(path, abort.signal)
        .then((value) => setFresh({ path, value }))
        .catch((error) => {
          if (!abort.signal.aborted) setFresh({ path, error: String(error.message ?? error) });
        });
    }, Math.max(0, rest));
    return () => {
      window.clearTimeout(timer);
      // An answer that is under way to the same question is still of use.
    };
  }, [path, trigger]);
  // What was answered to another question is not shown for this one.
  return fresh.path === path ? fresh : {};
}

/** The answer to `path`, asked for every `every` ms: for what goes on while nothing changes. */
export function usePolled<T>(path: string, every: number): Fresh<T> {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    const timer = window.setInterval(() => setTick((count) => count + 1), every);
    return () => window.clearInterval(timer);
  }, [every]);
  return useFresh<T>(path, tick, 0);
}

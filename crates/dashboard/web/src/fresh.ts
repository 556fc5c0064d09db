// Answers of the server that are requested again when the state changes, at a limited rate.

import { useEffect, useRef, useState } from "preact/hooks";

import { ask } from "./api";

export interface Fresh<T> {
  value?: T;
  error?: string;
}

/** The answer to `path`, requested again when `trigger` changes, at most every `every` ms. */
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
      // A request that is under way is not aborted: its answer is still of use.
    };
  }, [path, trigger]);
  // An answer to another path is not shown.
  return fresh.path === path ? fresh : {};
}

/** The answer to `path`, requested every `every` ms, even while the state does not change. */
export function usePolled<T>(path: string, every: number): Fresh<T> {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    const timer = window.setInterval(() => setTick((count) => count + 1), every);
    return () => window.clearInterval(timer);
  }, [every]);
  return useFresh<T>(path, tick, 0);
}

// Forms: what they send and are told. The names are those of crates/dashboard/src/form. No rule is
// here: the server checks what is typed by those that the controllers have.

import { useEffect, useRef, useState } from "preact/hooks";

import type { Count } from "./api";

/** Which state of an object a form was filled in for. */
export interface Version {
  uid: string;
  generation: number;
}

export interface FieldError {
  field: string;
  message: string;
  row?: number;
}

export interface Row {
  machines?: Count;
  notes: string[];
  warnings: string[];
}

export interface Checked {
  errors: FieldError[];
  rows: Row[];
  machines?: Count;
  hasChanges: boolean;
  yaml: string;
  conflict?: string;
  token: "missing" | "wrong" | "good";
  /** Where a person finds it. */
  tokenHint: string;
}

/** Between two questions, at least: whoever types on is told meanwhile. */
const INTERVAL = 150;

export async function send<T>(path: string, body: unknown, token: string): Promise<T> {
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (token !== "") headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await answer.text();
  let told: { error?: string } = {};
  try {
    told = JSON.parse(text);
  } catch {
    // What stands before the forms answers in plain words.
    told = { error: text };
  }
  if (!answer.ok) throw new Error(told.error ?? answer.statusText);
  return told as T;
}

export interface Told {
  checked?: Checked;
  error?: string;
  /** Whether it is about what stands in the form now. */
  isCurrent: boolean;
}

/** What the server says of `body`, asked again a moment after it changes; `null` asks nothing. */
export function useChecked(path: string, body: unknown, token: string): Told {
  const [told, setTold] = useState<{ checked?: Checked; error?: string; text?: string }>({});
  const turns = useRef({ asked: 0, told: 0, at: 0 });
  const text = body === null ? null : JSON.stringify(body);
  useEffect(() => {
    if (text === null) return;
    const timer = window.setTimeout(() => {
      const turn = ++turns.current.asked;
      turns.current.at = Date.now();
      // An answer that comes after that to a later question is of no use.
      const tell = (next: typeof told) => {
        if (turn < turns.current.told) return;
        turns.current.told = turn;
        setTold({ ...next, text });
      };
      send<Checked>(path, JSON.parse(text), token)
        .then((checked) => tell({ checked }))
        .catch((error) => tell({ error: String(error.message ?? error) }));
    }, Math.max(0, turns.current.at + INTERVAL - Date.now()));
    return () => window.clearTimeout(timer);
  }, [path, text, token]);
  return { ...told, isCurrent: text !== null && told.text === text };
}

/** With the one at `place` replaced by `next`, which may be none. */
export const replaced = <T>(all: T[], place: number, ...next: T[]): T[] => [
  ...all.slice(0, place),
  ...next,
  ...all.slice(place + 1),
];

/** `10.0.0.1, 10.0.0.2` is two. */
export const list = (text: string): string[] => text.split(/[\s,]+/).filter((one) => one !== "");

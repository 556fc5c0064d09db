// Forms: what they send, and the answers. The names are those of crates/dashboard/src/form. There
// are no rules here: the server checks a form by the rules of the controllers.

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
  /** Where a person finds the token. */
  tokenHint: string;
}

/** The least time between two checks, in ms. Checks go on while a person types. */
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
    // The guard in front of the forms answers in plain text.
    told = { error: text };
  }
  if (!answer.ok) throw new Error(told.error ?? answer.statusText);
  return told as T;
}

export interface Told {
  checked?: Checked;
  error?: string;
  /** Whether the answer is about the present content of the form. */
  isCurrent: boolean;
}

/** The server's check of `body`, repeated a moment after it changes. `null` is not checked. */
export function useChecked(path: string, body: unknown, token: string): Told {
  const [told, setTold] = useState<{ checked?: Checked; error?: string; text?: string }>({});
  const turns = useRef({ asked: 0, told: 0, at: 0 });
  const text = body === null ? null : JSON.stringify(body);
  useEffect(() => {
    if (text === null) return;
    const timer = window.setTimeout(() => {
      const turn = ++turns.current.asked;
      turns.current.at = Date.now();
      // An answer is ignored if a later request was answered before it.
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

/** `all` with the item at `place` replaced by `next`, which may be empty. */
export const replaced = <T>(all: T[], place: number, ...next: T[]): T[] => [
  ...all.slice(0, place),
  ...next,
  ...all.slice(place + 1),
];

/** Splits at commas and white space: `10.0.0.1, 10.0.0.2` are two. */
export const list = (text: string): string[] => text.split(/[\s,]+/).filter((one) => one !== "");

// Small parts that several views use.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import type { Explanation } from "./api";

export function Card({
  title,
  children,
  note,
}: {
  title: string;
  children: ComponentChildren;
  note?: ComponentChildren;
}) {
  return (
    <section class="card">
      <h2>{title}</h2>
      {note && <p class="quiet">{note}</p>}
      {children}
    </section>
  );
}

/**
 * Rows scroll sideways where they do not fit, and can be reached by keyboard then. On a phone a row
 * is a paragraph, in which each cell has its column's name: roles keep it a table.
 */
export function Table({
  label,
  head,
  children,
}: {
  label: string;
  head: string[];
  children: ComponentChildren;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  useLayoutEffect(() => {
    for (const row of body.current?.rows ?? []) {
      row.setAttribute("role", "row");
      for (const [place, cell] of [...row.cells].entries()) {
        cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
        cell.dataset.label = head[place];
      }
    }
  });
  return (
    <div class="scroll" role="region" aria-label={label} tabIndex={0}>
      <table role="table">
        <thead role="rowgroup">
          <tr role="row">
            {head.map((name) => (
              <th key={name} scope="col" role="columnheader">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body} role="rowgroup">
          {children}
        </tbody>
      </table>
    </div>
  );
}

const GOOD = ["Ready", "Routed", "Running", "Open"];
const BAD = ["NotReady", "Overlapping", "NoNetwork", "NoAddressLeft", "Exhausted", "NoRoute"];

/** A word and a sign: never a colour alone. */
export function Word({ text }: { text: string }) {
  const kind = GOOD.includes(text) ? "good" : BAD.includes(text) ? "bad" : "so-so";
  const sign = { good: "✓", bad: "✕", "so-so": "•" }[kind];
  // `NoAddressLeft` becomes `no address left`.
  const words = text.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return (
    <span class={`word ${kind}`}>
      <span aria-hidden="true">{sign}</span> {words}
    </span>
  );
}

export interface Part {
  name: string;
  class: string;
  /** From 0 to 1. */
  share: number;
}

/** Parts of a whole, side by side. `label` says the same in words. */
export function Bar({ parts, label }: { parts: Part[]; label: string }) {
  return (
    <div class="parts" role="img" aria-label={label} title={label}>
      {parts.map((part) => (
        <span
          key={part.name}
          class={part.class}
          style={{ width: `${Math.min(1, part.share) * 100}%` }}
        />
      ))}
    </div>
  );
}

export function Told({ explanation }: { explanation: Explanation }) {
  return (
    <>
      <p>{explanation.sentences.join(" ")}</p>
      {explanation.nextSteps.length > 0 && (
        <ul class="steps">
          {explanation.nextSteps.map((step) => (
            <li key={step}>{step}</li>
          ))}
        </ul>
      )}
    </>
  );
}

export function Nothing({ children }: { children: ComponentChildren }) {
  return <p class="quiet">{children}</p>;
}

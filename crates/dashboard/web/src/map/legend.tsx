// What the colours mean, with the counts of the window.

import type { AddressMap } from "../api";
import { number } from "../words";
import { STATES } from "./paint";

export function Legend({ map }: { map: AddressMap }) {
  return (
    <ul class="legend">
      {STATES.map((state) => (
        <li key={state.key} title={state.about}>
          <span class={`swatch ${state.key}`} aria-hidden="true" />
          {state.name} <b data-state={state.key}>{number(map.counts[state.key])}</b>
        </li>
      ))}
    </ul>
  );
}

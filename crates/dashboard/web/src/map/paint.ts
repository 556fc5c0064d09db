// Cells on a canvas.

import type { AddressMap, Cell, Counts } from "../api";
import { share } from "../words";

export const STATES: { key: keyof Counts; name: string; about: string; colour: string }[] = [
  { key: "free", name: "free", about: "nobody has it", colour: "--free" },
  { key: "primary", name: "primary", about: "a node's own", colour: "--primary" },
  {
    key: "leased",
    name: "leased",
    about: "a node has it for its pods, and none uses it yet",
    colour: "--leased",
  },
  {
    key: "assigned",
    name: "assigned",
    about: "a pod, a machine or a claim has it",
    colour: "--assigned",
  },
  {
    key: "coolingDown",
    name: "cooling down",
    about: "released, and not to be used again yet",
    colour: "--cooling",
  },
  {
    key: "setAside",
    name: "reserved",
    about: "never given: gateways, name servers, excludes",
    colour: "--set-aside",
  },
];

export interface Grid {
  columns: number;
  rows: number;
  size: number;
}

/** The number of columns is a power of two, so that a row begins at a round address. */
export function grid(count: number, width: number): Grid {
  const least = width < 600 ? 4 : 7;
  let columns = 1;
  while (columns * 2 <= count && width / (columns * 2) >= least) columns *= 2;
  // A few cells are large, but not as large as the page.
  while (columns * columns > count * 8 && columns > 16) columns /= 2;
  const size = Math.min(Math.floor(width / columns), 26);
  return { columns, rows: Math.ceil(count / columns), size };
}

export function paint(
  canvas: HTMLCanvasElement,
  map: AddressMap,
  { columns, rows, size }: Grid,
  cursor: number | undefined,
): void {
  const context = canvas.getContext("2d");
  if (context === null) return;
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const colours = STATES.map((state) => colour(state.colour));
  const scale = window.devicePixelRatio || 1;
  canvas.width = columns * size * scale;
  canvas.height = rows * size * scale;
  context.scale(scale, scale);
  context.clearRect(0, 0, columns * size, rows * size);
  const gap = size > 6 ? 1 : 0.5;
  const inner = size - gap;
  context.fillStyle = colours[0];
  for (let index = 0; index < map.cellCount; index++) {
    context.fillRect((index % columns) * size, Math.floor(index / columns) * size, inner, inner);
  }
  for (const cell of map.cells) {
    const [x, y] = [(cell.index % columns) * size, Math.floor(cell.index / columns) * size];
    let bottom = y + inner;
    for (const [height, fill] of portions(cell, map, colours, inner)) {
      bottom -= height;
      context.fillStyle = fill;
      context.fillRect(x, bottom, inner, height);
    }
  }
  if (cursor !== undefined) {
    const [x, y] = [(cursor % columns) * size, Math.floor(cursor / columns) * size];
    context.lineWidth = 2;
    context.strokeStyle = colour("--text");
    context.strokeRect(x, y, inner, inner);
  }
}

/** The parts of a cell that are not free, from below. Each is high enough to be seen. */
function portions(
  cell: Cell,
  map: AddressMap,
  colours: string[],
  height: number,
): [number, string][] {
  const found: [number, string][] = [];
  for (const [place, state] of STATES.entries()) {
    const part = share(cell[state.key], map.unitsPerCell);
    if (state.key !== "free" && String(cell[state.key]) !== "0") {
      found.push([Math.max(part * height, Math.min(2, height)), colours[place]]);
    }
  }
  const sum = found.reduce((all, [one]) => all + one, 0);
  return sum > height ? found.map(([one, fill]) => [(one * height) / sum, fill]) : found;
}

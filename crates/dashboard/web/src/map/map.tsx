// The map of a subnet's addresses: hover, click and keys.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import type { AddressMap, Cell } from "../api";
import { cellOf, number, parse, since, toNumber } from "../words";
import { type Grid, STATES, grid, paint } from "./paint";

/** The prefix length of the window that a click on a cell opens; none if cells are single units. */
function deeper(map: AddressMap): number | undefined {
  if (map.cellLength === map.unitLength) return undefined;
  const { length } = parse(map.window);
  return Math.max(length + 1, Math.min(length + 8, map.unitLength - 8));
}

export function MapView({
  map,
  zoom,
  out,
}: {
  map: AddressMap;
  zoom: (from: string, length: number) => void;
  out: (() => void) | undefined;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const host = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [cursor, setCursor] = useState<number>();
  const [theme, setTheme] = useState(0);
  const shape: Grid = grid(map.cellCount, Math.max(width, 160));

  useLayoutEffect(() => {
    const element = host.current;
    if (element === null) return;
    setWidth(element.clientWidth);
    const sized = new ResizeObserver(() => setWidth(element.clientWidth));
    sized.observe(element);
    const again = () => setTheme((count) => count + 1);
    const themed = new MutationObserver(again);
    themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", again);
    return () => {
      sized.disconnect();
      themed.disconnect();
      system.removeEventListener("change", again);
    };
  }, []);
  useEffect(() => setCursor(undefined), [map.window, map.subnet]);
  useLayoutEffect(() => {
    if (canvas.current !== null && width > 0) paint(canvas.current, map, shape, cursor);
  }, [map, width, cursor, theme]);

  const at = (event: MouseEvent): number | undefined => {
    const column = Math.floor(event.offsetX / shape.size);
    const index = Math.floor(event.offsetY / shape.size) * shape.columns + column;
    return column < shape.columns && index < map.cellCount ? index : undefined;
  };
  const enter = (index: number) => {
    const length = deeper(map);
    if (length === undefined) return;
    zoom(parse(cellOf(map.window, map.cellLength, index)).address, length);
  };
  const press = (event: KeyboardEvent) => {
    const here = cursor ?? 0;
    const last = map.cellCount - 1;
    const moves: Record<string, number> = {
      ArrowLeft: here - 1,
      ArrowRight: here + 1,
      ArrowUp: here - shape.columns,
      ArrowDown: here + shape.columns,
      Home: 0,
      End: last,
    };
    if (event.key in moves) {
      setCursor(cursor === undefined ? 0 : Math.min(last, Math.max(0, moves[event.key])));
    } else if (event.key === "Enter" || event.key === "+") {
      enter(here);
    } else if (event.key === "Backspace" || event.key === "-") {
      out?.();
    } else {
      return;
    }
    event.preventDefault();
  };
  return (
    <>
      <div ref={host} class="map">
        <canvas
          ref={canvas}
          tabIndex={0}
          role="application"
          aria-label={`Map of ${map.window}, ${map.cellCount} cells`}
          aria-describedby="map-keys"
          style={{ width: `${shape.columns * shape.size}px`, height: `${shape.rows * shape.size}px` }}
          onMouseMove={(event) => setCursor(at(event))}
          onMouseLeave={() => setCursor(undefined)}
          onClick={(event) => {
            const index = at(event);
            if (index !== undefined) enter(index);
          }}
          onKeyDown={press}
        />
      </div>
      <p class="cell" aria-live="polite">
        {cursor === undefined ? (
          <span class="quiet">Point at a cell to see whose it is.</span>
        ) : (
          <CellText map={map} index={cursor} />
        )}
      </p>
      <p id="map-keys" class="quiet">
        {deeper(map) === undefined
          ? "Arrow keys move; Backspace goes back."
          : "A click or Enter looks into a cell; arrow keys move; Backspace goes back."}
      </p>
    </>
  );
}

function CellText({ map, index }: { map: AddressMap; index: number }) {
  const name = cellOf(map.window, map.cellLength, index);
  const { address, length, bits } = parse(name);
  const cell: Cell | undefined = map.cells.find((one) => one.index === index);
  const title = length === bits ? address : name;
  if (cell === undefined) {
    return (
      <>
        <b>{title}</b>: free
      </>
    );
  }
  const isSingle = map.cellLength === map.unitLength;
  const states = STATES.filter((state) => String(cell[state.key]) !== "0");
  if (!isSingle) {
    const counts = states.map((state) => `${number(cell[state.key])} ${state.name}`);
    return (
      <>
        <b>{title}</b>: {counts.join(", ")}
      </>
    );
  }
  const { detail } = cell;
  const facts = [
    detail?.pod && `${detail.pods > 1 ? `${detail.pods} pods, first ` : "pod "}${detail.pod}`,
    detail?.node && `node ${detail.node}`,
    detail && !detail.node && detail.owner !== "nobody" && detail.owner,
    detail?.since && `since ${since(detail.since)} (${detail.since.slice(0, 19)}Z)`,
  ].filter(Boolean);
  return (
    <>
      <b>{title}</b>: {states.map((state) => state.name).join(", ")}
      {facts.length > 0 && <> – {facts.join(", ")}</>}
    </>
  );
}

/** A form that finds an address on the map. */
export function Find({
  cidrs,
  unitLength,
  found,
}: {
  cidrs: string[];
  unitLength: number;
  found: (from: string, length: number) => void;
}) {
  const [wrong, setWrong] = useState("");
  const look = (event: SubmitEvent) => {
    event.preventDefault();
    const field = new FormData(event.currentTarget as HTMLFormElement).get("address");
    const address = String(field ?? "").trim();
    const inside = cidrs.map(parse).find((cidr) => {
      if (address.includes(":") !== (cidr.bits === 128)) return false;
      try {
        const shift = BigInt(cidr.bits - cidr.length);
        return toNumber(address) >> shift === toNumber(cidr.address) >> shift;
      } catch {
        return false;
      }
    });
    if (inside === undefined) {
      setWrong(`${address || "That"} is no address of this subnet.`);
    } else {
      setWrong("");
      found(address, Math.max(inside.length, unitLength - 8));
    }
  };
  return (
    <form class="find" onSubmit={look}>
      <label>
        Find an address <input name="address" size={18} autocomplete="off" spellcheck={false} />
      </label>
      <button type="submit">Show</button>
      {wrong && <span role="alert">{wrong}</span>}
    </form>
  );
}

// All Subnets. For the chosen one: the map of its addresses, how it fills up, and when it is full.

import { useEffect, useState } from "preact/hooks";

import type { AddressMap, State, Subnet, SubnetColumns } from "../api";
import { mapPath } from "../api";
import { Chart } from "../chart";
import { useFresh, usePolled } from "../fresh";
import { Legend } from "../map/legend";
import { Find, MapView } from "../map/map";
import { Bar, Card, Nothing, Table, Told, Word } from "../parts";
import { forecast, isZero, number, parse, share, whole } from "../words";

export function SubnetTable({ subnets, chosen }: { subnets: Subnet[]; chosen?: string }) {
  if (subnets.length === 0) return <Nothing>There is no Subnet in this cluster.</Nothing>;
  const head = ["Name", "Use", "CIDRs", "Full", "Reserved", "Free", "Runs out", "State"];
  return (
    <Table label="Subnets" head={head}>
      {subnets.map((subnet) => (
        <tr key={subnet.name} class={subnet.name === chosen ? "chosen" : undefined}>
          <th scope="row">
            <a href={`#/subnets/${encodeURIComponent(subnet.name)}`}>{subnet.name}</a>
          </th>
          <td>{subnet.use}</td>
          <td>{subnet.cidrs.join(", ")}</td>
          <td>
            <Fill subnet={subnet} />
          </td>
          <td class="number" data-field="reserved">{number(subnet.reserved)}</td>
          <td class="number" data-field="free">{number(subnet.free)}</td>
          <td>{forecast(subnet.forecast)}</td>
          <td>
            <Word text={subnet.state} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

function Fill({ subnet }: { subnet: Subnet }) {
  const reserved = share(subnet.reserved, subnet.capacity);
  const cooling = share(subnet.coolingDown, subnet.capacity);
  const percent = `${(reserved * 100).toFixed(reserved > 0 && reserved < 0.1 ? 1 : 0)} %`;
  return (
    <span class="fill">
      <Bar
        label={`${percent} reserved`}
        parts={[
          { name: "reserved", class: "assigned", share: reserved },
          { name: "cooling down", class: "coolingDown", share: cooling },
        ]}
      />
      {percent}
    </span>
  );
}

export function Subnets({ state, chosen }: { state: State; chosen?: string }) {
  const subnet = state.subnets.find((one) => one.name === chosen) ?? state.subnets[0];
  return (
    <>
      <Card title="Subnets">
        <SubnetTable subnets={state.subnets} chosen={subnet?.name} />
      </Card>
      {subnet && <Addresses key={subnet.name} subnet={subnet} state={state} />}
      {subnet && <Filling key={`${subnet.name} filling`} subnet={subnet} state={state} />}
    </>
  );
}

interface Window {
  from?: string;
  length?: number;
}

function Addresses({ subnet, state }: { subnet: Subnet; state: State }) {
  // The windows from the widest to the one that is shown.
  const [path, setPath] = useState<Window[]>([{}]);
  const here = path[path.length - 1];
  const { value: map, error } = useFresh<AddressMap>(
    mapPath(subnet.name, here.from, here.length),
    state,
    500,
  );
  const [shown, setShown] = useState<AddressMap>();
  useEffect(() => {
    if (map !== undefined) setShown(map);
  }, [map]);
  const out = path.length > 1 ? () => setPath(path.slice(0, -1)) : undefined;
  return (
    <Card title={`Addresses of ${subnet.name}`}>
      {error && <p role="alert">{error}</p>}
      {shown && (
        <>
          <div class="tools">
            <button type="button" onClick={out} disabled={out === undefined}>
              Zoom out
            </button>
            {shown.cidrs.length > 1 && (
              <label>
                CIDR{" "}
                <select
                  onChange={(event) =>
                    setPath([{ from: parse(event.currentTarget.value).address }])
                  }
                >
                  {shown.cidrs.map((cidr) => (
                    <option key={cidr}>{cidr}</option>
                  ))}
                </select>
              </label>
            )}
            <span>
              <b data-window={shown.window}>{shown.window}</b>, a cell is {cellWords(shown)}
            </span>
            <Find
              cidrs={shown.cidrs}
              unitLength={shown.unitLength}
              found={(from, length) => setPath([{}, { from, length }])}
            />
          </div>
          <Legend map={shown} />
          <MapView
            map={shown}
            zoom={(from, length) => setPath([...path, { from, length }])}
            out={out}
          />
          <SourceNote map={shown} subnet={subnet} />
        </>
      )}
    </Card>
  );
}

/** Such as `16 addresses` or `one /24`. */
function cellWords(map: AddressMap): string {
  const isOne = String(map.unitsPerCell) === "1";
  const count = isOne ? "one" : number(map.unitsPerCell);
  if (map.unitLength < parse(map.window).bits) {
    return isOne ? `one /${map.unitLength}` : `${count} of /${map.unitLength}`;
  }
  return `${count} ${isOne ? "address" : "addresses"}`;
}

function SourceNote({ map, subnet }: { map: AddressMap; subnet: Subnet }) {
  if (map.source === "addressBlocks") {
    return <p class="quiet">Read from AddressBlocks, the ledger's own records.</p>;
  }
  return (
    <p class="quiet">
      Read from what nodes list and pods and machines show: the ledger is not kept in the API
      server.{" "}
      {isZero(subnet.coolingDown)
        ? "What cools down is known to the ledger alone."
        : `${number(subnet.coolingDown)} addresses cool down; which ones is known to the ledger
           alone, and they are shown as free.`}
    </p>
  );
}

function Filling({ subnet, state }: { subnet: Subnet; state: State }) {
  const path = `/api/subnets/${encodeURIComponent(subnet.name)}/history`;
  const { value } = usePolled<SubnetColumns>(path, 5000);
  const [columns, setColumns] = useState<SubnetColumns>();
  useEffect(() => {
    if (value !== undefined) setColumns(value);
  }, [value]);
  return (
    <Card
      title={`How ${subnet.name} fills up`}
      note={`Since ${state.started.slice(0, 19)}Z, for an hour at most. When it runs out, if it goes on like that: ${forecast(subnet.forecast)}.`}
    >
      {columns && columns.times.length > 0 ? (
        <div class="charts">
          <Chart
            label="Demand against pool: pods that need an address, and addresses that their nodes have"
            lines={[
              { name: "pool", colour: "--leased-line" },
              { name: "demand", colour: "--assigned", fill: true },
            ]}
            columns={[columns.times, columns.pool, columns.demand]}
            format={whole}
          />
          <Chart
            label="Reserved against capacity"
            lines={[
              { name: "capacity", colour: "--text-quiet", dash: [6, 4] },
              { name: "reserved", colour: "--assigned", fill: true },
            ]}
            columns={[columns.times, columns.capacity, columns.reserved]}
            format={whole}
          />
        </div>
      ) : (
        <Nothing>The first sample comes within five seconds.</Nothing>
      )}
      <Told explanation={subnet.explanation} />
    </Card>
  );
}

// What needs a person, and how full everything is.

import type { State } from "../api";
import { Card, Nothing, Told } from "../parts";
import { number } from "../words";
import { EventList, Leaders } from "./events";
import { SubnetTable } from "./subnets";

function Tile({ href, name, value, note, isBad }: {
  href: string;
  name: string;
  value: string;
  note: string;
  isBad?: boolean;
}) {
  return (
    <a class={isBad ? "tile bad" : "tile"} href={href}>
      <span class="tile-name">{name}</span>
      <b>{value}</b>
      <span class="quiet">{note}</span>
    </a>
  );
}

export function Overview({ state }: { state: State }) {
  const { totals } = state;
  const routed = totals.routes.routed ?? 0;
  const unrouted = totals.routes.missing ?? 0;
  const tight = state.subnets.filter((subnet) => subnet.state !== "Ready");
  return (
    <>
      <div class="tiles">
        <Tile
          href="#/pods"
          name="Pods waiting"
          value={number(totals.podsWaiting)}
          note={`of ${number(totals.pods)} that need an address`}
          isBad={totals.podsWaiting > 0}
        />
        <Tile
          href="#/nodes"
          name="Nodes ready"
          value={`${number(totals.nodesReady)} of ${number(totals.nodes)}`}
          note="by their condition Ready"
          isBad={totals.nodesReady < totals.nodes}
        />
        <Tile
          href="#/subnets"
          name="Subnets"
          value={number(state.subnets.length)}
          note={tight.length > 0 ? `${tight.length} not ready` : "all ready"}
          isBad={tight.length > 0}
        />
        <Tile
          href="#/machines"
          name="Machines waiting"
          value={number(totals.machinesWaiting)}
          note={`of ${number(totals.machines)}`}
          isBad={totals.machinesWaiting > 0}
        />
        <Tile
          href="#/routes"
          name="Routes"
          value={unrouted > 0 ? `${unrouted} missing` : number(routed)}
          note={
            routed + unrouted === 0 ? "no node says it needs one" : `${number(routed)} in place`
          }
          isBad={unrouted > 0}
        />
        <Tile
          href="#/routes"
          name="Releasing"
          value={number(totals.releasing)}
          note="addresses on their way back"
        />
      </div>
      <Card title="Subnets">
        <SubnetTable subnets={state.subnets} />
      </Card>
      {state.waitingPods.slice(0, 3).map((pod) => (
        <Card key={`${pod.namespace}/${pod.name}`} title={`${pod.namespace}/${pod.name} waits`}>
          {pod.explanation ? <Told explanation={pod.explanation} /> : <Nothing>Not yet explained.</Nothing>}
        </Card>
      ))}
      <Card title="Who leads">
        <Leaders state={state} />
      </Card>
      <Card title="Recent events">
        <EventList events={state.events.slice(0, 8)} />
      </Card>
    </>
  );
}

// Routes to nodes, and the addresses that nodes give back.

import type { RouteState, State } from "../api";
import { Card, Nothing, Table, Word } from "../parts";
import { number, span } from "../words";

const WORDS: Record<RouteState, string> = {
  routed: "Routed",
  missing: "NoRoute",
  unknown: "Unknown",
};

export function Routes({ state }: { state: State }) {
  const nodes = state.nodes.filter((node) => node.route !== undefined);
  const { routes } = state.totals;
  const total = (routes.routed ?? 0) + (routes.missing ?? 0) + (routes.unknown ?? 0);
  return (
    <>
      <Card title="Routes">
        {total === 0 ? (
          <Nothing>No node has a podCIDR, so there are no routes to make.</Nothing>
        ) : (
          <>
            <p>
              Nodes with a podCIDR: {number(total)}. Routed: {number(routes.routed ?? 0)}. Without a
              route: {number(routes.missing ?? 0)}.
              {routes.unknown
                ? ` Not said: ${number(routes.unknown)}, so no route controller runs for them.`
                : ""}
            </p>
            <Table label="Routes" head={["Node", "podCIDRs", "Address", "Route", "Says"]}>
              {nodes.map((node) => (
                <tr key={node.name}>
                  <th scope="row">{node.name}</th>
                  <td>{node.podCidrs.join(", ")}</td>
                  <td>{node.address}</td>
                  <td>
                    <Word text={WORDS[node.route ?? "unknown"]} />
                  </td>
                  <td>{node.routeMessage ?? ""}</td>
                </tr>
              ))}
            </Table>
            {total > nodes.length && <Nothing>And {number(total - nodes.length)} more.</Nothing>}
          </>
        )}
      </Card>
      <Card
        title="Release queues"
        note={
          state.hasAgentMetrics
            ? "What agents give back, and what waits on disk for an agent to read it."
            : "What agents give back. The queues on their disks are not known: the agents' metrics are not read."
        }
      >
        {state.releases.length === 0 ? (
          <Nothing>Nothing is on its way back.</Nothing>
        ) : (
          <Table label="Release queues" head={["Node", "Releasing", "Queued", "Oldest"]}>
            {state.releases.map((row) => (
              <tr key={row.node}>
                <th scope="row">{row.node}</th>
                <td class="number">{number(row.releasing)}</td>
                <td class="number">{row.queued == null ? "–" : number(row.queued)}</td>
                <td>{row.oldestSeconds ? span(row.oldestSeconds) : "–"}</td>
              </tr>
            ))}
          </Table>
        )}
      </Card>
    </>
  );
}

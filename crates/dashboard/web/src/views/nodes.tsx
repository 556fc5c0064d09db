// Nodes with their pools, and how long an ADD takes on them.

import { useEffect, useState } from "preact/hooks";

import type { LatencyColumns, Node, NodePage, State } from "../api";
import { Chart } from "../chart";
import { useFresh, usePolled } from "../fresh";
import { Bar, Card, Nothing, Table, Word } from "../parts";
import { number, since } from "../words";

const COUNT = 50;

export function Nodes({ state }: { state: State }) {
  const [search, setSearch] = useState("");
  const [from, setFrom] = useState(0);
  const query = new URLSearchParams({ search, from: String(from), count: String(COUNT) });
  const { value } = useFresh<NodePage>(`/api/nodes?${query}`, state, 500);
  const [page, setPage] = useState<NodePage>();
  useEffect(() => {
    if (value !== undefined) setPage(value);
  }, [value]);
  const total = page?.total ?? 0;
  return (
    <>
      <Card title="Nodes" note="Those that need a look come first.">
        <div class="tools">
          <label>
            Search{" "}
            <input
              type="search"
              value={search}
              onInput={(event) => {
                setSearch(event.currentTarget.value);
                setFrom(0);
              }}
            />
          </label>
          <button type="button" disabled={from === 0} onClick={() => setFrom(from - COUNT)}>
            Previous
          </button>
          <button
            type="button"
            disabled={from + COUNT >= total}
            onClick={() => setFrom(from + COUNT)}
          >
            Next
          </button>
          <span role="status">
            {total === 0
              ? "none"
              : `${number(from + 1)} to ${number(Math.min(from + COUNT, total))} of ${number(total)}`}
          </span>
        </div>
        {page && <NodeTable nodes={page.nodes} />}
      </Card>
      <Latency state={state} />
    </>
  );
}

function NodeTable({ nodes }: { nodes: Node[] }) {
  if (nodes.length === 0) return <Nothing>No node matches.</Nothing>;
  const head = ["Node", "State", "Subnet", "Pool", "Has", "Asks for", "Pods", "Waiting", "Address", "Age"];
  return (
    <Table label="Nodes" head={head}>
      {nodes.map((node) => (
        <tr key={node.name}>
          <th scope="row">{node.name}</th>
          <td>
            <Word text={node.state} />
          </td>
          <td>{node.podCidrs.length > 0 && !node.subnet ? node.podCidrs.join(", ") : node.subnet}</td>
          <td>
            <Pool node={node} />
          </td>
          <td class="number">{number(node.has)}</td>
          <td class="number">{number(node.requested)}</td>
          <td class="number">{number(node.pods)}</td>
          <td class={node.waiting > 0 ? "number bad" : "number"}>{number(node.waiting)}</td>
          <td>{node.address}</td>
          <td>{since(node.created)}</td>
        </tr>
      ))}
    </Table>
  );
}

/** The addresses of a node: in use, spare, and missing for its pods. */
function Pool({ node }: { node: Node }) {
  const all = Math.max(node.has, node.pods, 1);
  const used = Math.min(node.pods, node.has);
  const max = node.max ? `, at most ${number(node.max)}` : "";
  return (
    <Bar
      label={`${number(used)} of ${number(node.has)} addresses in use${max}`}
      parts={[
        { name: "in use", class: "assigned", share: used / all },
        { name: "spare", class: "leased", share: (node.has - used) / all },
        { name: "missing", class: "missing", share: (node.pods - used) / all },
      ]}
    />
  );
}

function Latency({ state }: { state: State }) {
  const { value } = usePolled<LatencyColumns>("/api/latency", 5000);
  const [columns, setColumns] = useState<LatencyColumns>();
  useEffect(() => {
    if (value !== undefined) setColumns(value);
  }, [value]);
  if (!state.hasAgentMetrics) {
    return (
      <Card title="How long an ADD takes">
        <Nothing>
          Not known: the agents' metrics are not read. An agent serves them with --metrics-listen,
          and berth dashboard --agent-metrics URL reads them.
        </Nothing>
      </Card>
    );
  }
  const milliseconds = (list: (number | null)[]) =>
    list.map((one) => (one === null ? null : one * 1000));
  return (
    <Card
      title="How long an ADD takes"
      note="As agents measure it, every five seconds. Gaps are times without an ADD."
    >
      {columns && columns.median.some((one) => one !== null) ? (
        <Chart
          label="ADD latency"
          lines={[
            { name: "median", colour: "--assigned" },
            { name: "99th percentile", colour: "--primary" },
          ]}
          columns={[columns.times, milliseconds(columns.median), milliseconds(columns.high)]}
          format={(value) => `${value.toLocaleString("en", { maximumSignificantDigits: 3 })} ms`}
        />
      ) : (
        <Nothing>No pod has asked for an address since this page can tell.</Nothing>
      )}
    </Card>
  );
}

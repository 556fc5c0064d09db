// Machines and their step on the way to a network.

import type { Machine, State } from "../api";
import { Card, Nothing, Table, Told, Word } from "../parts";
import { number } from "../words";

/** The path of the form for its network. */
const machinePath = ({ group, namespace, name }: Machine) =>
  ["#/machines", group, ...(namespace === "" ? [] : [namespace]), name]
    .map((part, place) => (place === 0 ? part : encodeURIComponent(part)))
    .join("/");

const machineKey = ({ namespace, name }: Machine) => `${namespace}/${name}`;

export function Machines({ state }: { state: State }) {
  const waiting = state.machines.filter((machine) => machine.explanation !== undefined);
  const more = state.totals.machines - state.machines.length;
  return (
    <>
      <Card title="Machines">
        <p>
          <a href="#/machines/new">Make a machine</a>
        </p>
        {state.machines.length === 0 ? (
          <Nothing>There are no machines in this cluster.</Nothing>
        ) : (
          <Table label="Machines" head={["Namespace", "Machine", "Addresses", "Step"]}>
            {state.machines.map((machine) => (
              <tr key={machineKey(machine)}>
                <td>{machine.namespace}</td>
                <th scope="row">
                  <a href={machinePath(machine)}>{machine.name}</a>
                </th>
                <td>{machine.addresses.join(", ") || "–"}</td>
                <td>
                  <Word text={machine.state} />
                </td>
              </tr>
            ))}
          </Table>
        )}
        {more > 0 && <Nothing>And {number(more)} more.</Nothing>}
      </Card>
      {/* Below the list, which would move under the pointer as machines come to wait. */}
      {waiting.length > 0 && (
        <Card title="Machines that wait for their network">
          {waiting.map((machine) => (
            <article key={machineKey(machine)} class="item">
              <h3>{machine.namespace === "" ? machine.name : machineKey(machine)}</h3>
              {machine.explanation && <Told explanation={machine.explanation} />}
            </article>
          ))}
        </Card>
      )}
    </>
  );
}

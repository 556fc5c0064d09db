// Who leads, and what happened.

import type { ClusterEvent, State } from "../api";
import { Card, Nothing, Table, Word } from "../parts";
import { since } from "../words";

export function Events({ state }: { state: State }) {
  return (
    <>
      <Card title="Who leads">
        <Leaders state={state} />
      </Card>
      <Card title="Recent events" note="Those that have to do with addresses. The latest first.">
        <EventList events={state.events} />
      </Card>
    </>
  );
}

export function Leaders({ state }: { state: State }) {
  if (state.leaders.length === 0) {
    return (
      <Nothing>
        {state.keptIn
          ? "berth up runs one of everything: nobody has to be elected."
          : "There is no Lease of Berth in kube-system: no controller with --leader-elect runs."}
      </Nothing>
    );
  }
  return (
    <Table label="Leases" head={["Lease", "Holder", "For", "Changes", "State"]}>
      {state.leaders.map((leader) => (
        <tr key={leader.name}>
          <th scope="row">{leader.name}</th>
          <td>{leader.holder || "nobody"}</td>
          <td>{since(leader.since)}</td>
          <td class="number">{leader.transitions}</td>
          <td>
            <Word text={leader.isExpired ? "Expired" : "Ready"} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

export function EventList({ events }: { events: ClusterEvent[] }) {
  if (events.length === 0) return <Nothing>None yet.</Nothing>;
  return (
    <Table label="Events" head={["Ago", "Kind", "Object", "What"]}>
      {events.map((event) => (
        <tr key={`${event.time} ${event.object} ${event.reason}`}>
          <td>{since(event.time)}</td>
          <td>
            <span class={event.isWarning ? "word bad" : "word so-so"}>
              {event.isWarning ? "! " : ""}
              {event.reason}
            </span>
            {event.count > 1 && <span class="quiet"> × {event.count}</span>}
          </td>
          <td>{event.object}</td>
          <td class="wide">{event.note}</td>
        </tr>
      ))}
    </Table>
  );
}

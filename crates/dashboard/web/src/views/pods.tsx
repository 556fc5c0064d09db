// Pods that wait for an address, and why.

import type { State } from "../api";
import { Card, Nothing, Told } from "../parts";
import { number, since } from "../words";

export function Pods({ state }: { state: State }) {
  const { podsWaiting, pods } = state.totals;
  const more = podsWaiting - state.waitingPods.length;
  return (
    <Card
      title="Pods that wait for an address"
      note={`${number(podsWaiting)} of ${number(pods)} that need one. The longest first.`}
    >
      {podsWaiting === 0 && <Nothing>Every pod has its address.</Nothing>}
      {state.waitingPods.map((pod) => (
        <article key={`${pod.namespace}/${pod.name}`} class="item">
          <h3>
            {pod.namespace}/{pod.name}
          </h3>
          <p class="quiet">
            {pod.node ? `on ${pod.node}` : "on no node"}, since {since(pod.since)}
          </p>
          {pod.explanation ? (
            <Told explanation={pod.explanation} />
          ) : (
            <p>
              <code>
                berth explain pod {pod.namespace}/{pod.name}
              </code>
            </p>
          )}
        </article>
      ))}
      {more > 0 && <Nothing>And {number(more)} more.</Nothing>}
    </Card>
  );
}

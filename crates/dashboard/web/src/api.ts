// The server's answers. The names are those of crates/dashboard/src/{state,map,history}.rs; forms
// are in form.ts.

/** A number, or a string of digits where it does not fit 53 bits. */
export type Count = number | string;

export interface Explanation {
  sentences: string[];
  nextSteps: string[];
}

export type Forecast =
  | { kind: "unknown" | "full" | "steady" }
  | { kind: "runsOut"; seconds: number };

export type Source = "addressBlocks" | "nodesAndPods";

export interface Subnet {
  name: string;
  use: string;
  cidrs: string[];
  capacity?: Count | null;
  reserved?: Count | null;
  coolingDown?: Count | null;
  free?: Count | null;
  podsThatFit?: Count | null;
  state: string;
  source: Source;
  nodes: number;
  pool: Count;
  demand: number;
  forecast: Forecast;
  explanation: Explanation;
}

export type RouteState = "routed" | "missing" | "unknown";

export interface Node {
  name: string;
  ready: boolean;
  subnet: string;
  podCidrs: string[];
  has: number;
  requested: number;
  pods: number;
  waiting: number;
  state: string;
  address: string;
  created?: string;
  max?: number | null;
  releasing: number;
  route?: RouteState;
  routeMessage?: string;
}

export interface WaitingPod {
  namespace: string;
  name: string;
  node?: string | null;
  since?: string | null;
  explanation?: Explanation;
}

export interface Machine {
  namespace: string;
  name: string;
  addresses: string[];
  state: string;
  /** The API group of its kind: machine.k8s.io or cluster.k8s.io. */
  group: string;
  explanation?: Explanation;
}

/** A Cluster with machines of its own. */
export interface Cluster {
  name: string;
  isVsphere: boolean;
  cidrs: string[];
}

export interface Releases {
  node: string;
  releasing: number;
  queued?: number | null;
  oldestSeconds?: number | null;
}

export interface Leader {
  name: string;
  holder: string;
  since?: string | null;
  transitions: number;
  isExpired: boolean;
}

export interface ClusterEvent {
  time: string;
  isWarning: boolean;
  reason: string;
  object: string;
  note: string;
  count: number;
}

export interface State {
  version: string;
  api: string;
  keptIn?: string;
  started: string;
  hasAgentMetrics: boolean;
  unsynced: string[];
  missing: string[];
  totals: {
    nodes: number;
    nodesReady: number;
    pods: number;
    podsWaiting: number;
    machines: number;
    machinesWaiting: number;
    routes: Partial<Record<RouteState, number>>;
    releasing: number;
  };
  subnets: Subnet[];
  nodes: Node[];
  waitingPods: WaitingPod[];
  machines: Machine[];
  clusters: Cluster[];
  releases: Releases[];
  leaders: Leader[];
  events: ClusterEvent[];
}

export interface Counts {
  free: Count;
  primary: Count;
  leased: Count;
  assigned: Count;
  coolingDown: Count;
  setAside: Count;
}

export interface Cell extends Counts {
  index: number;
  detail?: { owner: string; node?: string; pod?: string; pods: number; since?: string };
}

export interface AddressMap {
  subnet: string;
  source: Source;
  cidrs: string[];
  window: string;
  unitLength: number;
  cellLength: number;
  cellCount: number;
  unitsPerCell: Count;
  counts: Counts;
  cells: Cell[];
}

export interface SubnetColumns {
  times: number[];
  capacity: number[];
  reserved: number[];
  pool: number[];
  demand: number[];
}

export interface LatencyColumns {
  times: number[];
  median: (number | null)[];
  high: (number | null)[];
}

export interface NodePage {
  total: number;
  from: number;
  nodes: Node[];
}

/** Throws the error that the server answers. */
export async function ask<T>(path: string, signal?: AbortSignal): Promise<T> {
  const answer = await fetch(path, { signal });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error ?? answer.statusText);
  return body as T;
}

export function mapPath(subnet: string, from?: string, length?: number): string {
  const query = new URLSearchParams();
  if (from !== undefined) query.set("from", from);
  if (length !== undefined) query.set("length", String(length));
  return `/api/subnets/${encodeURIComponent(subnet)}/map?${query}`;
}

/** Tells every state, and whether the connection is live. Returns a function that ends it. */
export function follow(told: (state: State) => void, live: (is: boolean) => void): () => void {
  let source: EventSource | undefined;
  let retry: number | undefined;
  const open = () => {
    source = new EventSource("/api/stream");
    source.addEventListener("open", () => live(true));
    source.addEventListener("state", (event) => told(JSON.parse((event as MessageEvent).data)));
    source.addEventListener("error", () => {
      live(false);
      // A browser gives up after some errors: then connect again.
      if (source?.readyState === EventSource.CLOSED) retry = window.setTimeout(open, 1000);
    });
  };
  open();
  return () => {
    source?.close();
    window.clearTimeout(retry);
  };
}

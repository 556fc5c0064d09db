//! The next step for each reason that Berth gives in events and conditions.
//!
//! Every reason of controllers, agents, routes and machines is here or in [`GOOD`], and every text
//! of the scheduler in [`REFUSALS`]: a test compares the sources with these lists.

/// A reason, and what a person can do about it.
pub const STEPS: &[(&str, &str)] = &[
    // Nodes and their NodeNetworkConfigs.
    (
        "NoSubnet",
        "create a Subnet with use pods whose nodeSelector selects the node",
    ),
    (
        "SubnetFull",
        "append a CIDR to spec.cidrs of the Subnet: kubectl edit subnet NAME",
    ),
    ("SubnetGone", "create the Subnet again, with the cidrs that it had"),
    ("SubnetChanged", "put back the CIDRs that the Subnet was created with"),
    (
        "TooManyRequested",
        "raise scaler.maxIPCount of the Subnet, or run fewer pods on the node",
    ),
    (
        "NotAdopted",
        "delete the NodeNetworkConfig that belongs to another Node, or wait until it is gone",
    ),
    (
        "PodCIDRNotRecorded",
        "delete the Node that has the podCIDR, or change the Subnet's cidrs",
    ),
    (
        "Reclaimed",
        "nothing, if the object was deleted on purpose: its addresses are free again",
    ),
    // Conditions that an agent writes on its node.
    (
        "NoNetworkContainer",
        "is `berth controller` running? kubectl describe nnc -n kube-system",
    ),
    (
        "Quarantined",
        "wait until the agent knows what pods have: it asks the runtime (--cri-socket)",
    ),
    (
        "MaxIPCountReached",
        "raise spec.scaler.maxIPCount of the Subnet, or move pods elsewhere",
    ),
    ("AllocatablePodsReached", "raise maxPods of the kubelet, or add a node"),
    ("PodCIDRFull", "add a node: a podCIDR does not grow"),
    ("WrongMachine", "stop the agent on one of the machines: a node has one"),
    (
        "AddressReclaimed",
        "nothing, unless it happens often: the runtime loses DELs then",
    ),
    // Routes.
    (
        "NoRouteCreated",
        "is the controller route running, and does it lead? See its log",
    ),
    (
        "FailedToCreateRoute",
        "look at what the backend says: quota, permissions, or the next hop",
    ),
    // Subnets.
    (
        "Invalid",
        "kubectl edit subnet NAME: put right the field that the message names",
    ),
    (
        "Overlapping",
        "kubectl edit subnet NAME: use CIDRs that nobody else has",
    ),
    ("ServiceCIDR", "exclude the addresses of Services, or use another CIDR"),
    (
        "InUse",
        "put back what was taken out of the Subnet: somebody has addresses of it",
    ),
    ("WrongCluster", "use a Subnet of this cluster, or another name"),
    ("Deleting", "delete the Nodes that still draw on it, or create it again"),
    (
        "SubnetInUse",
        "delete the Nodes that still draw on it, or create it again",
    ),
    ("NotReady", "look at what the condition Ready of the Subnet says"),
    (
        "Exhausted",
        "append a CIDR to spec.cidrs of the Subnet, before it is full",
    ),
    (
        "AddressesAwaited",
        "append a CIDR to spec.cidrs of the Subnet: nodes wait for addresses",
    ),
    (
        "AddressConflict",
        "delete one of the two that have the address: berth check names them",
    ),
    (
        "LedgerRestored",
        "nothing: nodes keep their addresses; check that no older copy of the ledger is in use",
    ),
    // Machines.
    (
        "NoFreeAddress",
        "append a CIDR: --network of machine IPAM, or spec.cidrs of the Subnet",
    ),
    (
        "NoNetwork",
        "give `berth machine-ipam` a --network, or create a Subnet with use machines",
    ),
    (
        "InvalidNetwork",
        "put right the field of the machine's network that the message names",
    ),
    (
        "NetworkOutside",
        "nothing, if the address was set by hand; it is in none of the networks of machine IPAM",
    ),
    (
        "NetworkDiffers",
        "give --network as it was, or remove the Subnet that was made by hand",
    ),
    (
        "Failed",
        "put right what the message names; machine IPAM has done its part",
    ),
    (
        "InvalidMachineNetwork",
        "kubectl edit cluster NAME: put right spec.machineNetworks",
    ),
    (
        "NoGate",
        "update the user cluster to 1.36, or give the controller --webhook-listen",
    ),
    // Claims of Cluster API.
    ("AllocationFailed", "delete one of the two that have the address"),
    (
        "PoolNotReady",
        "create the Subnet that spec.poolRef names, with use machines",
    ),
    (
        "PoolExhausted",
        "append a CIDR to spec.cidrs of the Subnet that spec.poolRef names",
    ),
    // Reasons of a kubelet, after a plugin or the agent refused a request.
    (
        "FailedCreatePodSandBox",
        "is the agent on the pod's node running? Its log says what it refused",
    ),
    (
        "FailedKillPod",
        "is the agent on the pod's node running, and can it write its journal?",
    ),
];

/// Reasons that mean that all is well.
pub const GOOD: &[&str] = &[
    "Accepted",
    "AddressesFree",
    "Allocated",
    "Enough",
    "NoConflict",
    "NoOverlap",
    "Provisioned",
    "RouteCreated",
];

/// A part of the scheduler's message about a node, and the next step for it.
pub const REFUSALS: &[(&str, &str)] = &[
    (
        "no pod IP left in subnet",
        "append a CIDR to spec.cidrs of the Subnet, or remove pods",
    ),
    (
        "no pod IP left in the node's podCIDR",
        "add a node: a podCIDR does not grow",
    ),
    (
        "as maxIPCount of its subnet allows",
        "raise spec.scaler.maxIPCount of the Subnet",
    ),
    (
        "the node has no network container yet",
        "berth explain node NAME says what it waits for",
    ),
    (
        "neither a podCIDR nor a NodeNetworkConfig",
        "does a Subnet select the node? berth status nodes",
    ),
    (
        "the node's podCIDR can't be read",
        "put right spec.podCIDRs of the Node",
    ),
    (
        "the node is not known yet",
        "wait a moment; if it stays, is `berth scheduler` cut off?",
    ),
    ("the pod is bound to node", "nothing: it is on that node already"),
    (
        "the pod may be bound to node",
        "wait until that binding is answered, or has timed out",
    ),
];

/// `None` for a reason that has no next step.
pub fn step(reason: &str) -> Option<&'static str> {
    let found = STEPS.iter().find(|(name, _)| *name == reason);
    found.map(|(_, step)| *step)
}

/// The next steps for everything in the scheduler's message about the nodes.
pub fn steps_for_refusals(message: &str) -> impl Iterator<Item = &'static str> {
    let said = REFUSALS.iter().filter(move |(part, _)| message.contains(part));
    said.map(|(_, step)| *step)
}

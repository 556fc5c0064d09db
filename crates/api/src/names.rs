//! Names that several processes, scripts and people rely on.

/// The group of the resources that are shared with Azure's node agent.
pub const ACN_GROUP: &str = "acn.azure.com";
pub const NNC_VERSION: &str = "v1alpha";
pub const SUBNET_STATE_VERSION: &str = "v1alpha1";

/// The group of our own resources.
pub const BERTH_GROUP: &str = "berth.dev";
pub const BERTH_VERSION: &str = "v1alpha1";

/// The namespace of NodeNetworkConfigs and ClusterSubnetStates.
pub const NAMESPACE: &str = "kube-system";

/// The Subnet that `berth up` makes at its first start.
pub const DEFAULT_SUBNET: &str = "pods";

/// The finalizer of a NodeNetworkConfig, from its creation until all of its addresses are back.
pub const FINALIZER: &str = "berth.dev/network-container";

/// The label of an AddressBlock with the name of its Subnet.
pub const SUBNET_LABEL: &str = "berth.dev/subnet";

/// The condition of a Node that says whether its next pod would get an address. The node's agent
/// writes it.
pub const POD_ADDRESSES_AVAILABLE: &str = "berth.dev/PodAddressesAvailable";

/// The extended resource of Nodes: one for each pod that can still have an address.
pub const POD_IPS: &str = "berth.dev/pod-ips";

/// The annotation of a Node with the time when it had room for a pod again. Only its change
/// matters: it makes kube-scheduler try the waiting pods.
pub const ROOM_ANNOTATION: &str = "berth.dev/pod-ips-came-free";

/// The default path of the agent's socket.
pub const DEFAULT_SOCKET: &str = "/run/berth/agent.sock";
pub const DEFAULT_STATE_DIR: &str = "/var/lib/berth";
/// The default directory of the release queue: plugins leave releases there that the agent did not
/// answer.
pub const DEFAULT_QUEUE_DIR: &str = "/var/lib/berth/release-queue";

/// Field managers of server-side apply, one for each writer: two writers with one name would remove
/// each other's fields.
pub mod field_manager {
    pub const NODE: &str = "berth-node";
    pub const NNC: &str = "berth-nnc";
    pub const SUBNET: &str = "berth-subnet";
    pub const SUBNET_STATE: &str = "berth-subnet-state";
    pub const AGENT: &str = "berth-agent";
    pub const SCHEDULER: &str = "berth-scheduler";
    pub const POD_IPS: &str = "berth-pod-ips";
    /// The field manager of Azure's node agent. We only read it, in `managedFields`.
    pub const AZURE_CNS: &str = "azure-cns";
}

//! The messages of `runtime.v1` as far as the agent needs them. Fields that are not named here are
//! left at their defaults when sent, and skipped when received.

use std::collections::BTreeMap;

use prost::Message;

/// The state of a sandbox whose network is there.
pub const READY: i32 = 0;

/// Without a filter: all of them.
#[derive(Clone, PartialEq, Message)]
pub struct ListPodSandboxRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct ListPodSandboxResponse {
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<PodSandbox>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSandbox {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<Metadata>,
    #[prost(int32, tag = "3")]
    pub state: i32,
    /// Nanoseconds since the epoch.
    #[prost(int64, tag = "4")]
    pub created_at: i64,
}

/// Of the pod.
#[derive(Clone, PartialEq, Message)]
pub struct Metadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub namespace: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxStatusRequest {
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
    #[prost(bool, tag = "2")]
    pub verbose: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub status: Option<SandboxStatus>,
    /// When asked verbosely: whatever the runtime has to say beyond the CRI.
    #[prost(btree_map = "string, string", tag = "2")]
    pub info: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SandboxStatus {
    #[prost(message, optional, tag = "5")]
    pub network: Option<NetworkStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NetworkStatus {
    #[prost(string, tag = "1")]
    pub ip: String,
    #[prost(message, repeated, tag = "2")]
    pub additional_ips: Vec<PodIp>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodIp {
    #[prost(string, tag = "1")]
    pub ip: String,
}

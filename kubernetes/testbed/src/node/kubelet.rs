//! The kubelet of a node.

use serde_json::{Value, json};

use super::containerd;
use super::network::Seat;

/// The kernel parameters that the kubelet requires, in `/proc/sys`.
pub const SYSCTLS: &[(&str, &str)] = &[
    ("kernel.keys.root_maxbytes", "25000000"),
    ("kernel.keys.root_maxkeys", "1000000"),
    ("kernel.panic", "10"),
    ("kernel.panic_on_oops", "1"),
    ("vm.overcommit_memory", "1"),
    ("vm.panic_on_oom", "0"),
];

/// `/etc/kubernetes/kubelet.json` on the node.
pub fn configuration(seat: &Seat, max_pods: u32) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": seat.address,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": false},
            "x509": {"clientCAFile": "/etc/kubernetes/ca.crt"},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": format!("unix://{}", containerd::SOCKET),
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "resolvConf": "",
        "maxPods": max_pods,
        // Several nodes share one machine: no node manages its limits, memory or disk.
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "failCgroupV1": false,
        "failSwapOn": false,
        "makeIPTablesUtilChains": false,
        "oomScoreAdj": 0,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
            "memory.available": "0%",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
        },
    })
}

pub fn flags(seat: &Seat) -> Vec<String> {
    vec![
        "--config=/etc/kubernetes/kubelet.json".to_owned(),
        "--kubeconfig=/etc/kubernetes/kubelet.kubeconfig".to_owned(),
        format!("--hostname-override={}", seat.node),
        format!("--node-ip={},{}", seat.address, seat.address_v6),
    ]
}

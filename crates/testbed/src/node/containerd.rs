//! The container runtime of a node.

use crate::image::SANDBOX_IMAGE;

/// As the node sees it.
pub const SOCKET: &str = "/run/containerd/containerd.sock";

/// `/etc/containerd/config.toml` on the node; everything else is at its default place, which is the node's own.
pub fn configuration() -> String {
    format!(
        r#"version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "{SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{SANDBOX_IMAGE}"
# Where the capability to raise a process's chances of survival is missing, containers would not start.
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
conf_dir = "/etc/cni/net.d"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"#
    )
}

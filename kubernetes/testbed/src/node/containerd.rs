//! The container runtime of a node.

use std::ffi::OsString;

use anyhow::{Context, Result, ensure};

use crate::image::SANDBOX_IMAGE;
use crate::programs::peers;

/// The path of the CRI socket inside the node.
pub const SOCKET: &str = "/run/containerd/containerd.sock";

/// The containerd of a node. Debian's is 1.6, which never asks plugins for their STATUS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runtime {
    #[default]
    Debian,
    /// Built from its Go module, see [`peers`]. It asks for the STATUS every 5 seconds.
    Containerd2,
}

impl Runtime {
    /// `PATH=...` with its programs first: containerd finds its shim there.
    pub fn path_variable(self) -> Result<OsString> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut directories: Vec<_> = std::env::split_paths(&path).collect();
        if self == Self::Containerd2 {
            let directory = peers::containerd()?;
            ensure!(
                directory.join("containerd").exists(),
                "containerd 2 is not built yet: `cargo xtask test e2e` builds it"
            );
            directories.insert(0, directory);
        }
        let mut variable = OsString::from("PATH=");
        variable.push(std::env::join_paths(directories).context("PATH")?);
        Ok(variable)
    }

    /// `/etc/containerd/config.toml` on the node; all other paths are the defaults, which are
    /// private to the node.
    pub fn configuration(self) -> String {
        let plugins = match self {
            Self::Debian => version_2(),
            Self::Containerd2 => version_3(),
        };
        format!(
            r#"{plugins}
[grpc]
address = "{SOCKET}"
"#
        )
    }
}

// Without `restrict_oom_score_adj`, containers would not start on a machine that lacks the
// capability to lower a process's OOM score.

fn version_2() -> String {
    format!(
        r#"version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{SANDBOX_IMAGE}"
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

fn version_3() -> String {
    format!(
        r#"version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{SANDBOX_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/opt/cni/bin"]
conf_dir = "/etc/cni/net.d"

[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"#
    )
}

//! The pod that cleans a node: `berth uninstall node` with the node's own directories.

use anyhow::{Context, Result};
use berth_agent::install::{DEFAULT_BIN_DIR, DEFAULT_CONF_DIR};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// The label of all these pods.
pub const LABEL: &str = "app.kubernetes.io/name=berth-uninstall-node";

// Not a doc comment: clap would show it as the help of the command.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// The image of the pods that clean the nodes: this program's
    #[arg(long, env = "BERTH_IMAGE", value_name = "IMAGE")]
    pub image: String,
    /// Whether the kubelet pulls it: Always, IfNotPresent or Never
    #[arg(
        long,
        env = "BERTH_IMAGE_PULL_POLICY",
        value_name = "POLICY",
        default_value = "IfNotPresent"
    )]
    pub image_pull_policy: String,
    /// Where the nodes' container runtime looks for plugins
    #[arg(long, env = "BERTH_CNI_BIN_DIR", value_name = "DIR", default_value = DEFAULT_BIN_DIR)]
    pub cni_bin_dir: String,
    /// Where the nodes' container runtime looks for its network configuration
    #[arg(long, env = "BERTH_CNI_CONF_DIR", value_name = "DIR", default_value = DEFAULT_CONF_DIR)]
    pub cni_conf_dir: String,
    /// Also remove who has which address: the nodes' journals, the address plan, and what keeps
    /// NodeNetworkConfigs from being deleted
    #[arg(long, env = "BERTH_PURGE")]
    pub purge: bool,
}

pub fn of_node(node: &str, flags: &Flags) -> Result<Pod> {
    let mut args = vec![
        "uninstall".to_owned(),
        "node".to_owned(),
        format!("--cni-bin-dir={}", flags.cni_bin_dir),
        format!("--cni-conf-dir={}", flags.cni_conf_dir),
    ];
    // Mounts the parents: a mounted directory itself cannot be removed.
    let mut places = vec![("bin", flags.cni_bin_dir.as_str()), ("conf", &flags.cni_conf_dir)];
    if flags.purge {
        let own = ["--purge", "--state-dir=/host/lib/berth", "--run-dir=/host/run/berth"];
        args.extend(own.map(str::to_owned));
        places.extend([("lib", "/var/lib"), ("run", "/run")]);
    }
    let inside = |name: &str, path: &str| match name {
        "lib" | "run" => format!("/host/{name}"),
        _ => path.to_owned(),
    };
    let mounts: Vec<_> = places
        .iter()
        .map(|(name, path)| json!({"name": name, "mountPath": inside(name, path)}))
        .collect();
    let volumes: Vec<_> = places
        .iter()
        .map(|(name, path)| {
            json!({"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}})
        })
        .collect();
    let (key, value) = LABEL.split_once('=').context("a label has a value")?;
    let pod = json!({
        "metadata": {"name": format!("berth-uninstall-{node}"), "labels": {key: value}},
        "spec": {
            "nodeName": node,
            "hostNetwork": true,
            "restartPolicy": "Never",
            "priorityClassName": "system-node-critical",
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{
                "name": "uninstall",
                "image": flags.image,
                "imagePullPolicy": flags.image_pull_policy,
                "args": args,
                // The pod's status then says why it failed.
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "securityContext": {"runAsUser": 0, "readOnlyRootFilesystem": true},
                "volumeMounts": mounts,
            }],
            "volumes": volumes,
        },
    });
    Ok(serde_json::from_value(pod)?)
}

//! What is in a cluster and on its nodes, as far as a chart could leave something there.

use std::collections::BTreeSet;

use anyhow::Result;
use berth_testbed::Node;

use crate::helm::tried;
use crate::site::Site;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    objects: BTreeSet<String>,
    conditions: BTreeSet<String>,
    files: BTreeSet<String>,
}

/// Kubernetes itself creates these at any time.
const OF_OTHERS: [&str; 5] = [
    "events",
    "events.events.k8s.io",
    "componentstatuses",
    "endpointslices.discovery.k8s.io",
    "ipaddresses.networking.k8s.io",
];
/// A kubelet may create its Lease only after the first look.
const OF_KUBELETS: &str = "Lease kube-node-lease ";

impl Remains {
    /// An error while definitions are on their way out: what was just listed may be gone.
    pub fn of(site: &Site) -> Result<Self> {
        let mut remains = Self::default();
        let kubectl = || site.scene.cluster.kubectl();
        let kinds = tried(kubectl().args(["api-resources", "--verbs=list", "--output=name"]))?;
        let kinds = kinds.lines().filter(|kind| !OF_OTHERS.contains(kind));
        let kinds = kinds.collect::<Vec<_>>().join(",");
        let listed = tried(kubectl().args([
            "get",
            &kinds,
            "--all-namespaces",
            "--ignore-not-found",
            "--no-headers",
            "--output=custom-columns=K:.kind,NS:.metadata.namespace,N:.metadata.name",
        ]))?;
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let listed = listed.lines().map(words);
        remains.objects = listed.filter(|line| !line.starts_with(OF_KUBELETS)).collect();
        let shown = "--output=jsonpath={range .items[*]}{.metadata.name}\
                     {range .status.conditions[*]} {.type}{end}{\"\\n\"}{end}";
        let conditions = tried(kubectl().args(["get", "nodes", shown]))?;
        remains.conditions = conditions.lines().map(words).collect();
        for node in site.nodes() {
            remains.files.extend(files(node)?);
        }
        Ok(remains)
    }

    /// What is left and what is missing, for a message.
    pub fn beyond(&self, before: &Self) -> String {
        let mut all: Vec<&String> = self.objects.difference(&before.objects).collect();
        all.extend(self.conditions.difference(&before.conditions));
        all.extend(self.files.difference(&before.files));
        let mut missing: Vec<&String> = before.objects.difference(&self.objects).collect();
        missing.extend(before.files.difference(&self.files));
        format!("left: {all:#?}, missing: {missing:?}")
    }
}

/// Where plugins, confs, journals, sockets and interfaces are.
fn files(node: &Node) -> Result<Vec<String>> {
    let script = "ls -A /opt/cni/bin /etc/cni/net.d; ls -d /run/berth /var/lib/berth; \
                  ip -o link show type veth | cut -d: -f2 | cut -d@ -f1; \
                  ip route show proto static; ip route show | grep '^10\\.64\\.'; true";
    let mut command = node.command("sh");
    let listed = tried(command.args(["-c", script]))?;
    let named = |line: &str| format!("{} {}", node.name(), line.trim());
    Ok(listed
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(named)
        .collect())
}

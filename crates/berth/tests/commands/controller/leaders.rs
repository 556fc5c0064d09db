//! Several processes: those that lead, and those that only think so.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::names::NAMESPACE;
use berth_api::{AddressBlock, NodeNetworkConfig, Subnet, SubnetSpec};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tempfile::TempDir;

use super::{Cluster, Process, berth};

impl Process {
    /// Its clocks go on, and it does not.
    fn freeze(&self) {
        self.signal("STOP");
    }

    fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let mut kill = std::process::Command::new("kill");
        let sent = kill.args(["-s", name, &self.0.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
}

impl Cluster {
    /// A controller on the cluster's own store, with leader election.
    fn controller(&self, arguments: &[&str]) -> Process {
        let mut command = berth("controller");
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        Process(command.spawn().unwrap())
    }

    async fn subnet(&self, cidr: &str) {
        let spec = SubnetSpec {
            cidrs: vec![cidr.to_owned()],
            ..SubnetSpec::default()
        };
        let subnets = Api::<Subnet>::all(self.client.clone());
        let subnet = Subnet::new("pods", spec);
        subnets.create(&PostParams::default(), &subnet).await.unwrap();
    }

    fn nncs(&self) -> Api<NodeNetworkConfig> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Of the Lease, once that is somebody other than `before`.
    async fn leader(&self, lease: &str, before: Option<&str>) -> String {
        loop {
            let lease = self.leases().get_opt(lease).await.unwrap();
            let holder = lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity);
            if let Some(holder) = holder.filter(|holder| before != Some(holder)) {
                return holder;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn ask(&self, node: &str, count: usize) {
        let spec = json!({"spec": {"requestedIPCount": count}});
        let params = PatchParams::default();
        self.nncs().patch(node, &params, &Patch::Merge(spec)).await.unwrap();
    }

    /// All addresses of all nodes, each with the node that has it. No address is listed twice.
    async fn addresses(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for nnc in self.nncs().list(&ListParams::default()).await.unwrap() {
            let name = nnc.name_any();
            let containers = nnc.status.unwrap_or_default().network_containers;
            for container in containers {
                let pods = container.ip_assignments.into_iter().map(|assignment| assignment.ip);
                for address in pods.chain([container.primary_ip]) {
                    let other = all.insert(address.clone(), name.clone());
                    assert_eq!(other, None, "{address} is also of {name}");
                }
            }
        }
        all
    }

    /// Units that have an owner, by the ledger.
    async fn owned(&self) -> usize {
        let blocks = Api::<AddressBlock>::all(self.client.clone());
        let blocks = blocks.list(&ListParams::default()).await.unwrap();
        blocks.into_iter().map(|block| block.spec.owned.len()).sum()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_with_other_controllers_work_beside_each_other() {
    let directory = TempDir::new().unwrap();
    let cluster = Cluster::start(directory.path()).await;
    let _processes = [
        cluster.controller(&["--controllers", "subnet"]),
        cluster.controller(&["--controllers", "node,nnc"]),
    ];
    cluster.subnet("10.64.0.0/24").await;
    cluster.join("n1").await;
    cluster.container("n1").await;
    cluster.leader("berth-controller.subnet", None).await;
    cluster.leader("berth-controller.node.nnc", None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_former_leader_that_resumes_gives_no_address_twice() {
    let directory = TempDir::new().unwrap();
    let cluster = Cluster::start(directory.path()).await;
    cluster.subnet("10.64.0.0/24").await;
    let first = cluster.controller(&[]);
    let mut leader = cluster.leader("berth-controller", None).await;
    let second = cluster.controller(&[]);
    let mut processes = [first, second];
    let mut nodes: Vec<String> = Vec::new();
    for round in 0..4_usize {
        let more: Vec<String> = (0..6).map(|number| format!("n{round}-{number}")).collect();
        let (before, after) = more.split_at(3);
        // Some are under way when it stops: what it has read by then it believes when it goes on.
        for name in before {
            cluster.join(name).await;
        }
        processes[0].freeze();
        cluster
            .leases()
            .delete("berth-controller", &DeleteParams::default())
            .await
            .unwrap();
        leader = cluster.leader("berth-controller", Some(&leader)).await;
        // It has not heard yet, and serves the same nodes as the other.
        processes[0].thaw();
        for name in after {
            cluster.join(name).await;
        }
        for name in &nodes {
            cluster.ask(name, 2 + round).await;
        }
        nodes.extend(more);
        for name in &nodes {
            cluster.container(name).await;
        }
        cluster.addresses().await;
        processes.swap(0, 1);
    }
    // Each has what it asked for last, and that is all there is.
    for name in &nodes {
        cluster.ask(name, 6).await;
    }
    while cluster.addresses().await.len() < nodes.len() * 7 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(cluster.owned().await, nodes.len() * 7);
}

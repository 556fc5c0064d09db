//! The actions of the demo and what they wait for, all through the API.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use berth_api::names::{DEFAULT_SUBNET, NAMESPACE};
use berth_api::{NodeNetworkConfig, Subnet};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

/// The namespace of all objects of the demo, except the Subnet of its machines.
const DEMO: &str = "demo";
const MACHINES_SUBNET: &str = "demo-machines";
const MACHINES: [(&str, &str); 3] = [
    ("machine-1", "ubuntu"),
    ("machine-2", "flatcar"),
    ("machine-3", "centos"),
];

const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The limit for one condition. Shorter than the limit of an act, so that the error names the
/// condition.
const TIMEOUT: Duration = Duration::from_secs(100);

pub struct Hands {
    pub client: Client,
}

impl Hands {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Makes the namespace.
    pub async fn begin(&self) -> Result<()> {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DEMO},
        });
        apply(&Api::<Namespace>::all(self.client.clone()), DEMO, namespace).await
    }

    pub async fn scale(&self, name: &str, replicas: usize) -> Result<()> {
        let labels = json!({"app": name});
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": DEMO},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
                },
            },
        });
        apply(&self.deployments(), name, deployment).await
    }

    pub async fn remove(&self, deployment: &str) -> Result<()> {
        self.deployments()
            .delete(deployment, &DeleteParams::background())
            .await?;
        Ok(())
    }

    pub async fn until_running(&self, deployment: &str, count: usize) -> Result<()> {
        let what = format!("{count} pods of {deployment} to run");
        until(&what, move || async move {
            let pods = self.pods(deployment).await?;
            let run = pods.iter().filter(|pod| phase(pod) == "Running").count();
            Ok((run == count && pods.len() == count).then_some(()))
        })
        .await
    }

    /// How many addresses pods can have in all.
    pub async fn capacity(&self) -> Result<usize> {
        let status = self.subnet().await?.status.context("the Subnet has no status yet")?;
        let capacity = status.capacity.context("the Subnet has not been counted yet")?;
        usize::try_from(capacity.0).context("the Subnet is too large to be filled")
    }

    /// Returns how many pods wait.
    pub async fn until_full(&self) -> Result<usize> {
        until("the Subnet to be full", move || async move {
            let pods = self.pods("batch").await?;
            let waiting = pods.iter().filter(|pod| phase(pod) != "Running").count();
            let subnet = self.subnet().await?;
            let fit = subnet.status.as_ref().and_then(|status| status.pods_that_fit);
            let is_full = is_exhausted(&subnet) && fit.is_some_and(|fit| fit.0 == 0);
            Ok((is_full && waiting > 0 && waiting < pods.len()).then_some(waiting))
        })
        .await
    }

    /// Returns how many addresses are free.
    pub async fn until_not_full(&self) -> Result<u128> {
        until("the Subnet to have free addresses", move || async move {
            let subnet = self.subnet().await?;
            if is_exhausted(&subnet) || !self.pods("batch").await?.is_empty() {
                return Ok(None);
            }
            let free = subnet.status.and_then(|status| status.free).map(|free| free.0);
            Ok(free.filter(|free| *free > 0))
        })
        .await
    }

    /// Does what `kubectl drain` and `kubectl delete node` do.
    pub async fn drain(&self, node: &str) -> Result<()> {
        let nodes = &Api::<Node>::all(self.client.clone());
        let cordon = Patch::Merge(json!({"spec": {"unschedulable": true}}));
        nodes.patch(node, &PatchParams::default(), &cordon).await?;
        let pods = &Api::<Pod>::all(self.client.clone());
        let on_node = &ListParams::default().fields(&format!("spec.nodeName={node}"));
        for pod in pods.list(on_node).await? {
            let (Some(namespace), Some(name)) = (pod.metadata.namespace, pod.metadata.name) else {
                continue;
            };
            let pods = Api::<Pod>::namespaced(self.client.clone(), &namespace);
            // The pod may be gone by now.
            pods.delete(&name, &DeleteParams::default())
                .await
                .map(drop)
                .or_else(ignore_not_found)?;
        }
        until("the node to be empty", move || async move {
            Ok(pods.list(on_node).await?.items.is_empty().then_some(()))
        })
        .await?;
        nodes.delete(node, &DeleteParams::background()).await?;
        until("the node to be gone", move || async move {
            Ok(nodes.get_opt(node).await?.is_none().then_some(()))
        })
        .await
    }

    pub async fn until_has_addresses(&self, node: &str) -> Result<()> {
        let configs = &Api::<NodeNetworkConfig>::namespaced(self.client.clone(), NAMESPACE);
        until("the node to have addresses", move || async move {
            let status = configs.get_opt(node).await?.and_then(|config| config.status);
            let containers = status.map(|status| status.network_containers).unwrap_or_default();
            let has = containers.iter().any(|container| !container.ip_assignments.is_empty());
            Ok(has.then_some(()))
        })
        .await
    }

    /// Returns their number once all are provisioned.
    pub async fn make_machines(&self) -> Result<usize> {
        let subnet = json!({
            "apiVersion": "berth.dev/v1alpha1",
            "kind": "Subnet",
            "metadata": {
                "name": MACHINES_SUBNET,
                "labels": {"berth.dev/machine-network": "1"},
            },
            "spec": {
                "use": "machines",
                "cidrs": ["192.168.77.0/27"],
                "gateways": ["192.168.77.1"],
                "dns": ["192.168.77.1"],
                "reuseDelay": super::REUSE_DELAY,
            },
        });
        apply(&Api::<Subnet>::all(self.client.clone()), MACHINES_SUBNET, subnet).await?;
        let machines = &self.machines();
        for (name, system) in MACHINES {
            let machine = json!({
                "apiVersion": "cluster.k8s.io/v1alpha1",
                "kind": "Machine",
                "metadata": {"name": name, "namespace": DEMO},
                "spec": {"providerSpec": {"value": {"operatingSystem": system}}},
            });
            apply(machines, name, machine).await?;
        }
        until("the machines to be provisioned", move || async move {
            let machines = machines.list(&ListParams::default()).await?;
            let is_provisioned = |machine: &&DynamicObject| {
                machine.data.pointer("/status/phase").and_then(Value::as_str) == Some("Provisioned")
            };
            let count = machines.iter().filter(is_provisioned).count();
            Ok((count == MACHINES.len()).then_some(count))
        })
        .await
    }

    pub async fn remove_machines(&self) -> Result<()> {
        let machines = &self.machines();
        for (name, _) in MACHINES {
            let deleted = machines.delete(name, &DeleteParams::default()).await;
            deleted.map(drop).or_else(ignore_not_found)?;
        }
        until("the machines to be gone", move || async move {
            let left = machines.list(&ListParams::default()).await?.items;
            Ok(left.is_empty().then_some(()))
        })
        .await
    }

    async fn subnet(&self) -> Result<Subnet> {
        let subnets = Api::<Subnet>::all(self.client.clone());
        Ok(subnets.get(DEFAULT_SUBNET).await?)
    }

    async fn pods(&self, deployment: &str) -> Result<Vec<Pod>> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), DEMO);
        let of = ListParams::default().labels(&format!("app={deployment}"));
        Ok(pods.list(&of).await?.items)
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), DEMO)
    }

    fn machines(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("cluster.k8s.io", "v1alpha1", "Machine");
        let resource = ApiResource::from_gvk_with_plural(&kind, "machines");
        Api::namespaced_with(self.client.clone(), DEMO, &resource)
    }
}

async fn apply<K>(api: &Api<K>, name: &str, object: Value) -> Result<()>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let params = PatchParams::apply("berth-demo").force();
    api.patch(name, &params, &Patch::Apply(object)).await?;
    Ok(())
}

fn ignore_not_found(error: kube::Error) -> kube::Result<()> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(()),
        other => Err(other),
    }
}

fn phase(pod: &Pod) -> &str {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase.unwrap_or_default()
}

fn is_exhausted(subnet: &Subnet) -> bool {
    let conditions = subnet.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Exhausted" && condition.status == "True")
}

async fn until<T, F>(what: &str, look: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let looking = async {
        loop {
            if let Some(found) = look().await? {
                return Ok(found);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    match tokio::time::timeout(TIMEOUT, looking).await {
        Ok(found) => found,
        Err(_) => bail!("it waited {} s for {what}", TIMEOUT.as_secs()),
    }
}

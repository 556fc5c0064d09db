//! What the tests share: the extender, kube-schedulers that use it, pods and what became of them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use anyhow::Result;
use berth_api::names::NAMESPACE;
use berth_e2e::{Scene, Seen, wait_for};
use berth_testbed::{Component, POD_IMAGE, free_port};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

pub fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(file)
}

/// `berth scheduler`, under the role that `deploy/rbac` gives it.
pub struct Extender {
    component: Component,
    pub port: u16,
    /// The port of `/readyz`.
    health: u16,
}

impl Extender {
    /// Does not wait: the extender may not lead yet.
    pub fn start(scene: &Scene, name: &str, flags: &[&str]) -> Self {
        let port = free_port().unwrap();
        Self::run(scene, name, port, port, flags.iter().map(ToString::to_string))
    }

    /// Serves with `tls.crt` and `tls.key` of the directory, for callers with a certificate that
    /// `ca.crt` has signed.
    pub fn start_over_tls(scene: &Scene, name: &str, directory: &Path, flags: &[&str]) -> Self {
        let (port, health) = (free_port().unwrap(), free_port().unwrap());
        let file = |flag: &str, name: &str| format!("--{flag}={}", directory.join(name).display());
        let own = [
            file("tls-cert", "tls.crt"),
            file("tls-key", "tls.key"),
            file("client-ca", "ca.crt"),
            format!("--metrics-listen=127.0.0.1:{health}"),
        ];
        let flags = own.into_iter().chain(flags.iter().map(ToString::to_string));
        Self::run(scene, name, port, health, flags)
    }

    fn run(
        scene: &Scene,
        name: &str,
        port: u16,
        health: u16,
        flags: impl Iterator<Item = String>,
    ) -> Self {
        scene.cluster.apply(&deploy("rbac/scheduler.yaml")).unwrap();
        let kubeconfig = scene.cluster.kubeconfig_of_account(NAMESPACE, "berth-scheduler", None);
        let mut all = vec![
            "scheduler".to_owned(),
            format!("--kubeconfig={}", kubeconfig.unwrap().display()),
            format!("--listen=127.0.0.1:{port}"),
        ];
        all.extend(flags);
        let berth = berth_e2e::berth().unwrap();
        let component = scene.cluster.start_component(name, &berth, &all).unwrap();
        Self {
            component,
            port,
            health,
        }
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub fn is_ready(&mut self) -> Result<bool> {
        self.component.check()?;
        Ok(get(self.health, "/readyz").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200")))
    }

    pub async fn ready(&mut self, scene: &Scene) {
        let look = async || {
            Ok(match self.is_ready()? {
                true => Seen::There,
                false => Seen::NotYet("not ready".to_owned()),
            })
        };
        wait_for(scene, "the extender is ready", look).await.unwrap();
    }

    /// With SIGKILL, as when the machine's memory has run out.
    pub fn kill(self) {
        let process = self.component.process().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    pub fn stop(self) {
        let process = self.component.process().unwrap();
        process.terminate().unwrap();
        process.wait().unwrap();
    }
}

pub fn get(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A kube-scheduler for pods that name it, with the configuration of `deploy/scheduler`.
pub fn start_scheduler(scene: &Scene, name: &str, port: u16) -> Component {
    let address = format!("127.0.0.1:{port}");
    configured(scene, name, "extender.yaml", &[("127.0.0.1:10361", address.as_str())])
}

/// The same, but it goes on without the extender.
pub fn start_ignoring_scheduler(scene: &Scene, name: &str, port: u16) -> Component {
    let address = format!("127.0.0.1:{port}");
    let edits = [
        ("127.0.0.1:10361", address.as_str()),
        ("ignorable: false", "ignorable: true"),
    ];
    configured(scene, name, "extender.yaml", &edits)
}

/// The directory has its certificate, its key and the authority that it trusts.
pub fn start_scheduler_over_tls(
    scene: &Scene,
    name: &str,
    url: &str,
    directory: &Path,
) -> Component {
    let directory = directory.display().to_string();
    let edits = [
        ("https://berth-scheduler.kube-system.svc", url),
        ("/etc/kubernetes/berth-scheduler", directory.as_str()),
    ];
    configured(scene, name, "extender-https.yaml", &edits)
}

fn configured(scene: &Scene, name: &str, file: &str, edits: &[(&str, &str)]) -> Component {
    let mut text = std::fs::read_to_string(deploy("scheduler").join(file)).unwrap();
    let kubeconfig = scene.cluster.control_plane().kubeconfig_of_scheduler();
    let kubeconfig = kubeconfig.display().to_string();
    let own = [
        ("/etc/kubernetes/scheduler.conf", kubeconfig.as_str()),
        ("leaderElect: true", "leaderElect: false"),
    ];
    for (from, to) in own.iter().chain(edits) {
        assert!(text.contains(from), "{file} has {from}");
        text = text.replace(from, to);
    }
    let text = format!("{text}\nprofiles:\n  - schedulerName: {name}\n");
    scene.cluster.start_scheduler(name, &text).unwrap()
}

pub fn pod(name: &str, scheduler: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "web", "image": POD_IMAGE, "imagePullPolicy": "Never"}],
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
        },
    })
}

pub fn pods(scene: &Scene) -> Api<Pod> {
    Api::default_namespaced(scene.client.clone())
}

pub async fn create(scene: &Scene, pod: Value) {
    let pod = serde_json::from_value(pod).unwrap();
    pods(scene).create(&PostParams::default(), &pod).await.unwrap();
}

pub async fn create_many(scene: &Scene, count: usize, scheduler: &str) {
    for n in 0..count {
        create(scene, pod(&format!("{scheduler}-{n}"), scheduler)).await;
    }
}

/// Waits until a scheduler has reported that it could not place the pod, and returns its message.
pub async fn failed_scheduling(scene: &Scene, pod: &str) -> String {
    let events = Api::<Event>::default_namespaced(scene.client.clone());
    let mut said = String::new();
    let look = async || {
        let all = events.list(&ListParams::default()).await?.items;
        let told = all.iter().find(|event| {
            event.involved_object.name.as_deref() == Some(pod)
                && event.reason.as_deref() == Some("FailedScheduling")
        });
        said = told.and_then(|event| event.message.clone()).unwrap_or_default();
        Ok(if told.is_some() {
            Seen::There
        } else {
            Seen::NotYet(format!("{} events", all.len()))
        })
    };
    wait_for(scene, "the pod says that it could not be scheduled", look)
        .await
        .unwrap();
    said
}

/// What became of the pods of the test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub running: usize,
    /// On a node and not running, mostly for want of an address.
    pub creating: usize,
    /// On no node, and the scheduler has said why.
    pub refused: usize,
    /// Not tried yet, or on the way out.
    pub other: usize,
    pub by_node: BTreeMap<String, usize>,
    pub reasons: BTreeMap<String, usize>,
}

impl Count {
    pub fn bound(&self) -> usize {
        self.by_node.values().sum()
    }
}

pub async fn count(scene: &Scene) -> Result<Count> {
    let mut count = Count::default();
    for pod in pods(scene).list(&ListParams::default()).await?.items {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let status = pod.status.clone().unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let refused = conditions
            .iter()
            .find(|c| c.type_ == "PodScheduled" && c.status == "False");
        let is_releasing = pod.metadata.deletion_timestamp.is_some();
        if let Some(node) = &node {
            *count.by_node.entry(node.clone()).or_default() += 1;
        }
        match (node, status.phase.as_deref(), refused) {
            _ if is_releasing => count.other += 1,
            (Some(_), Some("Running"), _) => count.running += 1,
            (Some(_), ..) => count.creating += 1,
            (None, _, Some(refused)) => {
                count.refused += 1;
                let reason = refused.message.clone().unwrap_or_default();
                *count.reasons.entry(reason).or_default() += 1;
            }
            (None, ..) => count.other += 1,
        }
    }
    Ok(count)
}

/// Waits until `is_so` holds for the pods, and returns their count.
pub async fn until(scene: &Scene, what: &str, mut is_so: impl FnMut(&Count) -> bool) -> Count {
    let mut last = Count::default();
    let look = async || {
        last = count(scene).await?;
        Ok(if is_so(&last) {
            Seen::There
        } else {
            Seen::NotYet(format!("{last:?}"))
        })
    };
    wait_for(scene, what, look).await.unwrap();
    last
}

/// Deletes all pods, and waits until none is left. Those that wait for a node go first: schedulers
/// would try them all again for each address that comes free.
pub async fn clear(scene: &Scene, grace: Option<u32>) {
    let params = DeleteParams {
        grace_period_seconds: grace,
        ..DeleteParams::default()
    };
    let waiting = ListParams::default().fields("spec.nodeName=");
    for some in [waiting, ListParams::default()] {
        pods(scene).delete_collection(&params, &some).await.unwrap();
    }
    until(scene, "all pods are gone", |count| *count == Count::default()).await;
}

/// Deletes `count` running pods, and returns when they are gone.
pub async fn delete_running(scene: &Scene, count: usize) {
    let api = pods(scene);
    let listed = api.list(&ListParams::default()).await.unwrap().items;
    let is_running = |pod: &&Pod| {
        pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
    };
    let victims: Vec<String> = listed
        .iter()
        .filter(is_running)
        .take(count)
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(victims.len(), count);
    for name in &victims {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
    let look = async || {
        let mut left = Vec::new();
        for name in &victims {
            left.extend(api.get_opt(name).await?.map(|pod| pod.name_any()));
        }
        Ok(if left.is_empty() {
            Seen::There
        } else {
            Seen::NotYet(format!("{left:?}"))
        })
    };
    wait_for(scene, "the deleted pods are gone", look).await.unwrap();
}

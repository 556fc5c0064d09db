//! A cluster whose nodes have no network, and the image of our program on each of them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use berth_e2e::{Scene, Seen, wait_for};
use berth_testbed::{Builder, Network, Node, POD_IMAGE, Programs, Seat};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::helm::{Helm, done, tried};
use crate::page;

const IMAGE: &str = "berth.test/berth";

pub struct Site {
    pub scene: Scene,
    pub helm: Helm,
    /// Has one plugin, `loopback`: containerd calls it for every pod.
    _plugins: tempfile::TempDir,
}

impl Site {
    /// The nodes have our image under each of the tags: to Kubernetes, another tag is another
    /// version.
    pub async fn open(
        test: &str,
        tags: &[&str],
        special: impl FnOnce(Builder<'static>) -> Builder<'static>,
    ) -> Self {
        let plugins = tempfile::tempdir().unwrap();
        let directory = PathBuf::from(plugins.path());
        std::os::unix::fs::symlink("/usr/lib/cni/loopback", directory.join("loopback")).unwrap();
        let bare = move |_: &Seat| Network {
            configuration: None,
            plugins: directory.clone(),
        };
        let scene = Scene::open(test, |cluster| special(cluster).network(bare))
            .await
            .unwrap();
        let berth = berth_e2e::berth().unwrap();
        for tag in tags {
            let directory = tempfile::tempdir().unwrap();
            let name = format!("{IMAGE}:{tag}");
            let image = berth_testbed::image_of_program(directory.path(), &name, &berth).unwrap();
            for node in scene.cluster.nodes() {
                node.import(&image).unwrap();
            }
        }
        Self {
            scene,
            helm: Helm::find(),
            _plugins: plugins,
        }
    }

    pub fn nodes(&self) -> &[Node] {
        self.scene.cluster.nodes()
    }

    /// Runs the page's `helm install` or `helm upgrade` with our image. No Service leads to the API
    /// server here, so the chart gets its address.
    pub fn helm(&self, verb: &str, tag: &str, values: &[&str]) -> String {
        let server = self.scene.cluster.control_plane().server();
        let (host, port) = server.trim_start_matches("https://").rsplit_once(':').unwrap();
        let own = [
            format!("image.repository={IMAGE}"),
            format!("image.tag={tag}"),
            "image.pullPolicy=Never".to_owned(),
            format!("apiServer.host={host}"),
            format!("apiServer.port={port}"),
        ];
        let given = values.iter().map(ToString::to_string);
        let sets = own.into_iter().chain(given);
        let more: Vec<String> = sets.flat_map(|value| ["--set".to_owned(), value]).collect();
        done(&mut self.shell(&format!("helm {verb}"), &more))
    }

    /// For the command of `docs/install.md` that begins with these words.
    pub fn shell(&self, beginning: &str, more: &[String]) -> Command {
        let mut shell = page::shell(beginning, more);
        self.helm.isolate(&mut shell);
        let berth = berth_e2e::berth().unwrap();
        let programs = Programs::find().unwrap();
        let directories = [self.helm.directory(), programs.directory(), berth.parent().unwrap()];
        let system = std::env::var_os("PATH").unwrap_or_default();
        let path = directories.into_iter().map(PathBuf::from);
        let path = std::env::join_paths(path.chain(std::env::split_paths(&system))).unwrap();
        shell
            .current_dir(berth_e2e::docs::root())
            .env("PATH", path)
            .env("KUBECONFIG", self.scene.cluster.kubeconfig());
        shell
    }

    /// Runs the page's `helm uninstall`. If it fails, the panic has the Job's log and the pods.
    pub async fn uninstall(&self) {
        let Err(error) = tried(&mut self.shell("helm uninstall", &[])) else {
            return;
        };
        let kubectl = |words: &[&str]| {
            let mut kubectl = self.scene.cluster.kubectl();
            let said = tried(kubectl.args(words).arg("--namespace=kube-system"));
            said.unwrap_or_else(|error| error.to_string())
        };
        let pods = kubectl(&["get", "pods", "--output=wide"]);
        let log = kubectl(&["logs", "job/berth-uninstall", "--tail=20"]);
        let report = self.scene.report().await;
        panic!("{error}\n{pods}\n{log}\n{report:?}");
    }

    pub async fn create_subnet(&self, spec: Value) {
        let subnets = Api::<berth_api::Subnet>::all(self.scene.client.clone());
        let object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet",
            "metadata": {"name": "pods"}, "spec": spec,
        });
        // A Subnet that was made as the page says belongs to another field manager.
        let params = PatchParams::apply("test").force();
        self.until("the Subnet is created", async || {
            match subnets.patch("pods", &params, &Patch::Apply(&object)).await {
                Ok(_) => Ok(Seen::There),
                // Right after its definition was created, the kind is not served yet.
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    Ok(Seen::NotYet(status.message))
                }
                Err(error) => Err(error.into()),
            }
        })
        .await;
    }

    pub async fn until(&self, what: &str, look: impl AsyncFnMut() -> Result<Seen>) {
        wait_for(&self.scene, what, look).await.unwrap();
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.scene.client.clone())
    }

    pub async fn listed(&self) -> Result<Vec<Pod>> {
        Ok(self.pods().list(&ListParams::default()).await?.items)
    }

    /// Creates a Deployment of that many pods, or scales it.
    pub async fn deploy(&self, name: &str, replicas: usize) {
        let labels = json!({"app": name});
        let container = json!({"name": "web", "image": POD_IMAGE, "imagePullPolicy": "Never"});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "terminationGracePeriodSeconds": 1, "containers": [container],
                        "automountServiceAccountToken": false, "enableServiceLinks": false,
                    },
                },
            },
        });
        let api = Api::<Deployment>::default_namespaced(self.scene.client.clone());
        let params = PatchParams::apply("test");
        api.patch(name, &params, &Patch::Apply(&deployment)).await.unwrap();
    }

    /// Waits until there are exactly `count` pods, and all of them run.
    pub async fn run(&self, count: usize) -> Vec<Pod> {
        let mut found = Vec::new();
        self.until(&format!("{count} pods run"), async || {
            found = self.listed().await?;
            let running = found.iter().filter(|pod| phase(pod) == "Running").count();
            Ok(if (running, found.len()) == (count, count) {
                Seen::There
            } else {
                Seen::NotYet(format!("{running} of {} run", found.len()))
            })
        })
        .await;
        found
    }

    pub async fn gone(&self) {
        self.until("all pods are gone", async || {
            let left = self.listed().await?.len();
            Ok(match left {
                0 => Seen::There,
                _ => Seen::NotYet(format!("{left} are left")),
            })
        })
        .await;
    }

    /// The agents' pods that run that image and are ready.
    pub async fn agents(&self, tag: &str) -> Result<Vec<Pod>> {
        let pods = Api::<Pod>::namespaced(self.scene.client.clone(), "kube-system");
        let own = ListParams::default().labels("app.kubernetes.io/name=berth-agent");
        let image = format!("{IMAGE}:{tag}");
        let mut found = pods.list(&own).await?.items;
        found.retain(|pod| {
            let spec = pod.spec.as_ref();
            let own = spec.and_then(|spec| spec.containers[0].image.as_deref());
            own == Some(image.as_str()) && is_ready(pod)
        });
        Ok(found)
    }

    pub async fn until_agents(&self, tag: &str) {
        let count = self.nodes().len();
        self.until(&format!("{count} agents of {tag} serve"), async || {
            let ready = self.agents(tag).await?.len();
            Ok(if ready == count {
                Seen::There
            } else {
                Seen::NotYet(format!("{ready} of {count}"))
            })
        })
        .await;
    }

    pub async fn events(&self, reason: &str) -> Vec<Event> {
        let api = Api::<Event>::all(self.scene.client.clone());
        let mut all = api.list(&ListParams::default()).await.unwrap().items;
        all.retain(|event| event.reason.as_deref() == Some(reason));
        all
    }
}

/// A pod with a web server.
pub fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "web", "image": POD_IMAGE, "imagePullPolicy": "Never"}],
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
        },
    })
}

pub fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()).unwrap_or("none")
}

pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    pod.metadata.deletion_timestamp.is_none()
        && conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

pub fn restarts(pod: &Pod) -> i32 {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().map(|status| status.restart_count).sum()
}

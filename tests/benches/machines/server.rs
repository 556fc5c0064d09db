//! kube-apiserver with etcd on disk, our kinds in it, and clients with a connection each.

use std::path::Path;

use berth_e2e::Scene;
use berth_testbed::{Builder, Storage};
use futures::StreamExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

const CLIENTS: usize = 32;

pub struct Server {
    pub scene: Scene,
    clients: Vec<Client>,
}

impl Server {
    /// Without the cluster's own controllers, which would work while we measure.
    pub async fn start() -> Self {
        let durable =
            |cluster: Builder<'static>| cluster.without_controllers().storage(Storage::Durable);
        let scene = Scene::open("bench-machines", durable).await.unwrap();
        let kubeconfig = Kubeconfig::read_from(scene.cluster.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let client = |_| Client::try_from(config.clone()).unwrap();
        let server = Self {
            scene,
            clients: (0..CLIENTS).map(client).collect(),
        };
        let crds = berth_api::crds::all().into_iter();
        let crds = crds.chain(berth_api::crds::machines::all().unwrap());
        let api = kube::Api::all(server.client().clone());
        for crd in crds {
            api.create(&Default::default(), &crd).await.unwrap();
        }
        server.apply(&repository().join("../deploy/machines/gate.yaml"));
        server
    }

    pub fn client(&self) -> &Client {
        &self.scene.client
    }

    /// Applies server-side: one definition is too long for the annotation of a client-side apply.
    fn apply(&self, path: &Path) {
        let mut kubectl = self.scene.cluster.kubectl();
        kubectl.args(["apply", "--server-side", "--filename"]).arg(path);
        let output = kubectl.output().unwrap();
        assert!(output.status.success(), "{}: {output:?}", path.display());
    }

    pub fn apply_all(&self, directory: &Path) {
        self.apply(directory);
    }

    /// Our short version of Cluster API's kinds.
    pub fn apply_ours(&self) {
        self.apply(&repository().join("machines/cluster-api.yaml"));
    }

    pub fn established(&self) {
        let mut kubectl = self.scene.cluster.kubectl();
        kubectl.args(["wait", "--for=condition=Established", "crd", "--all"]);
        let output = kubectl.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Spreads the calls over the clients in turn, with as many calls at a time as clients.
    pub async fn for_each<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        call: impl AsyncFn(Client, T),
    ) {
        let clients = self.clients.iter().cycle();
        let calls = items.into_iter().zip(clients);
        let calls = futures::stream::iter(calls);
        calls
            .for_each_concurrent(CLIENTS, |(item, client)| call(client.clone(), item))
            .await;
    }
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

//! The cluster controller in a seed cluster with a node: the Deployment that it makes runs there,
//! and gives the Machines of another API server their networks.

use std::path::Path;

use berth_e2e::{Seen, roles, wait_for};
use berth_machines::machine::{Machine, Shape};
use berth_testbed::{Network, Seat};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::site::{Site, kill};
use crate::stage::object;
use crate::webhook::free_address;

const IMAGE: &str = "berth.test/berth:1";
const NAMESPACE: &str = "cluster-blue";

/// Pods have addresses of the wire itself, so that the host answers them.
pub fn network(seat: &Seat) -> Network {
    let [a, b, c, _] = seat.address.octets();
    let range = json!({
        "subnet": format!("{a}.{b}.{c}.0/24"), "gateway": format!("{a}.{b}.{c}.254"),
        "rangeStart": format!("{a}.{b}.{c}.100"), "rangeEnd": format!("{a}.{b}.{c}.199"),
    });
    let configuration = json!({
        "cniVersion": "1.0.0", "name": "pods",
        "plugins": [{
            "type": "ptp", "ipMasq": false,
            "ipam": {
                "type": "host-local", "ranges": [[range]], "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    });
    Network {
        configuration: Some(configuration.to_string()),
        ..Network::ptp(seat)
    }
}

pub async fn the_deployment_of_a_cluster_runs(seed: &Site, user: &Site) {
    install(seed, user).await;
    let kubeconfig = roles::of_controller(&seed.scene).unwrap();
    let mut flags = vec![
        "--controllers=cluster",
        "--leader-elect=false",
        "--machine-image",
        IMAGE,
    ];
    let controller = seed.start("cluster-controller", "controller", &kubeconfig, &flags);
    let spec = json!({"machineNetwork": {
        "cidrBlocks": ["192.168.1.128/25"], "gateway": "192.168.1.1", "dnsServers": ["192.168.1.1"],
    }});
    create_cluster(seed, &spec).await;
    // The user cluster's API server has no policies: without the webhook, its Machines would not
    // wait.
    until_told(seed, "NoGate", "--webhook-url").await;
    let deployments = Api::<Deployment>::namespaced(seed.scene.client.clone(), NAMESPACE);
    assert_eq!(deployments.get_opt("machine-ipam").await.unwrap(), None);
    kill(&controller);
    let address = free_address();
    let (listen, url) = (address.to_string(), format!("https://{address}"));
    flags.extend(["--webhook-listen", &listen, "--webhook-url", &url]);
    let controller = seed.start("cluster-controller", "controller", &kubeconfig, &flags);
    until_ready(seed, 1).await;
    // Machine IPAM talks to the user cluster alone: its pod has no token for the seed cluster.
    let pods = Api::<Pod>::namespaced(seed.scene.client.clone(), NAMESPACE);
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0);
    let spec = pod.spec.unwrap();
    assert_eq!(spec.automount_service_account_token, Some(false));
    let volumes: Vec<String> =
        spec.volumes.unwrap().into_iter().map(|volume| volume.name).collect();
    assert_eq!(volumes, ["kubeconfig"]);

    until_gated(user).await;
    let machine = create_machine(user, "m1").await;
    assert!(machine.is_gated());
    let network = until_open(user, "m1").await.network.unwrap().unwrap();
    assert_eq!(network.addresses[0].to_string(), "192.168.1.129/25");
    assert_eq!(network.addresses[0].gateway, Some("192.168.1.1".parse().unwrap()));

    // CIDRs may be appended, and not changed in any other way.
    let api = clusters(seed);
    let patch =
        |cidrs: Value| Patch::Merge(json!({"spec": {"machineNetwork": {"cidrBlocks": cidrs}}}));
    let refused = api
        .patch("blue", &PatchParams::default(), &patch(json!(["10.77.0.0/24"])))
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("CIDRs may be appended"), "{refused}");
    let both = json!(["192.168.1.128/25", "10.77.0.0/24"]);
    api.patch("blue", &PatchParams::default(), &patch(both)).await.unwrap();
    let subnets = Api::<berth_api::Subnet>::all(user.scene.client.clone());
    wait_for(&user.scene, "the added CIDR is a Subnet", async || {
        let found = subnets.get_opt("machines-10.77.0.0-24").await?;
        Ok(match found {
            Some(_) => Seen::There,
            None => Seen::NotYet("it is not there".to_owned()),
        })
    })
    .await
    .unwrap();

    // The Deployment goes with its Cluster. The machines keep their networks.
    api.delete("blue", &DeleteParams::background()).await.unwrap();
    wait_for(&seed.scene, "the Deployment and its pods are gone", async || {
        let left = deployments.list(&ListParams::default()).await?.items.len();
        let pods = pods.list(&ListParams::default()).await?.items.len();
        Ok(if left + pods == 0 {
            Seen::There
        } else {
            Seen::NotYet(format!("{left} Deployments, {pods} pods"))
        })
    })
    .await
    .unwrap();
    assert!(!machine_of(user, "m1").await.unwrap().is_gated());
    kill(&controller);
    let object = object("m2", Shape::ProviderConfig, Value::Null);
    let refused = machines(user)
        .create(&PostParams::default(), &object)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("failed calling webhook"), "{refused}");
}

async fn until_told(seed: &Site, reason: &str, word: &str) {
    let events = Api::<Event>::all(seed.scene.client.clone());
    wait_for(&seed.scene, reason, async || {
        let events = events.list(&ListParams::default()).await?;
        let told = events.items.into_iter().any(|event| {
            event.reason.as_deref() == Some(reason)
                && event.note.is_some_and(|note| note.contains(word))
        });
        Ok(if told { Seen::There } else { Seen::NotYet(String::new()) })
    })
    .await
    .unwrap();
}

async fn install(seed: &Site, user: &Site) {
    let node = &seed.scene.cluster.nodes()[0];
    // The node answers for its pods on the wire.
    let proxy = "/proc/sys/net/ipv4/conf/eth0/proxy_arp";
    node.on_network(|| Ok(std::fs::write(proxy, "1")?)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let image = berth_testbed::image_of_program(directory.path(), IMAGE, &seed.berth).unwrap();
    node.import(&image).unwrap();

    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/rbac");
    for file in ["controller.yaml", "cluster.yaml", "webhook.yaml"] {
        seed.scene.cluster.apply(&deploy.join(file)).unwrap();
    }
    // The kinds of a machine-controller. The cluster controller itself installs our own kinds.
    user.apply_printed(&["crds", "machines"]).unwrap();
    let namespaces = Api::<Namespace>::all(seed.scene.client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let kubeconfig = std::fs::read_to_string(user.scene.cluster.kubeconfig()).unwrap();
    let secret = json!({
        "metadata": {"name": "admin-kubeconfig"}, "stringData": {"kubeconfig": kubeconfig},
    });
    let secret = serde_json::from_value(secret).unwrap();
    let secrets = Api::<Secret>::namespaced(seed.scene.client.clone(), NAMESPACE);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
}

fn clusters(seed: &Site) -> Api<DynamicObject> {
    Api::all_with(seed.scene.client.clone(), &berth_machines::cluster::resource())
}

async fn create_cluster(seed: &Site, spec: &Value) {
    let object = json!({
        "apiVersion": "kubermatic.k8s.io/v1", "kind": "Cluster",
        "metadata": {"name": "blue"}, "spec": spec,
    });
    let object = serde_json::from_value(object).unwrap();
    clusters(seed).create(&PostParams::default(), &object).await.unwrap();
}

async fn until_ready(seed: &Site, replicas: i32) {
    let api = Api::<Deployment>::namespaced(seed.scene.client.clone(), NAMESPACE);
    wait_for(&seed.scene, "machine IPAM is ready", async || {
        let status = api.get_opt("machine-ipam").await?.and_then(|found| found.status);
        let ready = status.as_ref().and_then(|status| status.ready_replicas);
        Ok(if ready == Some(replicas) {
            Seen::There
        } else {
            Seen::NotYet(format!("{status:?}"))
        })
    })
    .await
    .unwrap();
}

fn machines(user: &Site) -> Api<DynamicObject> {
    Api::all_with(user.scene.client.clone(), &Shape::ProviderConfig.resource())
}

async fn machine_of(user: &Site, name: &str) -> anyhow::Result<Machine> {
    let found = machines(user).get(name).await?;
    Ok(Machine::of(Shape::ProviderConfig, &found))
}

async fn create_machine(user: &Site, name: &str) -> Machine {
    let object = object(name, Shape::ProviderConfig, Value::Null);
    let made = machines(user).create(&PostParams::default(), &object).await.unwrap();
    Machine::of(Shape::ProviderConfig, &made)
}

/// Waits until the gate is on: that takes a moment after the controller has applied it.
async fn until_gated(user: &Site) {
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wait_for(&user.scene, "the gate is on", async || {
        let object = object("probe", Shape::ProviderConfig, Value::Null);
        Ok(match machines(user).create(&params, &object).await {
            Ok(made) if Machine::of(Shape::ProviderConfig, &made).is_gated() => Seen::There,
            Ok(made) => Seen::NotYet(format!("{:?}", made.annotations())),
            // The API server may know the webhook before its server is up.
            Err(error) => Seen::NotYet(error.to_string()),
        })
    })
    .await
    .unwrap();
}

async fn until_open(user: &Site, name: &str) -> Machine {
    wait_for(&user.scene, "the machine has its network", async || {
        let machine = machine_of(user, name).await?;
        Ok(if machine.is_gated() {
            Seen::NotYet(format!("{:?}", machine.value["status"]))
        } else {
            Seen::There
        })
    })
    .await
    .unwrap();
    machine_of(user, name).await.unwrap()
}

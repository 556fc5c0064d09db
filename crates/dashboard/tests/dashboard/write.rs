//! Forms for the networks of Clusters and Machines: what they change, and for whom.

use axum::body::Body;
use berth_api::machines::{INITIALIZERS, Shape, cluster};
use http::{Request, StatusCode};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::scene::{Scene, TOKEN};

const HOST: &str = "localhost:7480";
const ORIGIN: &str = "http://localhost:7480";

/// A request as the page sends it. Tests leave out or replace headers.
struct Call {
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Call {
    fn new(path: &str, body: &Value) -> Self {
        let headers = [
            ("Host", HOST.to_owned()),
            ("Origin", ORIGIN.to_owned()),
            ("Content-Type", "application/json".to_owned()),
            ("Authorization", format!("Bearer {TOKEN}")),
        ];
        Self {
            path: path.to_owned(),
            headers: headers.into(),
            body: body.to_string(),
        }
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(one, _)| *one != name);
        self
    }

    fn with(self, name: &'static str, value: &str) -> Self {
        let mut call = self.without(name);
        call.headers.push((name, value.to_owned()));
        call
    }

    async fn raw(&self, scene: &Scene) -> (StatusCode, String) {
        let request = Request::post(&self.path);
        let request = self
            .headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, value));
        scene.send(request.body(Body::from(self.body.clone())).unwrap()).await
    }

    async fn send(&self, scene: &Scene) -> (StatusCode, Value) {
        let (status, text) = self.raw(scene).await;
        (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")))
    }
}

fn clusters(scene: &Scene) -> Api<DynamicObject> {
    Api::all_with(scene.client.clone(), &cluster::resource())
}

fn machines(scene: &Scene) -> Api<DynamicObject> {
    let resource = Shape::ProviderSpec.resource();
    Api::namespaced_with(scene.client.clone(), "default", &resource)
}

async fn make_cluster(scene: &Scene, name: &str, spec: Value) -> DynamicObject {
    let cluster = json!({
        "apiVersion": "kubermatic.k8s.io/v1", "kind": "Cluster",
        "metadata": {"name": name}, "spec": spec,
    });
    let cluster = serde_json::from_value(cluster).unwrap();
    clusters(scene).create(&PostParams::default(), &cluster).await.unwrap()
}

async fn blue(scene: &Scene) -> Value {
    make_cluster(scene, "blue", json!({"cloud": {"vsphere": {}}})).await;
    scene.ask("/api/clusters/blue").await.1
}

fn form(view: &Value, networks: Value) -> Value {
    json!({"version": view["version"], "networks": networks})
}

async fn spec(scene: &Scene) -> Value {
    clusters(scene).get("blue").await.unwrap().data["spec"].clone()
}

#[tokio::test]
async fn a_network_is_made_and_grows_and_nothing_else() {
    let scene = Scene::start(true).await;
    let view = blue(&scene).await;
    assert_eq!(view["networks"], json!([]), "off by default");
    let two = json!([
        {"cidr": "192.168.1.128/25", "gateway": "192.168.1.1", "dnsServers": ["192.168.1.1"]},
        {"cidr": "10.0.0.0/24"},
    ]);
    let (status, checked) = Call::new("/api/clusters/blue/check", &form(&view, two.clone()))
        .send(&scene)
        .await;
    assert_eq!((status, &checked["errors"]), (StatusCode::OK, &json!([])), "{checked}");
    assert_eq!(checked["machines"], 126 + 254);
    assert_eq!(checked["token"], "good");
    assert!(
        checked["yaml"].as_str().unwrap().contains("machineNetworks:"),
        "{checked}"
    );
    assert_eq!(
        spec(&scene).await,
        json!({"cloud": {"vsphere": {}}}),
        "a check keeps nothing"
    );

    let (status, view) = Call::new("/api/clusters/blue", &form(&view, two.clone()))
        .send(&scene)
        .await;
    assert_eq!(status, StatusCode::OK, "{view}");
    assert_eq!(spec(&scene).await["machineNetworks"], two);

    let mut three = two.clone();
    three.as_array_mut().unwrap().push(json!({"cidr": "10.0.1.0/24"}));
    let (status, view) = Call::new("/api/clusters/blue", &form(&view, three.clone()))
        .send(&scene)
        .await;
    assert_eq!(status, StatusCode::OK, "{view}");
    let before = spec(&scene).await;
    assert_eq!(before["machineNetworks"], three);

    let reordered = json!([three[1], three[0], three[2]]);
    for networks in [json!([]), json!([three[0]]), reordered] {
        let call = Call::new("/api/clusters/blue", &form(&view, networks));
        let (status, told) = call.send(&scene).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{told}");
        let text = told["error"].as_str().unwrap();
        assert!(text.contains("machines may have addresses of it"), "{text}");
        assert!(text.contains("CIDRs can only be appended"), "{text}");
    }
    assert_eq!(spec(&scene).await, before);
}

#[tokio::test]
async fn the_seeds_form_of_a_cluster_grows_and_keeps_its_gateway() {
    let scene = Scene::start(true).await;
    let network = json!({
        "cidrBlocks": ["192.168.1.128/25"], "gateway": "192.168.1.1", "dnsServers": ["192.168.1.1"],
    });
    make_cluster(
        &scene,
        "blue",
        json!({"cloud": {"vsphere": {}}, "machineNetwork": network}),
    )
    .await;
    let (_, view) = scene.ask("/api/clusters/blue").await;
    assert_eq!(
        (&view["style"], &view["gateway"]),
        (&json!("blocks"), &json!("192.168.1.1"))
    );
    let both = json!([{"cidr": "192.168.1.128/25"}, {"cidr": "192.168.1.0/25"}]);
    let (status, told) = Call::new("/api/clusters/blue", &form(&view, both)).send(&scene).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    let expected = json!({
        "cidrBlocks": ["192.168.1.128/25", "192.168.1.0/25"], "gateway": "192.168.1.1",
        "dnsServers": ["192.168.1.1"],
    });
    assert_eq!(spec(&scene).await["machineNetwork"], expected);
}

#[tokio::test]
async fn without_the_token_nothing_is_written() {
    let scene = Scene::start(true).await;
    let view = blue(&scene).await;
    let body = form(&view, json!([{"cidr": "10.0.0.0/24"}]));
    let call = || Call::new("/api/clusters/blue", &body);
    for (call, word) in [
        (call().without("Authorization"), "missing"),
        (call().with("Authorization", "Bearer "), "missing"),
        (call().with("Authorization", TOKEN), "missing"),
        (call().with("Authorization", "Bearer the-token-of-this-tesT"), "wrong"),
        (call().with("Authorization", &format!("Bearer {TOKEN}x")), "wrong"),
    ] {
        let (status, told) = call.send(&scene).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        let text = told["error"].as_str().unwrap();
        assert!(text.contains(word) && text.contains("it is in the test"), "{text}");
    }
    assert_eq!(spec(&scene).await, json!({"cloud": {"vsphere": {}}}));
    // A check needs no token, and says whether the token is missing or wrong.
    let check = || Call::new("/api/clusters/blue/check", &body);
    let (status, told) = check().without("Authorization").send(&scene).await;
    assert_eq!((status, &told["token"]), (StatusCode::OK, &json!("missing")));
    let (_, told) = check().with("Authorization", "Bearer x").send(&scene).await;
    assert_eq!(told["token"], "wrong");
}

#[tokio::test]
async fn other_sites_names_and_forms_are_refused_even_with_the_token() {
    let scene = Scene::start(true).await;
    let view = blue(&scene).await;
    let body = form(&view, json!([{"cidr": "10.0.0.0/24"}]));
    for path in ["/api/clusters/blue", "/api/clusters/blue/check", "/api/machines"] {
        let call = || Call::new(path, &body);
        for (call, expected) in [
            (call().with("Host", "evil.test:7480"), StatusCode::FORBIDDEN),
            (call().without("Host"), StatusCode::FORBIDDEN),
            (call().with("Origin", "http://evil.test"), StatusCode::FORBIDDEN),
            (call().with("Origin", "http://localhost:9999"), StatusCode::FORBIDDEN),
            (call().with("Origin", "null"), StatusCode::FORBIDDEN),
            (call().without("Origin"), StatusCode::FORBIDDEN),
            (call().with("Sec-Fetch-Site", "cross-site"), StatusCode::FORBIDDEN),
            (
                call().with("Content-Type", "text/plain"),
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ),
            (call().without("Content-Type"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ] {
            let (status, text) = call.raw(&scene).await;
            assert_eq!(status, expected, "{path} {:?}: {text}", call.headers);
        }
        // A browser that asks whether another site may send this is refused.
        let (status, _) = scene.request("OPTIONS", path, HOST).await;
        assert!(status.is_client_error(), "{path}: {status}");
    }
    assert_eq!(spec(&scene).await, json!({"cloud": {"vsphere": {}}}));
}

#[tokio::test]
async fn what_somebody_else_has_changed_is_not_overwritten() {
    let scene = Scene::start(true).await;
    let view = blue(&scene).await;
    let theirs = json!({"spec": {"machineNetworks": [{"cidr": "10.9.0.0/24"}]}});
    let api = clusters(&scene);
    api.patch("blue", &PatchParams::default(), &Patch::Merge(theirs))
        .await
        .unwrap();
    let before = spec(&scene).await;
    let body = form(&view, json!([{"cidr": "10.0.0.0/24"}]));
    let (status, told) = Call::new("/api/clusters/blue", &body).send(&scene).await;
    assert_eq!(status, StatusCode::CONFLICT, "{told}");
    let text = told["error"].as_str().unwrap();
    assert!(
        text.contains("Somebody else has changed") && text.contains("load it again"),
        "{text}"
    );
    let (status, told) = Call::new("/api/clusters/blue/check", &body).send(&scene).await;
    assert_eq!(status, StatusCode::OK);
    assert!(told["conflict"].as_str().unwrap().contains("Somebody else"), "{told}");
    assert_eq!(spec(&scene).await, before);

    // A write of the status in between does not make the form out of date.
    let (_, view) = scene.ask("/api/clusters/blue").await;
    let status = Patch::Merge(json!({"status": {"namespaceName": "cluster-blue"}}));
    api.patch_status("blue", &PatchParams::default(), &status)
        .await
        .unwrap();
    let both = json!([{"cidr": "10.9.0.0/24"}, {"cidr": "10.0.0.0/24"}]);
    let (status, told) = Call::new("/api/clusters/blue", &form(&view, both.clone()))
        .send(&scene)
        .await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert_eq!(spec(&scene).await["machineNetworks"], both);
}

#[tokio::test]
async fn bad_input_names_the_field_and_changes_nothing() {
    let scene = Scene::start(true).await;
    let view = blue(&scene).await;
    make_cluster(&scene, "aws", json!({"cloud": {"aws": {}}})).await;
    let (_, other) = scene.ask("/api/clusters/aws").await;
    let many: Vec<Value> = (0..17).map(|n| json!({"cidr": format!("10.0.{n}.0/24")})).collect();
    let long = "1".repeat(44);
    for (name, networks, field) in [
        (
            "blue",
            json!([{"cidr": "10.0.0.1/24"}]),
            "spec.machineNetworks[0].cidr: ",
        ),
        ("blue", json!([{"cidr": ""}]), "spec.machineNetworks[0].cidr: "),
        (
            "blue",
            json!([{"cidr": "10.0.0.0/24", "gateway": "x"}]),
            "[0].gateway: ",
        ),
        (
            "blue",
            json!([{"cidr": "10.0.0.0/24", "dnsServers": ["fd00::1"]}]),
            "dnsServers[0]: ",
        ),
        (
            "blue",
            json!([{"cidr": "10.0.0.0/24"}, {"cidr": "10.0.0.0/25"}]),
            "overlap",
        ),
        ("blue", json!([{"cidr": long}]), "spec.machineNetworks[0].cidr: "),
        // This is a rule of the API server alone.
        ("blue", json!(many), "spec.machineNetworks: "),
        ("aws", json!([{"cidr": "10.0.0.0/24"}]), "spec.cloud.vsphere: "),
    ] {
        let view = if name == "blue" { &view } else { &other };
        let body = form(view, networks);
        let call = Call::new(&format!("/api/clusters/{name}"), &body);
        let (status, told) = call.send(&scene).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{told}");
        assert!(told["error"].as_str().unwrap().contains(field), "{field}: {told}");
        // The check while a person types says the same.
        let call = Call::new(&format!("/api/clusters/{name}/check"), &body);
        let (status, checked) = call.send(&scene).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(checked["errors"], told["errors"]);
    }
    for (body, word) in [
        (json!({"networks": []}), "version"),
        (
            json!({"version": view["version"], "networks": "10.0.0.0/24"}),
            "sequence",
        ),
        (
            json!({"version": view["version"], "networks": [], "force": true}),
            "force",
        ),
    ] {
        let (status, told) = Call::new("/api/clusters/blue", &body).send(&scene).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(told["error"].as_str().unwrap().contains(word), "{told}");
    }
    let huge = json!({"networks": "x".repeat(100_000)});
    let (status, _) = Call::new("/api/clusters/blue", &huge).raw(&scene).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    let (status, told) = scene.ask("/api/clusters/nobody").await;
    assert_eq!(
        (status, &told["error"]),
        (StatusCode::NOT_FOUND, &json!("there is no Cluster nobody"))
    );
    assert_eq!(spec(&scene).await, json!({"cloud": {"vsphere": {}}}));
}

#[tokio::test]
async fn overlaps_with_subnets_are_told_before_anything_is_applied() {
    let scene = Scene::start(true).await;
    let view = blue(&scene).await;
    let subnet = serde_json::from_value(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet",
        "metadata": {"name": "pods"}, "spec": {"cidrs": ["10.64.0.0/16"]},
    }));
    let subnets = Api::<berth_api::Subnet>::all(scene.client.clone());
    subnets.create(&PostParams::default(), &subnet.unwrap()).await.unwrap();
    scene
        .until(|state| state["subnets"][0]["name"] == "pods" && state["clusters"][0].is_object())
        .await;
    let body = form(&view, json!([{"cidr": "10.64.7.0/24"}]));
    let (_, told) = Call::new("/api/clusters/blue/check", &body).send(&scene).await;
    let warning = told["rows"][0]["warnings"][0].as_str().unwrap();
    assert!(warning.contains("10.64.0.0/16 of the Subnet pods"), "{warning}");
    let (_, state) = scene.ask("/api/state").await;
    assert_eq!(
        state["clusters"],
        json!([{"name": "blue", "isVsphere": true, "cidrs": []}])
    );
}

#[tokio::test]
async fn a_machine_is_made_and_is_given_a_network_once() {
    let scene = Scene::start(true).await;
    let new = |name: &str, network: Value| {
        json!({
            "group": "cluster.k8s.io", "namespace": "default", "name": name,
            "operatingSystem": "ubuntu", "network": network,
        })
    };
    let by_hand = json!({
        "addresses": [{"cidr": "10.0.0.5/24", "gateway": "10.0.0.1"}], "dnsServers": ["10.0.0.53"],
    });
    let (status, view) = Call::new("/api/machines", &new("m1", by_hand.clone()))
        .send(&scene)
        .await;
    assert_eq!(status, StatusCode::OK, "{view}");
    assert_eq!(view["network"], by_hand);
    let made = machines(&scene).get("m1").await.unwrap();
    assert_eq!(
        made.data["spec"]["providerSpec"]["value"],
        json!({
            "operatingSystem": "ubuntu",
            "network": {
                "cidr": "10.0.0.5/24", "gateway": "10.0.0.1", "dns": {"servers": ["10.0.0.53"]},
            },
        })
    );
    // A second Machine of this name is refused.
    let (status, told) = Call::new("/api/machines", &new("m1", Value::Null)).send(&scene).await;
    assert_eq!(status, StatusCode::CONFLICT, "{told}");
    // An address that one Machine has is refused for another.
    scene.until(|state| state["totals"]["machines"] == 1).await;
    let (status, told) = Call::new("/api/machines", &new("m2", by_hand.clone()))
        .send(&scene)
        .await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        told["error"].as_str().unwrap().contains("the Machine default/m1"),
        "{told}"
    );

    let gated = json!({"metadata": {"annotations": {INITIALIZERS: "ipam.berth.dev"}}});
    let (status, _) = Call::new("/api/machines", &new("m2", Value::Null)).send(&scene).await;
    assert_eq!(status, StatusCode::OK);
    machines(&scene)
        .patch("m2", &PatchParams::default(), &Patch::Merge(gated))
        .await
        .unwrap();
    let (_, view) = scene.ask("/api/machines/cluster.k8s.io/default/m2").await;
    assert_eq!((&view["isGated"], &view["network"]), (&json!(true), &Value::Null));
    let set = |view: &Value, cidr: &str| {
        json!({
            "group": "cluster.k8s.io", "namespace": "default", "name": "m2",
            "version": view["version"], "network": {"addresses": [{"cidr": cidr}]},
        })
    };
    let call = Call::new("/api/machines", &set(&view, "10.0.0.6/24"));
    let (status, _) = call.without("Authorization").send(&scene).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let (status, view) = Call::new("/api/machines", &set(&view, "10.0.0.6/24"))
        .send(&scene)
        .await;
    assert_eq!(status, StatusCode::OK, "{view}");
    let (status, told) = Call::new("/api/machines", &set(&view, "10.0.0.7/24"))
        .send(&scene)
        .await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let text = told["error"].as_str().unwrap();
    assert!(
        text.contains("spec.providerSpec.value.network: is 10.0.0.6/24 and stays so"),
        "{text}"
    );
    let kept = machines(&scene).get("m2").await.unwrap();
    assert_eq!(
        kept.data["spec"]["providerSpec"]["value"]["network"]["cidr"],
        "10.0.0.6/24"
    );
}

#[tokio::test]
async fn the_older_kind_of_machine_has_its_own_shape_and_no_namespace() {
    let scene = Scene::start(true).await;
    let body = json!({
        "group": "machine.k8s.io", "name": "old",
        "network": {"addresses": [{"cidr": "192.168.1.129/25", "gateway": "192.168.1.1"}]},
    });
    let (status, view) = Call::new("/api/machines", &body).send(&scene).await;
    assert_eq!(status, StatusCode::OK, "{view}");
    let resource = Shape::ProviderConfig.resource();
    let api = Api::<DynamicObject>::all_with(scene.client.clone(), &resource);
    let network = &api.get("old").await.unwrap().data["spec"]["providerConfig"]["network"];
    assert_eq!(network["netmask"], "255.255.255.128");
    let (status, _) = scene.ask("/api/machines/machine.k8s.io/old").await;
    assert_eq!(status, StatusCode::OK);
    let (status, told) = scene.ask("/api/machines/apps/old").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(told["error"].as_str().unwrap().starts_with("group: "), "{told}");
}

//! The gate as a webhook, on an API server that has no policy for it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::Result;
use berth_e2e::{Seen, wait_for};
use berth_machines::machine::{Machine, Shape};
use berth_testbed::Component;
use http_body_util::BodyExt;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::site::{Site, kill};
use crate::stage::{ACCOUNT, Stage, object};

const NAME: &str = "berth-machine-gate";

/// An address that nothing listens on.
pub fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, berth_testbed::free_port().unwrap()).into()
}

pub async fn a_webhook_gates_where_there_is_no_policy(stage: &Stage) {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    let site = &stage.site;
    site.kubectl(&format!("delete -f {}", deploy.join("machines/gate.yaml").display()))
        .unwrap();
    site.scene.cluster.apply(&deploy.join("rbac/webhook.yaml")).unwrap();
    for (kind, role) in [("clusterrolebinding", "clusterrole"), ("rolebinding", "role")] {
        let line = format!(
            "create {kind} webhook-account --{role}=berth-webhook \
             --serviceaccount=kube-system:{ACCOUNT} --namespace=kube-system"
        );
        // A ClusterRoleBinding is in no namespace.
        let line = match kind {
            "rolebinding" => line,
            _ => line.replace(" --namespace=kube-system", ""),
        };
        site.kubectl(&line).unwrap();
    }
    wait_for(&site.scene, "the policy is gone", async || {
        Ok(match probe(site).await {
            Ok(false) => Seen::There,
            other => Seen::NotYet(format!("{other:?}")),
        })
    })
    .await
    .unwrap();

    let address = free_address();
    let running = start(stage, address);
    until_gated(site).await;
    for (name, shape) in [("w1", Shape::ProviderConfig), ("w2", Shape::ProviderSpec)] {
        let object = object(name, shape, Value::Null);
        let made = stage.machines(shape).create(&PostParams::default(), &object).await;
        assert!(Machine::of(shape, &made.unwrap()).is_gated());
        wait_for(&site.scene, "it has its network", async || {
            let found = stage.with_network().await?;
            Ok(match found.get(name) {
                Some(machine) if !machine.is_gated() => Seen::There,
                _ => Seen::NotYet(name.to_owned()),
            })
        })
        .await
        .unwrap();
    }
    let object = stage.create_with("w3", "a,b").await;
    let list = Machine::of(Shape::ProviderConfig, &object).initializers();
    assert_eq!(list.to_annotation().as_deref(), Some("a,b,ipam.berth.dev"));
    malformed_calls_are_refused(site, address).await;
    certificates_that_are_gone_are_recreated(site).await;

    // Nothing serves the webhook: new Machines are refused, and none slips through.
    kill(&running);
    let refused = probe(site).await.unwrap_err().to_string();
    assert!(refused.contains("failed calling webhook"), "{refused}");
    site.kubectl(&format!("delete mutatingwebhookconfiguration {NAME}"))
        .unwrap();
}

fn start(stage: &Stage, address: SocketAddr) -> Component {
    let listen = format!("--webhook-listen={address}");
    let url = format!("--webhook-url=https://{address}");
    let flags = [
        "--controllers=subnet,machine",
        "--leader-elect=false",
        "--network=10.20.0.0/16,10.21.0.1,10.20.0.53",
        &listen,
        &url,
    ];
    stage.site.start("webhook", "controller", &stage.kubeconfig, &flags)
}

/// Whether a new Machine would be gated.
async fn probe(site: &Site) -> Result<bool> {
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let machines: Api<kube::core::DynamicObject> =
        Api::all_with(site.scene.client.clone(), &Shape::ProviderConfig.resource());
    let object = object("probe", Shape::ProviderConfig, Value::Null);
    let made = machines.create(&params, &object).await?;
    Ok(Machine::of(Shape::ProviderConfig, &made).is_gated())
}

async fn until_gated(site: &Site) {
    wait_for(&site.scene, "the webhook gates", async || {
        Ok(match probe(site).await {
            Ok(true) => Seen::There,
            other => Seen::NotYet(format!("{other:?}")),
        })
    })
    .await
    .unwrap();
}

async fn authorities(site: &Site) -> Result<String> {
    let api = Api::<MutatingWebhookConfiguration>::all(site.scene.client.clone());
    let found = serde_json::to_value(api.get(NAME).await?)?;
    let bundle = found["webhooks"][0]["clientConfig"]["caBundle"].as_str();
    Ok(bundle.unwrap_or_default().to_owned())
}

/// Calls the webhook with the authorities that the API server trusts.
async fn malformed_calls_are_refused(site: &Site, address: SocketAddr) {
    let kubeconfig = json!({
        "clusters": [{"name": "webhook", "cluster": {
            "server": format!("https://{address}"),
            "certificate-authority-data": authorities(site).await.unwrap(),
        }}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": "nobody"}}],
        "current-context": "webhook",
    });
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"});
    let calls = [
        ("POST", "application/json", "{".to_owned(), 400, "the body is not JSON"),
        ("POST", "application/json", "{}".to_owned(), 400, "apiVersion, kind: "),
        ("POST", "application/json", review.to_string(), 400, "request.uid: "),
        ("POST", "text/plain", review.to_string(), 415, "Content-Type: "),
        ("GET", "application/json", String::new(), 405, ""),
    ];
    for (method, content, body, code, why) in calls {
        let request = http::Request::builder()
            .method(method)
            .uri("/gate")
            .header("Content-Type", content)
            .body(body.into_bytes().into())
            .unwrap();
        let response = client.send(request).await.unwrap();
        assert_eq!(response.status().as_u16(), code, "{why}");
        let said = response.into_body().collect().await.unwrap().to_bytes();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains(why), "{said}");
    }
}

/// Deletes the certificates. Until there are new ones, the API server may refuse Machines, but lets
/// none through.
async fn certificates_that_are_gone_are_recreated(site: &Site) {
    let before = authorities(site).await.unwrap();
    let secrets = Api::<Secret>::namespaced(site.scene.client.clone(), "kube-system");
    secrets.delete("berth-webhook", &DeleteParams::default()).await.unwrap();
    wait_for(
        &site.scene,
        "there is another authority, and it is trusted",
        async || {
            let gated = probe(site).await;
            assert!(!matches!(gated, Ok(false)), "a Machine slipped through");
            let changed = authorities(site).await? != before;
            Ok(match gated {
                Ok(true) if changed => Seen::There,
                other => Seen::NotYet(format!("{changed} {other:?}")),
            })
        },
    )
    .await
    .unwrap();
    assert!(secrets.get("berth-webhook").await.is_ok());
}

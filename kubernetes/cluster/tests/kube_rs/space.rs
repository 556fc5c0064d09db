//! A namespace for one test alone, on the runtime that the client lives on.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use berth_testkit::until;
use futures::FutureExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::target::{Capability, target};

#[derive(Clone)]
pub struct Space {
    pub name: String,
    pub client: Client,
}

/// Runs a test in a new namespace. It is deleted afterwards, however the test ends.
pub fn in_space(test: impl AsyncFnOnce(Space)) {
    target().runtime.block_on(async {
        let space = Space::new().await;
        let ended = AssertUnwindSafe(test(space.clone())).catch_unwind().await;
        space.leave().await;
        if let Err(panic) = ended {
            resume_unwind(panic);
        }
    });
}

/// A name that no other test, and no other run on the same server, has.
pub fn unique(prefix: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let second = jiff::Timestamp::now().as_second() % 1_000_000;
    format!("{prefix}-{second}-{}-{count}", std::process::id())
}

impl Space {
    pub async fn new() -> Self {
        let space = Self {
            name: unique("kube-rs"),
            client: target().client.clone(),
        };
        let namespaces = Api::<Namespace>::all(space.client.clone());
        let namespace = object(json!({"metadata": {"name": space.name}}));
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        if target().can(Capability::Controllers) {
            // Real servers refuse pods until it is there.
            let accounts = space.api::<ServiceAccount>();
            let account = async || accounts.get_opt("default").await.unwrap();
            until("the default ServiceAccount is there", account).await;
        }
        space
    }

    /// Has the namespace deleted. What it still holds goes with it where a controller does that.
    pub async fn leave(&self) {
        let namespaces = Api::<Namespace>::all(self.client.clone());
        namespaces.delete(&self.name, &DeleteParams::default()).await.unwrap();
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Creates an object from what its JSON would be.
    pub async fn have<K>(&self, value: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
        K::DynamicType: Default,
    {
        let created = self.api::<K>().create(&PostParams::default(), &object(value)).await;
        created.unwrap()
    }

    /// Leases serve as objects of no particular kind: no controller makes any in a new namespace.
    pub async fn lease(&self, name: &str) -> Lease {
        self.have(json!({"metadata": {"name": name}, "spec": {"holderIdentity": "nobody"}}))
            .await
    }

    pub async fn label(&self, name: &str, label: &str, value: Option<&str>) -> Lease {
        let patch = Patch::Merge(json!({"metadata": {"labels": {label: value}}}));
        let patched = self.api().patch(name, &PatchParams::default(), &patch).await;
        patched.unwrap()
    }

    /// A pod that no scheduler takes.
    pub async fn pod(&self, name: &str) -> Pod {
        let containers = json!([{"name": "c", "image": "registry.invalid/c"}]);
        let spec = json!({"schedulerName": "nobody", "containers": containers});
        self.have(json!({"metadata": {"name": name}, "spec": spec})).await
    }
}

pub fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// What orders the states of objects of one kind.
pub fn version(object: &impl ResourceExt) -> u64 {
    object.resource_version().unwrap().parse().unwrap()
}

pub fn names(objects: impl IntoIterator<Item = impl ResourceExt>) -> Vec<String> {
    objects.into_iter().map(|object| object.name_any()).collect()
}

/// The Status that a request was refused with.
#[track_caller]
pub fn refusal<T: Debug>(result: kube::Result<T>) -> Box<Status> {
    match result {
        Err(kube::Error::Api(status)) => status,
        other => panic!("not refused by the server: {other:?}"),
    }
}

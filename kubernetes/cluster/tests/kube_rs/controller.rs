//! `kube::runtime::Controller` and its finalizers, in the smallest controllers that use all of it.

use std::sync::Arc;
use std::time::Duration;

use berth_testkit::until;
use berth_testkit::within;
use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::wait::delete::delete_and_finalize;
use kube::runtime::{Controller, watcher};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::space::{Space, in_space};

/// What a reconciler works with.
struct Context {
    space: Space,
    done: mpsc::UnboundedSender<String>,
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    done: mpsc::UnboundedReceiver<String>,
}

/// Runs a controller for ConfigMaps that own Leases. Errors are retried soon: a conflict is none of
/// this test's business.
fn run<R, E>(
    space: &Space,
    reconcile: impl FnMut(Arc<ConfigMap>, Arc<Context>) -> R + Send + 'static,
) -> Running
where
    R: Future<Output = Result<Action, E>> + Send + 'static,
    E: std::error::Error + Send + 'static,
{
    let (stop, stopped) = oneshot::channel();
    let (sender, done) = mpsc::unbounded_channel();
    let context = Context {
        space: space.clone(),
        done: sender,
    };
    let only_ours = watcher::Config::default().labels("mine=yes");
    let controller = Controller::new(space.api::<ConfigMap>(), only_ours)
        .owns(space.api::<Lease>(), watcher::Config::default())
        .graceful_shutdown_on(async { drop(stopped.await) })
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(50)),
            Arc::new(context),
        );
    let task = tokio::spawn(controller.for_each(async |_| ()));
    Running { stop, task, done }
}

impl Running {
    async fn stop(self) {
        self.stop.send(()).unwrap();
        within("the controller stops", self.task).await.unwrap();
    }
}

async fn owner(space: &Space) -> ConfigMap {
    let owner = json!({"metadata": {"name": "owner", "labels": {"mine": "yes"}}, "data": {"holder": "first"}});
    space.have(owner).await
}

/// The Lease says what its owner says.
async fn follow(owner: Arc<ConfigMap>, context: Arc<Context>) -> kube::Result<Action> {
    let holder = owner.data.as_ref().and_then(|data| data.get("holder"));
    let child = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "child", "ownerReferences": [owner.controller_owner_ref(&())]},
        "spec": {"holderIdentity": holder},
    });
    let params = PatchParams::apply("follower").force();
    let leases = context.space.api::<Lease>();
    leases.patch("child", &params, &Patch::Apply(child)).await?;
    context.done.send(owner.name_any()).ok();
    Ok(Action::await_change())
}

/// Waits until the child has this holder, and is another one than `not`.
async fn child_of(leases: &Api<Lease>, holder: &str, not: Option<String>) -> Lease {
    until(&format!("the child says {holder}"), async || {
        let child = leases.get_opt("child").await.unwrap()?;
        let holds = child.spec.as_ref()?.holder_identity.as_deref() == Some(holder);
        (holds && child.uid() != not).then_some(child)
    })
    .await
}

#[test]
fn a_controller_reconciles_the_owner_when_its_child_changes() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        let mut controller = run(&space, follow);
        owner(&space).await;
        let child = child_of(&leases, "first", None).await;
        assert_eq!(
            within("a reconciliation", controller.done.recv()).await.unwrap(),
            "owner"
        );

        let patch = Patch::Merge(json!({"spec": {"holderIdentity": "stranger"}}));
        let strange = leases.patch("child", &PatchParams::default(), &patch).await.unwrap();
        let mended = child_of(&leases, "first", None).await;
        assert_eq!(mended.uid(), strange.uid());

        leases.delete("child", &DeleteParams::default()).await.unwrap();
        child_of(&leases, "first", child.uid()).await;

        let patch = Patch::Merge(json!({"data": {"holder": "second"}}));
        let owners = space.api::<ConfigMap>();
        owners.patch("owner", &PatchParams::default(), &patch).await.unwrap();
        child_of(&leases, "second", None).await;
        controller.stop().await;
    });
}

const FINALIZER: &str = "berth.dev/test-guard";

async fn guard(
    owner: Arc<ConfigMap>,
    context: Arc<Context>,
) -> Result<Action, finalizer::Error<kube::Error>> {
    let owners = context.space.api::<ConfigMap>();
    finalizer(&owners, FINALIZER, owner, async |event| {
        let (what, owner) = match event {
            finalizer::Event::Apply(owner) => ("apply", owner),
            finalizer::Event::Cleanup(owner) => ("cleanup", owner),
        };
        let live = owners.get(&owner.name_any()).await?;
        assert!(live.finalizers().contains(&FINALIZER.to_owned()));
        assert_eq!(live.metadata.deletion_timestamp.is_some(), what == "cleanup");
        context.done.send(what.to_owned()).ok();
        Ok(Action::await_change())
    })
    .await
}

#[test]
fn a_finalizer_cleans_up_before_its_object_is_gone() {
    in_space(async |space| {
        let mut controller = run(&space, guard);
        owner(&space).await;
        assert_eq!(within("apply", controller.done.recv()).await.unwrap(), "apply");
        let owners = space.api::<ConfigMap>();
        let params = DeleteParams::default();
        let deleted = delete_and_finalize(owners.clone(), "owner", &params);
        within("the object is gone", deleted).await.unwrap();
        assert!(owners.get_opt("owner").await.unwrap().is_none());
        while within("cleanup", controller.done.recv()).await.unwrap() != "cleanup" {}
        controller.stop().await;
    });
}

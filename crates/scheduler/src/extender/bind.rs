//! The bind verb: check and reserve in one step, then have the API server bind.
//!
//! Why no node is over-committed: a pod counts at its node before the binding is sent, until the
//! API server refuses the binding or the pod is gone. A binding without an answer may still arrive,
//! so its pod counts as long as the server may work on it.

use std::sync::Arc;
use std::time::Duration;

use berth_api::ObservedPod;
use k8s_openapi::api::core::v1::{Binding, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Status};
use kube::Api;
use kube::api::PostParams;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::filter::BadRequest;
use super::session::Session;
use super::wire::BindingArgs;
use crate::accounting::{Refusal, Reserved};

/// The API server aborts requests that take longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// After this time, a binding without an answer can no longer be carried out.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(70);
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error(transparent)]
    Bad(#[from] BadRequest),
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error(
        "there is no pod {namespace}/{name} with the UID {uid}: it is gone, or another \
         one has its name"
    )]
    NoSuchPod {
        namespace: String,
        name: String,
        uid: String,
    },
    #[error("this replica does not lead any more: the leader binds")]
    NotLeading,
    #[error("the API server refuses the binding: {0}")]
    Api(#[source] Box<kube::Error>),
    #[error(
        "the API server did not answer; the pod counts against the node until it is known \
         whether it was bound: {0}"
    )]
    Unanswered(String),
}

impl BindError {
    pub fn category(&self) -> &'static str {
        match self {
            Self::Bad(_) => "bad_request",
            Self::Refused(_) => "refused",
            Self::NoSuchPod { .. } => "no_such_pod",
            Self::NotLeading => "not_leading",
            Self::Api(_) => "api",
            Self::Unanswered(_) => "quarantined",
        }
    }
}

/// What the API server said to a binding.
enum Outcome {
    Bound,
    Refused(kube::Error),
    Unknown(String),
}

pub async fn bind(session: Arc<Session>, args: BindingArgs) -> Result<(), BindError> {
    check(&args)?;
    let known = session.books.lock().needs_ip(&args.pod_uid);
    let needs_ip = match known {
        Some(needs_ip) => needs_ip,
        // The watch has not sent the pod yet.
        None => read(&session, &args).await?.needs_address(),
    };
    let reserved = session.books.change(|accounting| {
        let reserved = accounting.reserve(&args.pod_uid, needs_ip, &args.node);
        if reserved.is_err() {
            accounting.refused(&args.node);
        }
        reserved
    })?;
    if reserved == Reserved::Bound {
        return Ok(());
    }
    if !session.leads() {
        // No binding was sent for this reservation, unless an earlier try made it.
        if reserved == Reserved::Now {
            session.books.change(|accounting| accounting.release(&args.pod_uid));
        }
        return Err(BindError::NotLeading);
    }
    match post(&session, &args).await {
        Outcome::Bound => {
            session.books.change(|accounting| accounting.confirm(&args.pod_uid));
            debug!(pod = args.pod_name, node = args.node, "bound the pod");
            Ok(())
        }
        Outcome::Refused(error) => {
            // An earlier try without an answer may have bound the pod: then this one is refused.
            let bound = read(&session, &args).await.ok();
            if bound.as_ref().and_then(ObservedPod::node) == Some(&args.node) {
                session.books.change(|accounting| accounting.confirm(&args.pod_uid));
                return Ok(());
            }
            if reserved == Reserved::Now {
                session.books.change(|accounting| accounting.release(&args.pod_uid));
            }
            Err(BindError::Api(Box::new(error)))
        }
        Outcome::Unknown(why) => {
            warn!(
                pod = args.pod_name,
                node = args.node,
                why,
                "no answer to a binding; keeping its reservation until the pod is read"
            );
            resolve(&session, args);
            Err(BindError::Unanswered(why))
        }
    }
}

fn check(args: &BindingArgs) -> Result<(), BadRequest> {
    let fields = [
        ("PodName", &args.pod_name),
        ("PodNamespace", &args.pod_namespace),
        ("PodUID", &args.pod_uid),
        ("Node", &args.node),
    ];
    match fields.into_iter().find(|(_, value)| value.is_empty()) {
        Some((field, _)) => Err(BadRequest::Empty { field }),
        None => Ok(()),
    }
}

async fn read(session: &Session, args: &BindingArgs) -> Result<ObservedPod, BindError> {
    let pods: Api<ObservedPod> = Api::namespaced(session.client.clone(), &args.pod_namespace);
    let pod = pods
        .get_opt(&args.pod_name)
        .await
        .map_err(|error| BindError::Api(Box::new(error)))?;
    let pod = pod.filter(|pod| pod.metadata.uid.as_ref() == Some(&args.pod_uid));
    pod.ok_or_else(|| BindError::NoSuchPod {
        namespace: args.pod_namespace.clone(),
        name: args.pod_name.clone(),
        uid: args.pod_uid.clone(),
    })
}

/// Sends the UID: the API server binds no other pod of this name.
async fn post(session: &Session, args: &BindingArgs) -> Outcome {
    let binding = Binding {
        metadata: ObjectMeta {
            namespace: Some(args.pod_namespace.clone()),
            name: Some(args.pod_name.clone()),
            uid: Some(args.pod_uid.clone()),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(args.node.clone()),
            ..ObjectReference::default()
        },
    };
    let pods: Api<ObservedPod> = Api::namespaced(session.client.clone(), &args.pod_namespace);
    let params = PostParams::default();
    let sent =
        pods.create_subresource::<Binding, Status>("binding", &args.pod_name, &params, &binding);
    match timeout(REQUEST_TIMEOUT, sent).await {
        Ok(Ok(_)) => Outcome::Bound,
        Ok(Err(kube::Error::Api(status)))
            if (400..500).contains(&status.code) && status.code != 408 =>
        {
            Outcome::Refused(kube::Error::Api(status))
        }
        Ok(Err(error)) => Outcome::Unknown(error.to_string()),
        Err(_) => Outcome::Unknown("it took too long".to_owned()),
    }
}

/// Waits in the background until the binding cannot arrive any more, then reads the pod.
fn resolve(session: &Arc<Session>, args: BindingArgs) {
    let (session, tasks) = (session.clone(), session.tasks.clone());
    tasks.spawn(async move {
        let stop = session.stop.clone();
        let wait = async {
            sleep(ANSWER_TIMEOUT).await;
            loop {
                match read(&session, &args).await {
                    Ok(pod) if pod.node().is_some() => return,
                    Ok(_) | Err(BindError::NoSuchPod { .. }) => {
                        info!(
                            pod = args.pod_name,
                            node = args.node,
                            "the pod was not bound; releasing its reservation"
                        );
                        session.books.change(|accounting| accounting.release(&args.pod_uid));
                        return;
                    }
                    Err(error) => {
                        warn!(
                            %error,
                            pod = args.pod_name,
                            "cannot read the pod of a binding without an answer; retrying"
                        )
                    }
                }
                sleep(RETRY_INTERVAL).await;
            }
        };
        stop.run_until_cancelled(wait).await;
    });
}

//! Repairs for findings, where they can do no harm.
//!
//! Each names one object by its UID: a newer object of the same name stays. A pod is deleted only
//! if a controller replaces it, and a NodeNetworkConfig only without a Node and without pods. The
//! finalizer of the latter keeps the addresses until the controller has released them; a node that
//! comes back gets a new one.

use berth_api::names::NAMESPACE;
use berth_api::{NodeNetworkConfig, ObservedPod};
use berth_kit::api_error::{is_conflict, is_not_found};
use futures::future::BoxFuture;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client};
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "action", rename_all = "camelCase")]
pub enum Repair {
    DeletePod {
        namespace: String,
        name: String,
        uid: String,
    },
    DeleteNnc {
        name: String,
        uid: String,
    },
}

impl std::fmt::Display for Repair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::DeletePod { namespace, name, .. } => write!(f, "delete pod {namespace}/{name}"),
            Self::DeleteNnc { name, .. } => write!(f, "delete nnc {name}"),
        }
    }
}

impl Repair {
    /// An object that is gone already counts as repaired, even if a new object has its name by now.
    pub fn apply<'a>(&'a self, client: &'a Client) -> BoxFuture<'a, kube::Result<()>> {
        Box::pin(async move {
            let deleted = match self {
                Self::DeletePod { namespace, name, uid } => {
                    let pods: Api<ObservedPod> = Api::namespaced(client.clone(), namespace);
                    pods.delete(name, &only(uid)).await.map(drop)
                }
                Self::DeleteNnc { name, uid } => {
                    let nncs: Api<NodeNetworkConfig> = Api::namespaced(client.clone(), NAMESPACE);
                    nncs.delete(name, &only(uid)).await.map(drop)
                }
            };
            match deleted {
                Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(()),
                deleted => deleted,
            }
        })
    }
}

fn only(uid: &str) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    })
}

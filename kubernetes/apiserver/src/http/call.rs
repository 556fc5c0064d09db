//! What all handlers share, and what each request brings.

use std::collections::HashMap;
use std::sync::Arc;

use berth_apimachinery::status::{Result, Status};
use bytes::Bytes;
use http::Method;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::answer::Form;
use super::params::Params;
use super::path::Target;
use super::step::Step;
use crate::kinds::Kind;
use crate::node_proxy::NodeProxy;
use crate::resources::Resources;

/// What the handlers share.
#[derive(Debug)]
pub struct Front {
    pub resources: Arc<Resources>,
    pub node_proxy: NodeProxy,
    /// Cancelled when the server stops. Ends all watches.
    pub stop: CancellationToken,
    pub step: Arc<Step>,
    /// OpenAPI documents by path, each with the registry version it was made for.
    documents: Mutex<HashMap<String, (u64, Bytes)>>,
}

impl Front {
    pub fn new(
        resources: Arc<Resources>,
        node_proxy: NodeProxy,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            resources,
            node_proxy,
            stop,
            step: Arc::new(Step::new()),
            documents: Mutex::default(),
        })
    }

    /// OpenAPI documents are made on first use and kept until the kinds change.
    pub fn document(
        &self,
        name: &str,
        make: impl FnOnce(&[Arc<Kind>]) -> Option<Bytes>,
    ) -> Result<Bytes> {
        let (at, kinds) = self.resources.registry.versioned();
        if let Some((made_at, bytes)) = self.documents.lock().get(name)
            && *made_at == at
        {
            return Ok(bytes.clone());
        }
        let bytes = make(&kinds).ok_or_else(Status::no_such_path)?;
        self.documents.lock().insert(name.to_owned(), (at, bytes.clone()));
        Ok(bytes)
    }
}

/// One parsed request for one resource.
pub struct Call {
    pub kind: Arc<Kind>,
    pub target: Target,
    pub params: Params,
    pub form: Form,
    pub method: Method,
    pub headers: http::HeaderMap,
}

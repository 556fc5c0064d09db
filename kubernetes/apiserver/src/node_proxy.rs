//! `GET /api/v1/nodes/[SCHEME:]NAME:PORT/proxy/PATH`: a node answers itself. The caller that opens
//! the server hands in the nodes, since this crate knows none.

use std::fmt;
use std::sync::Arc;

use axum::Router;

type Find = dyn Fn(&str, u16) -> Option<Router> + Send + Sync;

/// Without a function, no node answers.
#[derive(Clone, Default)]
pub struct NodeProxy(Option<Arc<Find>>);

impl NodeProxy {
    /// `find` is called with a node's name and the port that is asked for.
    pub fn new(find: impl Fn(&str, u16) -> Option<Router> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(find)))
    }

    pub(crate) fn find(&self, node: &str, port: u16) -> Option<Router> {
        self.0.as_ref()?(node, port)
    }
}

impl fmt::Debug for NodeProxy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("NodeProxy").field(&self.0.is_some()).finish()
    }
}

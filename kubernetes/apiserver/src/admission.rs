//! Mutating admission: changes new objects before they are checked. The caller that opens the
//! server hands in the function, since this crate knows no policies.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

type Mutate = dyn Fn(&str, &str, &mut Value) + Send + Sync;

/// Without a function, admission changes nothing.
#[derive(Clone, Default)]
pub struct Admission(Option<Arc<Mutate>>);

impl Admission {
    /// `mutate` is called with the group and the plural of every new object.
    pub fn new(mutate: impl Fn(&str, &str, &mut Value) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(mutate)))
    }

    pub(crate) fn admit(&self, group: &str, plural: &str, object: &mut Value) {
        if let Some(mutate) = &self.0 {
            mutate(group, plural, object);
        }
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Admission").field(&self.0.is_some()).finish()
    }
}

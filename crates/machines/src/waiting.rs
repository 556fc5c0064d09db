//! Machines and claims that got no address, and are woken when one comes free.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;

/// Clones share the same state.
#[derive(Clone, Debug)]
pub struct Waiting<K> {
    keys: Arc<Mutex<BTreeSet<K>>>,
    gauge: Gauge,
}

impl<K: Ord + Clone> Waiting<K> {
    pub fn new(gauge: Gauge) -> Self {
        // An earlier leader term may have left its value.
        gauge.set(0);
        Self {
            keys: Arc::default(),
            gauge,
        }
    }

    pub fn insert(&self, key: K) {
        self.change(|keys| keys.insert(key));
    }

    pub fn remove(&self, key: &K) {
        self.change(|keys| keys.remove(key));
    }

    pub fn all(&self) -> Vec<K> {
        self.keys.lock().iter().cloned().collect()
    }

    fn change(&self, change: impl FnOnce(&mut BTreeSet<K>) -> bool) {
        let mut keys = self.keys.lock();
        if change(&mut keys) {
            self.gauge.set(i64::try_from(keys.len()).unwrap_or(i64::MAX));
        }
    }
}

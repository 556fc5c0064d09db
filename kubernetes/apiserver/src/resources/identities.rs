//! UIDs and generated names. The same seed gives the same ones again.

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Where UIDs and generated names come from.
#[derive(Debug)]
pub struct Identities(Mutex<StdRng>);

/// As in Kubernetes: no vowels, so that no words come out.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Identities {
    pub fn random() -> Self {
        Self(Mutex::new(StdRng::from_rng(&mut rand::rng())))
    }

    pub fn seeded(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    pub fn uid(&self) -> String {
        uuid::Builder::from_random_bytes(self.0.lock().random())
            .into_uuid()
            .to_string()
    }

    pub fn name(&self, prefix: &str) -> String {
        let mut source = self.0.lock();
        let mut name: String = prefix.chars().take(58).collect();
        name.extend((0..5).map(|_| char::from(SUFFIX[source.random_range(0..SUFFIX.len())])));
        name
    }
}

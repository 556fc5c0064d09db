//! Time and identity. Both can be made repeatable: a run with tokio's clock and a seed takes the same steps again.

use jiff::Timestamp;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The machine's.
    System,
    /// tokio's, which tests pause: this instant was this time.
    Tokio(tokio::time::Instant, Timestamp),
}

impl Clock {
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp::now(),
            Self::Tokio(start, time) => {
                let elapsed = jiff::SignedDuration::try_from(start.elapsed()).unwrap_or_default();
                time.checked_add(elapsed).unwrap_or(*time)
            }
        }
    }
}

/// Where UIDs and generated names come from.
#[derive(Debug)]
pub struct Identities(Mutex<StdRng>);

/// As Kubernetes: no vowels, so that no words come out.
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

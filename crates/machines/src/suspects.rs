//! Owners that seem to be gone, and since when. Both reclaims use this, and take back only after
//! they have asked the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_ledger::{Kind, Ledger, LedgerError, Owner};
use tokio::time::Instant;

/// The time between two checks.
pub const RECLAIM_INTERVAL: Duration = Duration::from_secs(30);

/// By subnet and owner.
#[derive(Debug)]
pub struct Suspects {
    kind: Kind,
    cluster: String,
    grace: Duration,
    since: BTreeMap<(String, Owner), Instant>,
}

impl Suspects {
    pub fn new(kind: Kind, cluster: &str, grace: Duration) -> Self {
        Self {
            kind,
            cluster: cluster.to_owned(),
            grace,
            since: BTreeMap::new(),
        }
    }

    /// Returns the owners that looked gone at every check of the grace period. They stay suspects
    /// until they are forgotten, so that an error does not start a new grace period.
    pub async fn observe(
        &mut self,
        ledger: &Ledger,
        looks_gone: impl Fn(&Owner) -> bool,
    ) -> Result<Vec<(String, Owner)>, LedgerError> {
        let now = Instant::now();
        let mut gone = BTreeMap::new();
        for subnet in ledger.subnets().await {
            for owner in ledger.owners(&subnet).await? {
                let is_ours = owner.kind() == self.kind && owner.cluster() == self.cluster;
                if is_ours && looks_gone(&owner) {
                    let place = (subnet.clone(), owner);
                    let since = self.since.get(&place).copied().unwrap_or(now);
                    gone.insert(place, since);
                }
            }
        }
        self.since = gone;
        let is_due = |since: &Instant| now.duration_since(*since) >= self.grace;
        let due = self.since.iter().filter(|(_, since)| is_due(since));
        Ok(due.map(|(place, _)| place.clone()).collect())
    }

    pub fn forget(&mut self, place: &(String, Owner)) {
        self.since.remove(place);
    }
}

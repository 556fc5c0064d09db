//! Owners that seem to be gone, and since when: what both reclaims look through. Taking back is
//! theirs, after they have asked the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_ledger::{Kind, Ledger, LedgerError, Owner};
use tokio::time::Instant;

/// Between two looks.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(30);

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

    /// Those that have looked gone at every look of the grace period. They stay suspects until they
    /// are forgotten, so that an error on the way costs no grace period anew.
    pub async fn look(
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

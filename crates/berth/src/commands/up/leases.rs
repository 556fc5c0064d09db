//! The Leases that the controllers of `berth up` hold. A `berth controller` or `berth machine-ipam`
//! beside them would use another ledger: it waits for the Leases.

use std::time::Duration;

use anyhow::Result;
use berth_api::names::NAMESPACE;
use berth_kit::lease::{ElectionMetrics, LeaderElection, Leadership, Term, Timing};
use futures::future::{join_all, select_all};
use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::commands::{controller, machine_ipam};

const NAMES: [&str; 2] = [controller::LEASE, machine_ipam::LEASE];

/// The same identity at every start: only one process uses the data directory, so a Lease with this
/// name is its own, and a start after a kill need not wait.
const IDENTITY: &str = "berth-up";

/// The API is in the same process and each renewal is a write to disk: so they are rarer than
/// elsewhere.
const LEASE_DURATION: Duration = Duration::from_secs(30);
const RENEW_DEADLINE: Duration = Duration::from_secs(20);
const RETRY_PERIOD: Duration = Duration::from_secs(10);

pub struct Leases {
    elections: Vec<LeaderElection>,
}

impl Leases {
    pub fn new(client: &Client, metrics: &ElectionMetrics) -> Result<Self> {
        let timing = Timing::new(LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD)?;
        let stand = |name: &str| {
            LeaderElection::new(client.clone(), NAMESPACE, name, IDENTITY)
                .with_timing(timing)
                .with_metrics(metrics)
        };
        let elections = NAMES.into_iter().map(stand).collect();
        Ok(Self { elections })
    }

    /// Runs `work` whenever all Leases are held, until `stop` or until the work ends by itself.
    pub async fn lead<F>(
        self,
        stop: CancellationToken,
        work: impl Fn(CancellationToken) -> F,
    ) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let mut leaderships: Vec<Leadership> =
            self.elections.iter().map(LeaderElection::leadership).collect();
        // The Leases are never released: another waiting process must not get them before this
        // cluster starts again.
        let elections = self.elections.into_iter();
        let held = join_all(elections.map(|election| election.run(CancellationToken::new())));
        let working = async {
            while let Some(Some(terms)) = stop.run_until_cancelled(acquire(&mut leaderships)).await
            {
                let ending = stop.child_token();
                let running = work(ending.clone());
                tokio::pin!(running);
                tokio::select! {
                    ended = &mut running => return ended,
                    _ = select_all(terms.iter().map(|term| Box::pin(term.lost()))) => {
                        ending.cancel();
                        running.await?;
                    }
                }
            }
            Ok(())
        };
        tokio::select! {
            ended = working => ended,
            _ = held => Ok(()),
        }
    }
}

/// Waits for the next term of each Lease, and logs why nothing works until then.
async fn acquire(leaderships: &mut [Leadership]) -> Option<Vec<Term>> {
    let acquired = join_all(leaderships.iter_mut().map(Leadership::acquired));
    tokio::pin!(acquired);
    let terms = match tokio::time::timeout(RETRY_PERIOD, &mut acquired).await {
        Ok(terms) => terms,
        Err(_) => {
            let names = NAMES.join(" or ");
            warn!("another process holds Lease {names}; stop that process, the controllers wait");
            acquired.await
        }
    };
    terms.into_iter().collect()
}

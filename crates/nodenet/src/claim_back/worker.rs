//! Runs a pass for every subnet when it is registered, when the ledger has lost something of it,
//! and when a node asks for one.

use std::time::Duration;

use berth_kit::backoff::Exponential;
use tracing::warn;

use super::pass::pass;
use crate::allocator::AllocatorError;
use crate::context::Context;
use crate::error::ReconcileError;

const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(10),
};

/// Runs for the lifetime of the controllers.
pub async fn run(context: Context) {
    let Some(mut registered) = context.claims.take_registered() else {
        return;
    };
    while let Some(subnet) = registered.recv().await {
        let this = context.clone();
        context.background.spawn(async move { follow(&this, &subnet).await });
    }
}

/// Runs passes as long as the subnet is registered.
async fn follow(context: &Context, subnet: &str) {
    let Context {
        claims,
        allocator,
        cluster,
        ..
    } = context;
    let requested = claims.requested(subnet);
    let (mut failures, mut is_first) = (0, true);
    loop {
        let before = claims.conflicts(subnet);
        let generation = match pass(context, subnet).await {
            Ok(generation) => generation,
            Err(ReconcileError::Allocator(AllocatorError::NoSubnet { .. })) => {
                claims.unregister(subnet);
                wake(context, subnet);
                if is_first {
                    claims.passed_first();
                }
                // It may have been registered again at this moment.
                if allocator.generation(subnet, cluster).await.is_ok() {
                    claims.register(subnet);
                }
                return;
            }
            Err(error) => {
                let delay = BACKOFF.delay(failures);
                warn!(
                    subnet,
                    %error,
                    "cannot claim the addresses that nodes have; retrying in {delay:.1?}"
                );
                tokio::time::sleep(delay).await;
                failures += 1;
                continue;
            }
        };
        if std::mem::take(&mut is_first) {
            claims.passed_first();
        }
        failures = 0;
        wake(context, subnet);
        if claims.conflicts(subnet) != before {
            context.subnet_queue.add(subnet.to_owned());
        }
        tokio::select! {
            // The next pass notices a subnet that is gone.
            lost = allocator.lost(subnet, cluster, generation) => if lost.is_err() {
                tokio::time::sleep(BACKOFF.delay(failures)).await;
                failures += 1;
            },
            () = requested.notified() => {}
        }
    }
}

/// Wakes the nodes that wait for the subnet to open.
fn wake(context: &Context, subnet: &str) {
    for node in context.claims.take_waiting(subnet) {
        context.wake(&node);
    }
}

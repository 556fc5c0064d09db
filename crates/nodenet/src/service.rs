//! The allocator as a service: one process for several clusters on one address plan.
//!
//! Every caller shows a certificate, and acts for the cluster that is its Common Name; paths and
//! codes are in `docs/allocator.md`. Requests come in by `connections`, get what they are about
//! from `target`, and are answered by `containers`, `subnets` and `claims` over a
//! [`LocalAllocator`]; which subnets there are is in [`plan`].

mod body;
mod claims;
mod connections;
mod containers;
mod error;
mod metrics;
mod name;
pub mod plan;
mod subnets;
mod target;
mod turns;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use berth_kit::metrics::Metrics;
use berth_kit::tls::ServerTls;
use berth_ledger::Ledger;
use futures::future::BoxFuture;
use http::StatusCode;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use metrics::ServiceMetrics;
pub use name::SubnetName;
pub use plan::{AddressPlanError, PlanDocument, PlanFile, PlanStore};

use crate::allocator::local::LocalAllocator;
use connections::Connections;
use error::ServiceError;
use plan::Plans;
use turns::Turns;

/// How much one service does at once, and how long it waits.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request's body. Enough to give back all that a node can have.
    pub body: usize,
    pub connections: usize,
    /// Requests that are served; others wait.
    pub requests: usize,
    /// Requests that wait for what comes free; others are refused.
    pub waiters: usize,
    /// Time for TLS, and for the head of a request.
    pub handshake: Duration,
    pub body_timeout: Duration,
    /// Time for a request to get its place, and the same again to be served.
    pub request_timeout: Duration,
    /// Time for a request that waits for addresses to come free; then its caller asks again.
    pub wait: Duration,
    /// Time for what is under way when the service stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 4 << 20,
            connections: 1024,
            requests: 512,
            waiters: 4096,
            handshake: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(15),
            wait: Duration::from_secs(45),
            drain: Duration::from_secs(5),
        }
    }
}

/// A service that is open, but does not serve yet.
#[derive(Debug)]
pub struct Service {
    shared: Arc<Shared>,
}

/// What requests share.
#[derive(Debug)]
struct Shared {
    allocator: LocalAllocator,
    plans: Plans,
    turns: Arc<Turns>,
    requests: Arc<Semaphore>,
    waiters: Semaphore,
    limits: Limits,
    metrics: ServiceMetrics,
    /// What the ledger counts from 0 after each start is counted from here. So callers that waited
    /// before a restart find another number and look again. Microseconds, as nothing comes free
    /// more often than that.
    began: u64,
    stop: CancellationToken,
}

impl Service {
    /// Opens with all subnets of the plan. What clusters have may have been lost while no service
    /// ran, so clusters that own something must claim before they get more. `stop` ends requests
    /// that wait, and [`Service::serve`].
    pub fn open(
        ledger: Ledger,
        plan: Arc<dyn PlanStore>,
        metrics: &Metrics,
        limits: Limits,
        stop: CancellationToken,
    ) -> BoxFuture<'_, Result<Self, AddressPlanError>> {
        Box::pin(async move {
            let plans = Plans::open(ledger.clone(), plan).await?;
            ledger.require_claims_of_owners().await?;
            let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let shared = Shared {
                allocator: LocalAllocator::new(ledger),
                plans,
                turns: Arc::default(),
                requests: Arc::new(Semaphore::new(limits.requests)),
                waiters: Semaphore::new(limits.waiters),
                metrics: ServiceMetrics::register(metrics),
                began: u64::try_from(began.as_micros()).unwrap_or_default(),
                limits,
                stop,
            };
            Ok(Self {
                shared: Arc::new(shared),
            })
        })
    }

    pub fn serve(self, listener: TcpListener, tls: ServerTls) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let shared = self.shared;
            let connections = Connections {
                router: router(&shared),
                tls,
                limits: shared.limits.clone(),
                metrics: shared.metrics.clone(),
                stop: shared.stop.clone(),
            };
            tokio::select! {
                () = connections.serve(listener) => {}
                () = shared.plans.follow() => {}
            }
        })
    }
}

fn router(shared: &Arc<Shared>) -> Router {
    let subnet = get(subnets::get).put(subnets::set).delete(subnets::remove);
    let container = get(containers::get)
        .put(containers::create)
        .patch(containers::update)
        .delete(containers::delete);
    let claims = get(claims::generation).post(claims::restore).put(claims::open);
    let metrics = shared.metrics.clone();
    Router::new()
        .route("/networks/{network}/subnets", get(subnets::list))
        .route("/networks/{network}/subnets/{subnet}", subnet)
        .route("/networks/{network}/subnets/{subnet}/owners", get(subnets::owners))
        .route(
            "/networks/{network}/subnets/{subnet}/utilization",
            get(subnets::utilization),
        )
        .route("/networks/{network}/subnets/{subnet}/counts", get(subnets::counts))
        .route("/networks/{network}/subnets/{subnet}/freed", get(subnets::freed))
        .route("/networks/{network}/subnets/{subnet}/claims", claims)
        .route(
            "/networks/{network}/subnets/{subnet}/containers/{cluster}/{node}/{uid}",
            container,
        )
        .method_not_allowed_fallback(async || {
            ServiceError::no_operation(StatusCode::METHOD_NOT_ALLOWED)
        })
        .fallback(async || ServiceError::no_operation(StatusCode::NOT_FOUND))
        .with_state(Arc::clone(shared))
        .layer(from_fn_with_state(metrics, metrics::count))
}

impl Shared {
    /// Waits for a place among the requests that are served.
    async fn admit(&self) -> Result<OwnedSemaphorePermit, ServiceError> {
        let place = Arc::clone(&self.requests).acquire_owned();
        match tokio::time::timeout(self.limits.request_timeout, place).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(ServiceError::busy()),
        }
    }

    /// The result, if it comes in time. The work goes on in any case, and keeps its place until it
    /// ends.
    async fn outcome<T>(
        &self,
        served: JoinHandle<Result<T, ServiceError>>,
    ) -> Result<T, ServiceError> {
        match tokio::time::timeout(self.limits.request_timeout, served).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => Err(ServiceError::unavailable(error)),
            Err(_) => Err(ServiceError::unavailable(format_args!(
                "it was not done within {:?}",
                self.limits.request_timeout
            ))),
        }
    }

    /// What the ledger counts from its start, as callers see it.
    fn freed(&self, count: u64) -> u64 {
        self.began.saturating_add(count)
    }
}

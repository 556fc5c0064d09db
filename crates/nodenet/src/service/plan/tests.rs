use std::sync::Mutex;

use berth_ledger::store::MemoryStore;
use berth_ledger::{Clock, Kind, LedgerMetrics, Owner, PlanError};
use futures::FutureExt;
use uuid::Uuid;

use super::*;

/// A document that others write, too: what is in `faster` is written just before our next write,
/// and from `lessor` something is leased. With `broken` no write comes through.
#[derive(Debug, Default)]
struct Document {
    kept: Mutex<(u64, String)>,
    faster: Mutex<Option<String>>,
    lessor: Mutex<Option<Ledger>>,
    broken: Mutex<bool>,
}

impl Document {
    fn set(&self, text: &str) {
        let mut kept = self.kept.lock().unwrap();
        *kept = (kept.0 + 1, text.to_owned());
    }
}

impl PlanStore for Document {
    fn place(&self) -> String {
        "a test".to_owned()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn read(&self) -> BoxFuture<'_, Result<Kept, PlanStoreError>> {
        let (version, text) = self.kept.lock().unwrap().clone();
        async move { Ok(Kept { text, version }) }.boxed()
    }

    fn write<'a>(
        &'a self,
        text: &'a str,
        over: u64,
    ) -> BoxFuture<'a, Result<bool, PlanStoreError>> {
        if *self.broken.lock().unwrap() {
            let (place, why) = (self.place(), "it is full".to_owned());
            return async { Err(PlanStoreError { place, why }) }.boxed();
        }
        if let Some(faster) = self.faster.lock().unwrap().take() {
            self.set(&faster);
        }
        let lessor = self.lessor.lock().unwrap().take();
        async move {
            if let Some(lessor) = lessor {
                lease(&lessor).await;
            }
            let fits = self.kept.lock().unwrap().0 == over;
            if fits {
                self.set(text);
            }
            Ok(fits)
        }
        .boxed()
    }

    fn changed(&self, _seen: u64) -> BoxFuture<'_, ()> {
        futures::future::pending().boxed()
    }
}

fn name(text: &str) -> SubnetName {
    text.parse().unwrap()
}

/// Several CIDRs have spaces between them.
fn plan(cidrs: &str) -> SubnetPlan {
    let cidrs: Vec<&str> = cidrs.split(' ').collect();
    let wire = serde_json::json!({"cidrs": cidrs, "reuseDelayMilliseconds": 0});
    serde_json::from_value(wire).unwrap()
}

fn ledger(blocks: &MemoryStore) -> Ledger {
    let store = Arc::new(blocks.clone());
    Ledger::new(store, Clock::system(), LedgerMetrics::unregistered())
}

/// One unit of `n.pods`, the first that is free.
async fn lease(ledger: &Ledger) {
    let owner = Owner::new(Kind::Primary, "b", "node", "uid").unwrap();
    let granted = ledger.lease("n.pods", &owner, vec![Uuid::nil()], None).await;
    assert_eq!(granted.unwrap().short, 0);
}

async fn plans(document: &Arc<Document>) -> Plans {
    on(document, &MemoryStore::default()).await
}

/// A process that shares its blocks with others.
async fn on(document: &Arc<Document>, blocks: &MemoryStore) -> Plans {
    let store: Arc<dyn PlanStore> = Arc::clone(document) as _;
    Plans::open(ledger(blocks), store).await.unwrap()
}

async fn catch_up(plans: &Plans) -> Result<(), AddressPlanError> {
    plans.catch_up(&mut *plans.known.write().await).await.map(drop)
}

/// As a cluster writes it.
fn text(entries: &[(&str, &str, &str)]) -> String {
    let mut plans = AddressPlan::default();
    for (subnet, cluster, cidr) in entries {
        let entry = Planned {
            cluster: (*cluster).to_owned(),
            plan: plan(cidr),
        };
        plans.subnets.insert(name(subnet), entry);
    }
    serde_json::to_string(&plans).unwrap()
}

#[tokio::test]
async fn a_plan_that_cannot_be_kept_is_taken_back() {
    let document = Arc::new(Document::default());
    let plans = plans(&document).await;
    plans.set(&name("n.pods"), "a", &plan("10.0.0.0/24")).await.unwrap();

    *document.broken.lock().unwrap() = true;
    let refused = plans
        .set(&name("n.other"), "a", &plan("10.1.0.0/24"))
        .await
        .unwrap_err();
    assert!(matches!(refused, AddressPlanError::Store(_)), "{refused}");
    let refused = plans.set(&name("n.pods"), "a", &plan("10.2.0.0/24")).await.unwrap_err();
    assert!(matches!(refused, AddressPlanError::Store(_)), "{refused}");

    assert_eq!(plans.ledger.subnets().await, ["n.pods"]);
    *document.broken.lock().unwrap() = false;
    // The space is still that of the first plan.
    let overlap = plans
        .set(&name("n.third"), "a", &plan("10.0.0.0/25"))
        .await
        .unwrap_err();
    assert!(
        matches!(overlap, AddressPlanError::Ledger(LedgerError::Overlap { .. })),
        "{overlap}"
    );
}

#[tokio::test]
async fn a_plan_that_overlaps_a_concurrent_write_is_refused() {
    let document = Arc::new(Document::default());
    let plans = plans(&document).await;
    *document.faster.lock().unwrap() = Some(text(&[("n.theirs", "b", "10.0.0.0/16")]));
    let overlap = plans.set(&name("n.ours"), "a", &plan("10.0.1.0/24")).await.unwrap_err();
    assert!(
        matches!(overlap, AddressPlanError::Ledger(LedgerError::Overlap { .. })),
        "{overlap}"
    );
    assert_eq!(plans.ledger.subnets().await, ["n.theirs"]);
}

#[tokio::test]
async fn one_who_was_slower_goes_on_from_what_the_faster_one_made() {
    let document = Arc::new(Document::default());
    let plans = plans(&document).await;
    *document.faster.lock().unwrap() = Some(text(&[("n.theirs", "b", "10.0.0.0/16")]));
    plans.set(&name("n.ours"), "a", &plan("10.1.0.0/16")).await.unwrap();
    assert_eq!(plans.ledger.subnets().await, ["n.ours", "n.theirs"]);
    let kept = document.kept.lock().unwrap().1.clone();
    let both = text(&[("n.theirs", "b", "10.0.0.0/16"), ("n.ours", "a", "10.1.0.0/16")]);
    let read = |text: &str| serde_json::from_str::<AddressPlan>(text).unwrap();
    assert_eq!(read(&kept), read(&both));
}

#[tokio::test]
async fn a_subnet_that_another_process_removed_makes_room() {
    let document = Arc::new(Document::default());
    document.set(&text(&[("n.old", "a", "10.0.0.0/16")]));
    let plans = plans(&document).await;
    document.set(&text(&[("n.new", "b", "10.0.0.0/17")]));
    plans.set(&name("n.ours"), "a", &plan("10.0.128.0/17")).await.unwrap();
    assert_eq!(plans.ledger.subnets().await, ["n.new", "n.ours"]);
}

#[tokio::test]
async fn only_the_cluster_that_registered_a_subnet_can_change_it() {
    let document = Arc::new(Document::default());
    let plans = plans(&document).await;
    plans.set(&name("n.pods"), "a", &plan("10.0.0.0/24")).await.unwrap();
    plans.set(&name("n.pods"), "b", &plan("10.0.0.0/24")).await.unwrap();
    let refused = plans.set(&name("n.pods"), "b", &plan("10.0.0.0/16")).await.unwrap_err();
    assert!(
        matches!(&refused, AddressPlanError::RegisteredByAnother { maker, .. } if maker == "a"),
        "{refused}"
    );
    let refused = plans.remove(&name("n.pods"), "b").await.unwrap_err();
    assert!(
        matches!(refused, AddressPlanError::RegisteredByAnother { .. }),
        "{refused}"
    );
    plans.set(&name("n.pods"), "a", &plan("10.0.0.0/16")).await.unwrap();
    plans.remove(&name("n.pods"), "a").await.unwrap();
    assert_eq!(plans.ledger.subnets().await, [""; 0]);
}

#[tokio::test]
async fn a_document_that_cannot_be_read_is_no_empty_one() {
    let document = Arc::new(Document::default());
    document.set("{\"subnets\": {\"n.pods\": {");
    let store: Arc<dyn PlanStore> = document;
    let refused = Plans::open(ledger(&MemoryStore::default()), store).await.unwrap_err();
    assert!(matches!(refused, AddressPlanError::Store(_)), "{refused}");
}

#[tokio::test]
async fn a_cidr_that_moved_between_subnets_is_followed() {
    let document = Arc::new(Document::default());
    document.set(&text(&[("n.a", "c", "10.0.0.0/24"), ("n.b", "c", "10.1.0.0/24")]));
    let plans = plans(&document).await;
    // Two changes, seen as one: b took another, then a took what b had.
    let now = [("n.a", "c", "10.0.0.0/24 10.1.0.0/24"), ("n.b", "c", "10.2.0.0/24")];
    document.set(&text(&now));
    catch_up(&plans).await.unwrap();
    let settled = plans.settled().await;
    assert_eq!(settled.followed, settled.document);
}

#[tokio::test]
async fn swapped_cidrs_of_two_subnets_are_followed_and_leases_kept() {
    let document = Arc::new(Document::default());
    document.set(&text(&[
        ("n.other", "c", "10.1.0.0/24"),
        ("n.pods", "c", "10.9.0.0/24 10.0.0.0/24"),
    ]));
    let plans = plans(&document).await;
    lease(&plans.ledger).await;
    document.set(&text(&[
        ("n.other", "c", "10.0.0.0/24"),
        ("n.pods", "c", "10.9.0.0/24 10.1.0.0/24"),
    ]));
    catch_up(&plans).await.unwrap();
    let settled = plans.settled().await;
    assert_eq!(settled.followed, settled.document);
    assert_eq!(plans.ledger.owners("n.pods").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_subnet_that_cannot_be_followed_gives_nothing_and_others_do() {
    let document = Arc::new(Document::default());
    let before = text(&[("n.other", "c", "10.1.0.0/24"), ("n.pods", "c", "10.0.0.0/24")]);
    document.set(&before);
    let plans = plans(&document).await;
    lease(&plans.ledger).await;
    // Not as any of us writes it: somebody has something in what goes.
    document.set(&text(&[
        ("n.another", "c", "10.2.0.0/24"),
        ("n.other", "c", "10.1.0.0/24"),
        ("n.pods", "c", "10.3.0.0/24"),
    ]));
    let behind = catch_up(&plans).await.unwrap_err();
    assert!(
        matches!(&behind, AddressPlanError::Behind { name, .. } if name.key() == "n.pods"),
        "{behind}"
    );
    {
        let settled = plans.settled().await;
        assert!(settled.check(&name("n.pods")).is_err());
        assert!(settled.check(&name("n.other")).is_ok());
        assert!(settled.check(&name("n.another")).is_ok());
    }
    document.set(&before);
    catch_up(&plans).await.unwrap();
    assert!(plans.settled().await.check(&name("n.pods")).is_ok());
}

#[tokio::test]
async fn a_subnet_with_a_concurrent_lease_is_not_removed() {
    let (document, blocks) = (Arc::new(Document::default()), MemoryStore::default());
    document.set(&text(&[("n.pods", "a", "10.0.0.0/24")]));
    let (plans, other) = (on(&document, &blocks).await, on(&document, &blocks).await);
    *document.lessor.lock().unwrap() = Some(other.ledger.clone());
    let refused = plans.remove(&name("n.pods"), "a").await.unwrap_err();
    assert!(matches!(refused, AddressPlanError::NotEmpty { .. }), "{refused}");
    for process in [&plans, &other] {
        catch_up(process).await.unwrap();
        assert_eq!(process.ledger.subnets().await, ["n.pods"]);
    }
}

#[tokio::test]
async fn a_cidr_with_a_concurrent_lease_is_not_removed() {
    let (document, blocks) = (Arc::new(Document::default()), MemoryStore::default());
    document.set(&text(&[("n.pods", "a", "10.0.0.0/24 10.1.0.0/24")]));
    let (plans, other) = (on(&document, &blocks).await, on(&document, &blocks).await);
    *document.lessor.lock().unwrap() = Some(other.ledger.clone());
    let refused = plans.set(&name("n.pods"), "a", &plan("10.1.0.0/24")).await.unwrap_err();
    assert!(
        matches!(
            refused,
            AddressPlanError::Ledger(LedgerError::Plan(PlanError::InUse(_)))
        ),
        "{refused}"
    );
    for process in [&plans, &other] {
        catch_up(process).await.unwrap();
        let there = process.get(&name("n.pods")).await.unwrap();
        assert_eq!(there.plan, plan("10.0.0.0/24 10.1.0.0/24"));
        assert_eq!(process.ledger.owners("n.pods").await.unwrap().len(), 1);
    }
}

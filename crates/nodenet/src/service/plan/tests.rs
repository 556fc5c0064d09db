use std::sync::Mutex;

use berth_ledger::store::MemoryStore;
use berth_ledger::{Clock, LedgerMetrics};
use futures::FutureExt;

use super::*;

/// A document that others write, too: what is in `faster` is written just before our next write. With `broken` no write comes through.
#[derive(Debug, Default)]
struct Document {
    kept: Mutex<(u64, String)>,
    faster: Mutex<Option<String>>,
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

    fn read(&self) -> BoxFuture<'_, Result<Kept, PlanStoreError>> {
        let (version, text) = self.kept.lock().unwrap().clone();
        async move { Ok(Kept { text, version }) }.boxed()
    }

    fn write<'a>(&'a self, text: &'a str, over: u64) -> BoxFuture<'a, Result<bool, PlanStoreError>> {
        if *self.broken.lock().unwrap() {
            let (place, why) = (self.place(), "it is full".to_owned());
            return async { Err(PlanStoreError { place, why }) }.boxed();
        }
        if let Some(faster) = self.faster.lock().unwrap().take() {
            self.set(&faster);
        }
        let fits = self.kept.lock().unwrap().0 == over;
        if fits {
            self.set(text);
        }
        async move { Ok(fits) }.boxed()
    }

    fn changed(&self, _seen: u64) -> BoxFuture<'_, ()> {
        futures::future::pending().boxed()
    }
}

fn name(text: &str) -> SubnetName {
    text.parse().unwrap()
}

fn plan(cidr: &str) -> SubnetPlan {
    let wire = serde_json::json!({"cidrs": [cidr], "reuseDelayMilliseconds": 0});
    serde_json::from_value(wire).unwrap()
}

fn ledger() -> Ledger {
    let store = Arc::new(MemoryStore::default());
    Ledger::new(store, Clock::system(), LedgerMetrics::unregistered())
}

async fn plans(document: &Arc<Document>) -> Plans {
    let store: Arc<dyn PlanStore> = Arc::clone(document) as _;
    Plans::open(ledger(), store).await.unwrap()
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
    assert!(matches!(refused, PlanRefusal::Store(_)), "{refused}");
    let refused = plans.set(&name("n.pods"), "a", &plan("10.2.0.0/24")).await.unwrap_err();
    assert!(matches!(refused, PlanRefusal::Store(_)), "{refused}");

    assert_eq!(plans.ledger.subnets().await, ["n.pods"]);
    *document.broken.lock().unwrap() = false;
    // The space is still that of the first plan.
    let overlap = plans
        .set(&name("n.third"), "a", &plan("10.0.0.0/25"))
        .await
        .unwrap_err();
    assert!(
        matches!(overlap, PlanRefusal::Ledger(LedgerError::Overlap { .. })),
        "{overlap}"
    );
}

#[tokio::test]
async fn one_who_was_slower_sees_the_overlap_with_what_the_faster_one_made() {
    let document = Arc::new(Document::default());
    let plans = plans(&document).await;
    *document.faster.lock().unwrap() = Some(text(&[("n.theirs", "b", "10.0.0.0/16")]));
    let overlap = plans.set(&name("n.ours"), "a", &plan("10.0.1.0/24")).await.unwrap_err();
    assert!(
        matches!(overlap, PlanRefusal::Ledger(LedgerError::Overlap { .. })),
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
async fn a_subnet_is_changed_by_the_cluster_that_made_it_and_agreed_to_by_others() {
    let document = Arc::new(Document::default());
    let plans = plans(&document).await;
    plans.set(&name("n.pods"), "a", &plan("10.0.0.0/24")).await.unwrap();
    plans.set(&name("n.pods"), "b", &plan("10.0.0.0/24")).await.unwrap();
    let refused = plans.set(&name("n.pods"), "b", &plan("10.0.0.0/16")).await.unwrap_err();
    assert!(
        matches!(&refused, PlanRefusal::MadeByAnother { maker, .. } if maker == "a"),
        "{refused}"
    );
    let refused = plans.remove(&name("n.pods"), "b").await.unwrap_err();
    assert!(matches!(refused, PlanRefusal::MadeByAnother { .. }), "{refused}");
    plans.set(&name("n.pods"), "a", &plan("10.0.0.0/16")).await.unwrap();
    plans.remove(&name("n.pods"), "a").await.unwrap();
    assert_eq!(plans.ledger.subnets().await, [""; 0]);
}

#[tokio::test]
async fn a_document_that_cannot_be_read_is_no_empty_one() {
    let document = Arc::new(Document::default());
    document.set("{\"subnets\": {\"n.pods\": {");
    let store: Arc<dyn PlanStore> = document;
    let refused = Plans::open(ledger(), store).await.unwrap_err();
    assert!(matches!(refused, PlanRefusal::Store(_)), "{refused}");
}

//! The store in a Kubernetes API.

use std::sync::Arc;

use berth_api::AddressBlock;
use berth_api::address_block::{Offset, Owner};
use berth_ledger::store::{Change, KubernetesStore, Written};
use futures::StreamExt;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

use super::line::{self, Line};
use super::promises::{Pair, done, subnet_of};
use super::records;
use crate::servers;

async fn client() -> Client {
    Client::try_from(servers::config().await).unwrap()
}

async fn open(promise: &str) -> Pair {
    Pair {
        one: Arc::new(KubernetesStore::new(client().await)),
        other: Arc::new(KubernetesStore::new(client().await)),
        subnet: subnet_of(promise),
    }
}

every_promise!(open);

/// `one` by a line that can fail, `other` directly.
async fn on_a_line(test: &str) -> (Pair, Line) {
    let mut config = servers::config().await;
    let server = config.cluster_url.authority().unwrap().as_str().parse().unwrap();
    let line = Line::to(server, None).await;
    config.cluster_url = format!("https://{}", line.address).parse().unwrap();
    let pair = Pair {
        one: Arc::new(KubernetesStore::new(Client::try_from(config).unwrap())),
        ..open(test).await
    };
    (pair, line)
}

#[tokio::test]
async fn a_write_without_an_answer_is_unknown_and_can_be_there() {
    let (pair, line) = on_a_line("k_a_write_without_an_answer").await;
    line::a_write_without_an_answer_is_unknown(&pair, &line).await;
}

#[tokio::test]
async fn a_watch_that_broke_misses_nothing_or_says_so() {
    let (pair, line) = on_a_line("k_a_watch_that_broke").await;
    let mut changes = pair.one.watch(&pair.subnet).await.unwrap();
    line.cut();
    let first = done(&pair.other, pair.write(1, None, records::of("a"))).await;
    let is_lost = match changes.next().await.unwrap() {
        Change::Lost => true,
        Change::Written(stored) => stored.version != first,
        Change::Removed(..) => panic!("nothing was removed"),
    };
    let second = done(&pair.other, pair.write(1, Some(first), records::of("b"))).await;
    loop {
        match changes.next().await.unwrap() {
            Change::Written(stored) if stored.version == second => return,
            Change::Written(stored) => assert!(is_lost && stored.version == first),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_block_that_a_person_spoiled_is_an_error_that_names_it() {
    let pair = open("a_block_that_a_person_spoiled").await;
    let mut block = AddressBlock::empty(&pair.subnet, "10.0.1.0", "10.0.1.0/32".parse().unwrap());
    let owner = Owner {
        owner: "me".to_owned(),
        lease: "mine".to_owned(),
        since: None,
    };
    block.spec.owned.insert(Offset(3), owner);
    let blocks: Api<AddressBlock> = Api::all(client().await);
    blocks.create(&PostParams::default(), &block).await.unwrap();
    let error = pair.one.load(&pair.subnet).await.unwrap_err().to_string();
    assert!(
        error.contains(&format!("AddressBlock {}-10.0.1.0", pair.subnet)),
        "{error}"
    );
    assert!(error.contains("spec.owned.3.owner"), "{error}");
}

#[tokio::test]
async fn a_block_without_its_label_can_not_be_made_twice() {
    let pair = open("a_block_without_its_label").await;
    done(&pair.one, pair.write(1, None, records::of("a"))).await;
    let blocks: Api<AddressBlock> = Api::all(client().await);
    let mut block = blocks.get(&format!("{}-10.0.1.0", pair.subnet)).await.unwrap();
    block.labels_mut().clear();
    blocks
        .replace(&block.name_any(), &PostParams::default(), &block)
        .await
        .unwrap();
    assert_eq!(pair.one.load(&pair.subnet).await.unwrap(), []);

    let again = pair.write(1, None, records::of("b"));
    let key = again.key.clone();
    assert_eq!(pair.one.write(vec![again]).await, [Written::Conflict]);
    let found = pair.one.read(&key).await.unwrap().unwrap();
    // With the next write the label is back.
    done(&pair.one, pair.write(1, Some(found.version), records::of("b"))).await;
    assert_eq!(pair.one.load(&pair.subnet).await.unwrap().len(), 1);
}

//! The kubernetes store on the embedded API, which needs no server. What it does on a real one is
//! in `ledger_real`.

use std::sync::Arc;

use berth_apiserver::{Options, Server};
use berth_ledger::store::{Change, KubernetesStore, Store, Written};
use futures::StreamExt;

use super::promises::{Pair, done, subnet_of};
use super::{crds, records};

async fn open(promise: &str) -> Pair {
    on(promise, Options::default()).await
}

async fn on(promise: &str, options: Options) -> Pair {
    let server = Server::open(options).await.unwrap();
    crds::establish(server.client()).await;
    Pair {
        one: Arc::new(KubernetesStore::new(server.client())),
        other: Arc::new(KubernetesStore::new(server.client())),
        subnet: subnet_of(promise),
    }
}

every_promise!(open);

#[tokio::test]
async fn a_watch_that_fell_out_of_the_history_says_so_and_goes_on() {
    let options = Options {
        keep_events: 4,
        ..Options::default()
    };
    let pair = on("a_watch_that_fell_out_of_the_history", options).await;
    let mut changes = pair.one.watch(&pair.subnet).await.unwrap();
    let mut version = None;
    for round in 0..200 {
        let record = records::of(&format!("{round}"));
        version = Some(done(&pair.other, pair.write(1, version, record)).await);
    }
    while !matches!(changes.next().await.unwrap(), Change::Lost) {}
    let last = done(&pair.other, pair.write(1, version, records::of("last"))).await;
    match changes.next().await.unwrap() {
        Change::Written(stored) => assert_eq!(stored.version, last),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_without_the_crds_is_told_from_an_empty_one() {
    let server = Server::open(Options::default()).await.unwrap();
    let store = KubernetesStore::new(server.client());
    let pair = Pair {
        one: Arc::new(store.clone()),
        other: Arc::new(store.clone()),
        subnet: "pods".to_owned(),
    };
    let write = pair.write(1, None, records::of("a"));
    let errors = [
        store.load("pods").await.unwrap_err(),
        store.read(&write.key).await.unwrap_err(),
        store.subnets().await.unwrap_err(),
        store.watch("pods").await.err().unwrap(),
    ];
    for error in errors {
        assert!(error.to_string().contains("apply the CRDs"), "{error}");
    }
    let written = store.write(vec![write]).await;
    assert!(matches!(&written[..], [Written::Refused(_)]), "{written:?}");
}

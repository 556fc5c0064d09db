//! What the store promises, on both of its kinds.

use serde_json::{Value, json};

use super::*;

const TABLE: &str = "pods";

fn draft(name: &str, mark: u64) -> Draft {
    Draft::new(&mut json!({"metadata": {"name": name}, "mark": mark}))
}

async fn put(store: &Store, name: &str, change: Change) -> Result<Record, WriteError> {
    let write = Write {
        key: Key::new(TABLE, "ns", name),
        change,
        guard: None,
    };
    store.commit(write).await
}

fn mark(record: &Record) -> u64 {
    let object: Value = serde_json::from_slice(&record.body).unwrap();
    assert_eq!(object["metadata"]["resourceVersion"], record.version.to_string());
    object["mark"].as_u64().unwrap()
}

fn names(page: &Page) -> Vec<String> {
    page.records.iter().map(|((_, name), _)| name.to_string()).collect()
}

#[tokio::test]
async fn of_two_writers_with_the_same_version_one_loses() {
    let directory = tempfile::tempdir().unwrap();
    for store in [Store::in_memory(100), Store::open(directory.path(), 100).unwrap()] {
        let made = put(&store, "a", Change::Create(draft("a", 1))).await.unwrap();
        let again = put(&store, "a", Change::Create(draft("a", 2))).await;
        assert_eq!(again.unwrap_err(), WriteError::Exists);
        let both = tokio::join!(
            put(&store, "a", Change::Update(made.version, draft("a", 3))),
            put(&store, "a", Change::Update(made.version, draft("a", 4))),
        );
        let won = [&both.0, &both.1].into_iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(won, 1, "{both:?}");
    }
}

#[tokio::test]
async fn a_list_as_of_a_version_shows_what_stood_then() {
    let store = Store::in_memory(100);
    let a = put(&store, "a", Change::Create(draft("a", 1))).await.unwrap();
    let b = put(&store, "b", Change::Create(draft("b", 1))).await.unwrap();
    let then = store.version();
    put(&store, "a", Change::Delete(a.version, draft("a", 1)))
        .await
        .unwrap();
    put(&store, "b", Change::Update(b.version, draft("b", 2)))
        .await
        .unwrap();
    put(&store, "c", Change::Create(draft("c", 1))).await.unwrap();

    let past = store
        .list(
            TABLE,
            &Range {
                at: Some(then),
                ..Range::default()
            },
        )
        .unwrap();
    assert_eq!(names(&past), ["a", "b"]);
    assert_eq!(mark(&past.records[1].1), 1);
    let now = store.list(TABLE, &Range::default()).unwrap();
    assert_eq!(names(&now), ["b", "c"]);
    assert_eq!(mark(&now.records[0].1), 2);
}

#[tokio::test]
async fn pages_of_a_list_stay_at_one_version_despite_writes() {
    let store = Store::in_memory(100);
    for name in ["a", "b", "c", "d"] {
        put(&store, name, Change::Create(draft(name, 1))).await.unwrap();
    }
    let first = store
        .list(
            TABLE,
            &Range {
                limit: Some(2),
                ..Range::default()
            },
        )
        .unwrap();
    assert_eq!(
        (names(&first), first.remaining),
        (vec!["a".to_owned(), "b".to_owned()], 2)
    );
    let c = store.get(&Key::new(TABLE, "ns", "c")).unwrap();
    put(&store, "c", Change::Delete(c.version, draft("c", 1)))
        .await
        .unwrap();
    put(&store, "bb", Change::Create(draft("bb", 1))).await.unwrap();
    let range = Range {
        at: Some(first.version),
        after: first.records.last().map(|(place, _)| place.clone()),
        ..Range::default()
    };
    assert_eq!(names(&store.list(TABLE, &range).unwrap()), ["c", "d"]);
}

#[tokio::test]
async fn the_past_ends_where_the_history_ends() {
    let store = Store::in_memory(2);
    let start = store.version();
    for name in ["a", "b", "c"] {
        put(&store, name, Change::Create(draft(name, 1))).await.unwrap();
    }
    assert!(store.since(TABLE, start, 10).is_err());
    assert_eq!(store.since(TABLE, start + 1, 10).unwrap().events.len(), 2);
    assert!(
        store
            .list(
                TABLE,
                &Range {
                    at: Some(start),
                    ..Range::default()
                }
            )
            .is_err()
    );
}

#[tokio::test]
async fn a_table_that_is_first_used_late_has_its_whole_past() {
    let store = Store::in_memory(10);
    let start = store.version();
    put(&store, "a", Change::Create(draft("a", 1))).await.unwrap();
    assert!(store.since("nodes", start, 10).unwrap().events.is_empty());
    drop(store.subscribe("nodes"));
    assert!(store.since("nodes", start, 10).is_ok());
}

#[tokio::test]
async fn committed_objects_survive_a_restart_and_history_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let version = {
        let store = Store::open(directory.path(), 100).unwrap();
        let many = (0..50).map(|n| {
            let store = store.clone();
            async move {
                put(&store, &format!("p{n:02}"), Change::Create(draft("p", n)))
                    .await
                    .unwrap()
            }
        });
        let made = futures::future::join_all(many).await;
        put(&store, "p00", Change::Delete(made[0].version, draft("p", 0)))
            .await
            .unwrap();
        store.wait_for_commits().await;
        store.version()
    };
    let store = Store::open(directory.path(), 100).unwrap();
    assert_eq!(store.version(), version);
    let page = store.list(TABLE, &Range::default()).unwrap();
    assert_eq!(page.records.len(), 49);
    assert_eq!(mark(&page.records[0].1), 1);
    assert!(store.since(TABLE, version, 10).unwrap().events.is_empty());
    assert!(store.since(TABLE, version - 1, 10).is_err());
}

#[tokio::test]
async fn a_directory_has_one_owner() {
    let directory = tempfile::tempdir().unwrap();
    let _store = Store::open(directory.path(), 100).unwrap();
    let second = Store::open(directory.path(), 100);
    assert!(matches!(second.unwrap_err(), OpenError::InUse(_)));
}

#[test]
fn a_damaged_file_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("objects.redb");
    let junk = vec![7u8; 8192];
    std::fs::write(&path, &junk).unwrap();
    let error = Store::open(directory.path(), 100).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), junk);
}

#[tokio::test]
async fn a_namespace_that_holds_objects_cannot_be_deleted() {
    let store = Store::in_memory(100);
    let namespace = Key::new(Store::NAMESPACES, "", "ns");
    let create = |key: &Key, guard| Write {
        key: key.clone(),
        change: Change::Create(draft("x", 1)),
        guard,
    };
    let pod = Key::new(TABLE, "ns", "a");
    let exists = Some(Guard::NamespaceExists("ns".into()));
    let refused = store.commit(create(&pod, exists.clone())).await;
    assert_eq!(refused.unwrap_err(), WriteError::NoNamespace);
    let made = store.commit(create(&namespace, None)).await.unwrap();
    store.commit(create(&pod, exists)).await.unwrap();
    let gone = Write {
        key: namespace,
        change: Change::Delete(made.version, draft("ns", 1)),
        guard: Some(Guard::NamespaceEmpty("ns".into())),
    };
    assert_eq!(store.commit(gone).await.unwrap_err(), WriteError::NotEmpty);
}

mod kept;

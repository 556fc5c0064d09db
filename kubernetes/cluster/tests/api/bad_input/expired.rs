//! What is older than the history. How long a history is depends on the server, so this asks one of
//! its own, with a short one.

use std::time::Duration;

use berth_apiserver::{Options, Server};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};

async fn forgetful_server() -> (Server, Api<ConfigMap>) {
    let options = Options {
        keep_events: 4,
        ..Options::default()
    };
    let server = Server::open(options).await.unwrap();
    let maps = Api::default_namespaced(server.client());
    (server, maps)
}

async fn create(maps: &Api<ConfigMap>, names: &[&str]) {
    for name in names {
        let mut map = ConfigMap::default();
        map.metadata.name = Some((*name).to_owned());
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
}

#[tokio::test]
async fn an_expired_continue_token_returns_410_with_a_new_token() {
    let (_server, maps) = forgetful_server().await;
    create(&maps, &["a", "b", "c"]).await;
    let first = maps.list(&ListParams::default().limit(1)).await.unwrap();
    create(&maps, &["d", "e", "f", "g", "h", "i"]).await;
    let token = first.metadata.continue_.unwrap();
    let error = maps
        .list(&ListParams::default().limit(1).continue_token(&token))
        .await
        .unwrap_err();
    let kube::Error::Api(status) = error else {
        panic!("{error}");
    };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    // The new token gives up consistency, not the place.
    let token = status.metadata.and_then(|metadata| metadata.continue_).unwrap();
    let rest = maps.list(&ListParams::default().continue_token(&token)).await.unwrap();
    let names: Vec<String> = rest.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["b", "c", "d", "e", "f", "g", "h", "i"]);
}

#[tokio::test]
async fn a_watch_from_before_the_history_ends_with_410() {
    let (_server, maps) = forgetful_server().await;
    create(&maps, &["a", "b", "c", "d", "e", "f", "g"]).await;
    let events = maps.watch(&WatchParams::default(), "1").await.unwrap();
    let events = tokio::time::timeout(Duration::from_secs(60), events.boxed().try_next())
        .await
        .unwrap();
    let Some(WatchEvent::Error(status)) = events.unwrap() else {
        panic!("no error");
    };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
}

#[tokio::test]
async fn a_list_as_of_an_expired_version_is_gone() {
    let (_server, maps) = forgetful_server().await;
    create(&maps, &["a", "b", "c", "d", "e", "f", "g"]).await;
    let old = ListParams::default().at("2").matching(kube::api::VersionMatch::Exact);
    let error = maps.list(&old).await.unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 410),
        "{error}"
    );
}

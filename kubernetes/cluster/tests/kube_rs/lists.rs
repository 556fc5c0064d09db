//! Lists in pages and as of a version.

use futures::{StreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, ListParams, VersionMatch};

use crate::space::{Space, in_space, names, version};

async fn fill(space: &Space, count: usize) {
    let made = (0..count).map(async |number| space.lease(&format!("lease-{number:03}")).await);
    stream::iter(made).buffer_unordered(16).collect::<Vec<_>>().await;
}

#[test]
fn pages_are_one_snapshot_while_writes_go_on() {
    const COUNT: usize = 60;
    in_space(async |space| {
        fill(&space, COUNT).await;
        let leases = space.api::<Lease>();
        let whole = leases.list(&ListParams::default()).await.unwrap();
        let expected: Vec<_> = whole.iter().map(version).collect();

        let mut params = ListParams::default().limit(7);
        let mut seen = Vec::new();
        let mut versions = Vec::new();
        loop {
            let page = leases.list(&params).await.unwrap();
            seen.extend(page.iter().map(version));
            versions.push(page.metadata.resource_version);
            let Some(token) = page.metadata.continue_.filter(|token| !token.is_empty()) else {
                assert_eq!(page.metadata.remaining_item_count, None);
                break;
            };
            let remaining = i64::try_from(COUNT - seen.len()).unwrap();
            assert_eq!(page.metadata.remaining_item_count, Some(remaining));
            // Behind, at and before the place where the next page begins.
            let step = seen.len();
            space.lease(&format!("lease-{:03}-late", step + 1)).await;
            space.label(&format!("lease-{step:03}"), "late", Some("yes")).await;
            for late in [step - 7, step + 2] {
                let name = format!("lease-{late:03}");
                drop(leases.delete(&name, &DeleteParams::default()).await);
            }
            params = params.continue_token(&token);
        }
        assert_eq!(seen, expected);
        versions.dedup();
        assert_eq!(versions.len(), 1, "every page has the version of the first");
        let now = leases.list(&ListParams::default()).await.unwrap();
        assert_ne!(names(now), names(whole), "the writes did go on");
    });
}

#[test]
fn a_list_at_an_exact_version_shows_what_was_there_then() {
    in_space(async |space| {
        fill(&space, 3).await;
        let leases = space.api::<Lease>();
        let then = leases.list(&ListParams::default()).await.unwrap();
        let at = then.metadata.resource_version.clone().unwrap();
        space.label("lease-000", "late", Some("yes")).await;
        leases.delete("lease-001", &DeleteParams::default()).await.unwrap();
        let last = space.lease("lease-003").await;

        let exact = ListParams::default().at(&at).matching(VersionMatch::Exact);
        let exact = leases.list(&exact).await.unwrap();
        assert_eq!(exact.items, then.items);
        assert_eq!(exact.metadata.resource_version.as_deref(), Some(at.as_str()));
        let newer = ListParams::default().at(&at).matching(VersionMatch::NotOlderThan);
        let newer = leases.list(&newer).await.unwrap();
        assert!(
            newer.metadata.resource_version.unwrap().parse::<u64>().unwrap() >= at.parse().unwrap()
        );
        let latest = ListParams::default().at(&version(&last).to_string());
        let latest = leases.list(&latest.matching(VersionMatch::NotOlderThan)).await.unwrap();
        assert_eq!(names(latest), ["lease-000", "lease-002", "lease-003"]);
    });
}

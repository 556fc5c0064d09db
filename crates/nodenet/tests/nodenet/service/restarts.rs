//! What is left when the service ends and begins again, or when answers are lost.

use std::sync::Arc;
use std::time::Duration;

use berth_nodenet::allocator::{Allocator, AllocatorError, Registry, Update};
use berth_nodenet::service::Limits;
use futures::future::join_all;

use super::gate::Gate;
use super::raw::ask;
use super::world::{CLUSTER, World, claim, node, of, plan, request};

async fn world() -> World {
    let world = World::start().await;
    let client = world.client(CLUSTER);
    client
        .set_subnet("pods", &plan(&["10.64.0.0/24"]), Duration::ZERO)
        .await
        .unwrap();
    world
}

#[tokio::test]
async fn subnets_and_containers_are_known_right_after_a_restart() {
    let mut world = world().await;
    let client = world.client(CLUSTER);
    client.create("pods", &node("a")).await.unwrap();
    let before = client.update("pods", &node("a"), request(1, 16)).await.unwrap();
    world.stop().await;
    world.start_again().await;
    let pair = world.authority.client(CLUSTER);
    let (code, utilization) =
        ask(&world, &pair, "GET", "/networks/prod/subnets/pods/utilization", "").await;
    assert_eq!((code, &utilization[0]["reserved"]), (200, &17.into()));
    assert_eq!(client.get("pods", &node("a")).await.unwrap(), Some(before));
}

#[tokio::test]
async fn a_repeated_update_after_a_restart_leases_nothing_more() {
    let mut world = world().await;
    let client = world.client(CLUSTER);
    client.create("pods", &node("a")).await.unwrap();
    let before = client.update("pods", &node("a"), request(1, 16)).await.unwrap();
    world.stop().await;
    world.start_again().await;
    claim(&client, "pods").await;
    let after = client.update("pods", &node("a"), request(1, 16)).await.unwrap();
    assert_eq!(before, after);
}

#[tokio::test]
async fn after_a_restart_a_cluster_gets_nothing_before_it_has_claimed() {
    let mut world = world().await;
    let client = world.client(CLUSTER);
    let others = plan(&["10.65.0.0/24"]);
    client.set_subnet("others", &others, Duration::ZERO).await.unwrap();
    let before = client.create("pods", &node("a")).await.unwrap();
    world.stop().await;
    world.start_again().await;
    // Also where it has nothing: that may be because it was lost.
    for subnet in ["pods", "others"] {
        let unclaimed = AllocatorError::Unclaimed {
            subnet: subnet.to_owned(),
        };
        let refused = client.create(subnet, &node("b")).await.unwrap_err();
        assert_eq!(refused, unclaimed);
        claim(&client, subnet).await;
        client.create(subnet, &node("b")).await.unwrap();
    }
    assert_eq!(client.get("pods", &node("a")).await.unwrap(), Some(before));
}

#[tokio::test]
async fn a_cluster_without_leases_is_served_at_once_after_restart() {
    let mut world = world().await;
    world.client(CLUSTER).create("pods", &node("a")).await.unwrap();
    world.stop().await;
    world.start_again().await;
    let green = world.client("green");
    green.create("pods", &of("green", "a")).await.unwrap();
}

#[tokio::test]
async fn a_wait_for_free_addresses_returns_after_a_restart() {
    let mut world = world().await;
    let client = world.client(CLUSTER);
    client.create("pods", &node("a")).await.unwrap();
    let seen = client.counts("pods").await.unwrap().freed;
    let waiter = client.clone();
    let waiting = tokio::spawn(async move { waiter.freed("pods", seen).await });
    world.stop().await;
    world.start_again().await;
    let seen = waiting.await.unwrap().unwrap();
    let waiter = client.clone();
    let waiting = tokio::spawn(async move { waiter.freed("pods", seen).await });
    client.delete("pods", &node("a")).await.unwrap();
    assert_ne!(waiting.await.unwrap().unwrap(), seen);
}

#[tokio::test]
async fn a_request_that_waits_does_not_hold_up_the_stop() {
    let mut world = world().await;
    let client = Arc::new(world.client(CLUSTER));
    let seen = client.counts("pods").await.unwrap().freed;
    let waiter = Arc::clone(&client);
    let waiting = tokio::spawn(async move { waiter.freed("pods", seen).await });
    world.stop().await;
    waiting.abort();
}

#[tokio::test]
async fn requests_for_one_container_are_served_one_after_the_other() {
    let world = world().await;
    let clients = [world.client(CLUSTER), world.client(CLUSTER)];
    clients[0].create("pods", &node("a")).await.unwrap();
    let a = node("a");
    let updates = (0..32_u8).map(|number| {
        let client = &clients[usize::from(number % 2)];
        client.update("pods", &a, request(number.into(), 16))
    });
    for updated in join_all(updates).await {
        assert_eq!(updated.unwrap().secondaries.len(), 16);
    }
    let found = clients[1].get("pods", &node("a")).await.unwrap().unwrap();
    assert_eq!(found.secondaries.len(), 16);
}

#[tokio::test]
async fn a_request_is_served_to_its_end_when_its_caller_has_gone() {
    let gate = Gate::default();
    let world = World::over(Arc::new(gate.clone()), Limits::default()).await;
    let client = world.client(CLUSTER);
    client
        .set_subnet("pods", &plan(&["10.64.0.0/24"]), Duration::ZERO)
        .await
        .unwrap();
    client.create("pods", &node("a")).await.unwrap();
    let before = client.update("pods", &node("a"), request(1, 8)).await.unwrap();

    // The lease that is given back is a write of its own, before that of the new ones.
    gate.close();
    let update = Update {
        give_back: vec![before.secondaries[0].id],
        ..request(2, 8)
    };
    let a = node("a");
    tokio::select! {
        _ = client.update("pods", &a, update) => panic!("it was answered before it was written"),
        () = gate.reached() => {}
    }
    // On the same connection: when this is answered, the service has heard that nobody waits for
    // the other.
    client.counts("pods").await.unwrap();
    gate.open();
    let found = client.get("pods", &a).await.unwrap().unwrap();
    assert_eq!(found.secondaries.len(), 8);
    assert!(
        found
            .secondaries
            .iter()
            .all(|lease| lease.id != before.secondaries[0].id)
    );
}

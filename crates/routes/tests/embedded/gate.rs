//! The feature gate, switched at any time.

use std::sync::Arc;
use std::time::Duration;

use berth_routes::controller::Options;
use parking_lot::Mutex;

use crate::faulty::Fate;
use crate::play;
use crate::scene::{Scene, settle};

fn polling(scene: &Scene) -> Options {
    Options {
        watch_based: false,
        ..scene.options()
    }
}

#[test]
fn an_idle_hour_of_polling_costs_360_lists() {
    play(async |scene| {
        let controller = scene.start_with(polling(&scene));
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        scene.routed("10.120.0.0/24", "10.0.0.1").await;
        settle().await;
        let before = scene.backend.lists();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(scene.backend.lists() - before, 360);
        controller.stop().await;
    });
}

#[test]
fn on_off_on_without_a_route_missing_in_between() {
    play(async |scene| {
        for number in 0..20 {
            let cidr = format!("10.120.{number}.0/24");
            scene
                .node(&format!("n{number}"), &[&cidr], &format!("10.0.0.{number}"))
                .await;
        }
        let deleted = Arc::new(Mutex::new(Vec::new()));
        let seen = deleted.clone();
        scene.backend.on_change(move |change| {
            if !change.delete.is_empty() {
                seen.lock().push(change.clone());
            }
            Fate::Done
        });
        for (round, options) in [scene.options(), polling(&scene), scene.options()]
            .into_iter()
            .enumerate()
        {
            let controller = scene.start_with(options);
            let late = format!("10.121.{round}.0/24");
            let address = format!("10.0.1.{round}");
            scene
                .node(&format!("late{round}"), &[&late], &address)
                .await;
            scene.routed(&late, &address).await;
            settle().await;
            controller.stop().await;
        }
        assert_eq!(scene.routes().len(), 23);
        assert_eq!(*deleted.lock(), []);
    });
}

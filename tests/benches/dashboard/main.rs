//! `cargo xtask bench dashboard`: 5,000 nodes with a million addresses on a real kube-apiserver,
//! and `berth dashboard` in a real Chromium: how soon the page shows something, how soon it shows a
//! change, and how much memory the server takes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a benchmark that can't measure ends with the reason"
)]

mod feed;
mod page;

use berth_e2e::{Scene, install};
use berth_testbed::{Builder, Figures, Programs, Storage};
use serde_json::json;

use page::Page;

#[tokio::main]
async fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    if let Err(error) = Programs::find() {
        eprintln!(
            "kube-apiserver is not available here, and there is nothing to measure without \
             it: {error:#}"
        );
        return;
    }
    // Without the cluster's own controllers: they would write to nodes that have no kubelet.
    let durable = |cluster: Builder<'static>| {
        cluster
            .without_controllers()
            .storage(Storage::Durable)
            .api_flag("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
    };
    let scene = Scene::open("bench-dashboard", durable).await.unwrap();
    install(&scene, &json!({"cidrs": [feed::CIDR]})).await.unwrap();
    let addresses = feed::fill(&scene.client).await;
    let mut figures = Figures::default();
    figures.count("nodes", feed::NODES as f64);
    figures.count("addresses", addresses as f64);
    let mut page = Page::start(&scene);
    page.measure_paint(&mut figures);
    page.measure_updates(&scene.client, &mut figures).await;
    page.measure_memory(&mut figures);
    figures.print(json);
}

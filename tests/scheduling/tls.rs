//! The extender over TLS, with certificates that are replaced while it serves.

use berth_e2e::Scene;

use crate::certificates::Authority;
use crate::relay::Relay;
use crate::site::{
    Extender, create, failed_scheduling, pod, pods, start_scheduler_over_tls, until,
};

/// Runs on nodes without pods. Each kube-scheduler trusts only the authority that signed its own
/// certificate. Which of them is served tells which certificate the extender shows, and which
/// callers it accepts.
pub async fn phase(scene: &Scene, flags: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::make("old"), Authority::make("new"));
    let at = |name: &str| directory.path().join(name);
    old.write_server(&at("server"));
    old.write_client(&at("old"));
    new.write_client(&at("new"));
    let mut extender = Extender::start_over_tls(scene, "over-tls", &at("server"), flags);
    extender.ready(scene).await;
    let relay = Relay::start().await;
    relay.lead_to(extender.address());
    let url = format!("https://127.0.0.1:{}", relay.port);
    let _old = start_scheduler_over_tls(scene, "old", &url, &at("old"));
    let _new = start_scheduler_over_tls(scene, "new", &url, &at("new"));

    create(scene, pod("old-1", "old")).await;
    until(scene, "it is bound over TLS", |count| count.bound() == 1).await;
    create(scene, pod("new-1", "new")).await;
    let said = failed_scheduling(scene, "new-1").await;
    assert!(said.contains("certificate"), "{said}");

    new.write_server(&at("server"));
    until(scene, "the new certificate serves", |count| count.bound() == 2).await;
    assert!(extender.is_ready().unwrap(), "it is the same process");

    // An open connection goes on. A new one with a certificate of the old authority is refused.
    relay.hang_up();
    create(scene, pod("old-2", "old")).await;
    let said = failed_scheduling(scene, "old-2").await;
    assert!(said.contains("certificate"), "{said}");
    create(scene, pod("new-2", "new")).await;
    until(scene, "the others are served", |count| count.bound() == 3).await;
    let refused = pods(scene).get("old-2").await.unwrap().spec.unwrap();
    assert_eq!(refused.node_name, None);
    extender.stop();
}

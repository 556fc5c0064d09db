//! What an agent that has lost its journal learns from the host's ends of pods' interfaces.

use std::net::IpAddr;
use std::process::Command;

use berth_testkit::Namespace;

use super::serving::Serving;
use crate::call::{CNI, Call, cni_conf};

const WITHIN: &str = "BERTH_TEST_HOST_ENDS";

/// Once more in the namespace that is the host's here: who looks must be in it.
#[test]
fn every_interface_of_a_pod_is_known_with_its_addresses() {
    if std::env::var_os(WITHIN).is_some() {
        for (attachment, addresses) in berth_agent::host_ends::observed().unwrap() {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            println!("host end: {attachment} {}", addresses.join(" "));
        }
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (host, pod) = (Namespace::new(), Namespace::new());
    host.ip("link set lo up");
    let serving = Serving::start(directory.path(), 3);
    for interface in ["eth0", "net1"] {
        let call = Call::new(CNI, "ADD").by(&["ip", "netns", "exec", host.name()]);
        let call = call.set("CNI_NETNS", &pod.path()).set("CNI_IFNAME", interface);
        call.run(&cni_conf(directory.path())).result();
        // Its default route is in the way of a second one, as with any two networks of a pod.
        pod.ip("route delete default");
        pod.ip("-6 route delete default");
    }
    let mut looking = Command::new("ip");
    looking
        .args(["netns", "exec", host.name()])
        .arg(std::env::current_exe().unwrap());
    looking.args([
        "--nocapture",
        "--exact",
        "agent::host_ends::every_interface_of_a_pod_is_known_with_its_addresses",
    ]);
    let output = looking.env(WITHIN, "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let held = serving.agent.holdings();
    assert_eq!(held.len(), 2);
    for (attachment, holding) in held {
        let addresses: Vec<IpAddr> = holding.held.iter().map(|held| held.address).collect();
        let line = said
            .lines()
            .find(|line| line.contains(&format!("host end: {attachment} ")));
        let line = line.unwrap_or_else(|| panic!("{attachment} is not in: {said}"));
        assert!(
            addresses.iter().all(|address| line.contains(&address.to_string())),
            "{line}"
        );
    }
}

//! What the documents say, without the tools that read them: those are in
//! `tests/documents_real.rs`.

use super::*;

const SEED: &str = r#"
apiVersion: "machine.k8s.io/v1alpha1"
kind: Machine
metadata:
  name: machine1
spec:
  metadata:
    name: node1
  providerConfig:
    network:
      ip: "192.168.1.129"
      netmask: "255.255.255.128"
      gateway: "192.168.1.1"
      dns:
        servers:
        - "192.168.1.1"
"#;

const DHCP: &str =
    "apiVersion: machine.k8s.io/v1alpha1\nkind: Machine\nmetadata: {name: m}\nspec: {}\n";

fn rendered(yaml: &str, os: Os) -> String {
    document(&Machine::parse(yaml).unwrap(), os).unwrap()
}

/// What an Ignition document brings, by path.
fn file_of(document: &str, path: &str) -> String {
    use base64::Engine;
    let config: serde_json::Value = serde_json::from_str(document).unwrap();
    let files = config["storage"]["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == path).unwrap();
    let source = file["contents"]["source"].as_str().unwrap();
    let data = source.strip_prefix("data:;base64,").unwrap();
    let data = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
    String::from_utf8(data).unwrap()
}

#[test]
fn configuration_for_ubuntu() {
    let text = rendered(SEED, Os::Ubuntu);
    assert!(text.starts_with("#cloud-config\n"), "{text}");
    for part in [
        "192.168.1.129/25",
        "on-link: true",
        "dhcp4: false",
        "hostname: node1",
        "config: disabled",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn configuration_for_centos() {
    let text = rendered(SEED, Os::CentOs);
    for part in [
        "method=manual",
        "address1=192.168.1.129/25",
        "route1=192.168.1.1/32",
        "gateway=192.168.1.1",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = rendered(SEED, Os::CentOs7);
    for part in [
        "BOOTPROTO=none",
        "IPADDR=192.168.1.129",
        "PREFIX=25",
        "default via 192.168.1.1 dev eth0",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn configuration_for_coreos() {
    let text = rendered(SEED, Os::CoreOs);
    let keyfile = file_of(&text, "/etc/NetworkManager/system-connections/berth.nmconnection");
    assert!(keyfile.contains("address1=192.168.1.129/25"), "{keyfile}");
    assert_eq!(file_of(&text, "/etc/hostname"), "node1\n");
    let text = rendered(SEED, Os::Flatcar);
    let unit = file_of(&text, "/etc/systemd/network/00-berth.network");
    assert!(unit.contains("GatewayOnLink=yes") && unit.contains("DHCP=no"), "{unit}");
}

#[test]
fn without_a_network_nothing_is_said_about_it() {
    for os in Os::ALL {
        let text = rendered(DHCP, os);
        for word in ["network", "netplan", "NetworkManager", "dhcp"] {
            assert!(!text.contains(word), "{os}: {text}");
        }
    }
}

#[test]
fn an_unknown_system_is_told_the_known_ones() {
    let error = "windows".parse::<Os>().unwrap_err().to_string();
    assert!(error.contains("ubuntu, centos, centos7, coreos, flatcar"), "{error}");
}

#[test]
fn a_network_that_is_wrong_and_another_kind_are_refused() {
    let wrong = SEED.replace("192.168.1.129", "192.168.1.300");
    let error = document(&Machine::parse(&wrong).unwrap(), Os::Ubuntu).unwrap_err();
    assert!(
        error.to_string().starts_with("spec.providerConfig.network.ip: "),
        "{error}"
    );
    let error = Machine::parse(&SEED.replace("kind: Machine", "kind: Pod")).unwrap_err();
    assert!(error.to_string().contains("machine.k8s.io/v1alpha1 Pod"), "{error}");
    assert!(Machine::parse("a: [").is_err());
    let error =
        document(&Machine::parse(&SEED.replace("node1", "a_b")).unwrap(), Os::Flatcar).unwrap_err();
    assert!(error.to_string().contains("\"a_b\""), "{error}");
}

#[test]
fn keys_that_may_log_in_are_handed_on() {
    let machine = DHCP.replace(
        "spec: {}",
        "spec: {providerConfig: {sshPublicKeys: [ssh-ed25519 AAAA me]}}",
    );
    for os in Os::ALL {
        assert!(rendered(&machine, os).contains("ssh-ed25519 AAAA me"), "{os}");
    }
}

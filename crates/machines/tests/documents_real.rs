//! The documents, read by the tools that read them on machines: netplan, cloud-init, Ignition's
//! validator, systemd-networkd in a network of its own, and NetworkManager's reader where there is
//! one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "documents_real/tools.rs"]
mod tools;

use berth_machines::machine::Machine;
use berth_machines::render::{Os, document, netplan};
use serde_json::{Value, json};

use tools::{Root, cloud_init_accepts, convert, ignition_accepts, network_manager, networkd};

/// As in the seed: the gateway is outside of the network.
fn seed() -> Value {
    json!({
        "ip": "192.168.1.129", "netmask": "255.255.255.128", "gateway": "192.168.1.1",
        "dns": {"servers": ["192.168.1.1"]},
    })
}

fn both_families() -> Value {
    json!({
        "addresses": [
            {"cidr": "10.0.0.5/24", "gateway": "10.0.0.1"},
            {"cidr": "fd00::5/64", "gateway": "fd01::1"},
        ],
        "dns": {"servers": ["10.0.0.53", "10.0.0.54", "fd00::53"], "search": ["example.com", "lab.example.com"]},
    })
}

fn by_mac() -> Value {
    json!({"cidr": "fd00::5/64", "gateway": "fd00::1", "macAddress": "00:50:56:00:00:01"})
}

fn by_name() -> Value {
    json!({"cidr": "10.0.0.4/31", "gateway": "10.0.0.5", "interface": "ens192"})
}

fn all() -> [Value; 4] {
    [seed(), both_families(), by_mac(), by_name()]
}

fn machine(network: &Value) -> Machine {
    let value = json!({
        "apiVersion": "machine.k8s.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": "m1"},
        "spec": {"metadata": {"name": "node1"}, "providerConfig": {
            "sshPublicKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1 somebody"],
            "network": network,
        }},
    });
    Machine::parse(&value.to_string()).unwrap()
}

fn rendered(network: &Value, os: Os) -> String {
    document(&machine(network), os).unwrap()
}

#[test]
fn cloud_init_takes_the_documents_for_ubuntu_and_centos() {
    for os in [Os::Ubuntu, Os::CentOs, Os::CentOs7] {
        for network in all() {
            cloud_init_accepts(&rendered(&network, os));
        }
        cloud_init_accepts(&rendered(&Value::Null, os));
    }
}

#[test]
fn netplan_makes_of_it_a_static_network_with_an_on_link_route() {
    let unit = Root::written_by(&rendered(&seed(), Os::Ubuntu)).netplan_generate();
    for line in [
        "Address=192.168.1.129/25",
        "Gateway=192.168.1.1",
        "GatewayOnLink=true",
        "DNS=192.168.1.1",
        "IPv6AcceptRA=no",
    ] {
        assert!(unit.contains(line), "{line}: {unit}");
    }
    assert!(!unit.contains("DHCP=y"), "{unit}");
}

#[test]
fn netplan_takes_every_kind_of_network() {
    let unit = Root::written_by(&rendered(&both_families(), Os::Ubuntu)).netplan_generate();
    for line in [
        "Address=10.0.0.5/24",
        "Address=fd00::5/64",
        "Gateway=fd01::1",
        "Domains=example.com lab.example.com",
        "DNS=fd00::53",
    ] {
        assert!(unit.contains(line), "{line}: {unit}");
    }
    assert_eq!(unit.matches("GatewayOnLink=true").count(), 1, "{unit}");
    let unit = Root::written_by(&rendered(&by_mac(), Os::Ubuntu)).netplan_generate();
    assert!(unit.contains("00:50:56:00:00:01"), "{unit}");
    let unit = Root::written_by(&rendered(&by_name(), Os::Ubuntu)).netplan_generate();
    assert!(
        unit.contains("Name=ens192") && unit.contains("Address=10.0.0.4/31"),
        "{unit}"
    );
}

#[test]
fn cloud_init_converts_the_network_for_every_system() {
    for network in all() {
        let network = machine(&network).network.unwrap().unwrap();
        let document = netplan(&network);
        let address = network.addresses[0].ip.to_string();
        for (distribution, format) in
            [("ubuntu", "netplan"), ("centos", "sysconfig"), ("debian", "networkd")]
        {
            let text = convert(&document, distribution, format);
            assert!(text.contains(&address), "{format}: {text}");
            assert!(
                !text.to_lowercase().contains("bootproto=dhcp") && !text.contains("dhcp4: true"),
                "{text}"
            );
        }
    }
}

#[test]
fn ignition_takes_the_documents_for_coreos_and_flatcar() {
    for os in [Os::CoreOs, Os::Flatcar] {
        for network in all() {
            ignition_accepts(&rendered(&network, os));
        }
        ignition_accepts(&rendered(&Value::Null, os));
    }
}

#[test]
fn networkd_gives_the_link_its_addresses_and_routes() {
    let root = Root::written_by_ignition(&rendered(&seed(), Os::Flatcar));
    let found = networkd(&root.unit(), "192.168.1.129/25", "-4", "default via 192.168.1.1");
    assert!(found.contains("onlink"), "{found}");
    let root = Root::written_by_ignition(&rendered(&both_families(), Os::Flatcar));
    let found = networkd(&root.unit(), "fd00::5/64", "-6", "default via fd01::1");
    assert!(found.contains("10.0.0.5/24"), "{found}");
}

#[test]
fn network_manager_reads_the_keyfile_as_it_was_meant() {
    for (network, parts) in [
        (
            seed(),
            &[
                "address1=192.168.1.129/25,192.168.1.1",
                "route1=192.168.1.1/32",
                "dns=192.168.1.1;",
            ][..],
        ),
        (
            both_families(),
            &[
                "address1=10.0.0.5/24,10.0.0.1",
                "address1=fd00::5/64,fd01::1",
                "route1=fd01::1/128",
                "dns=10.0.0.53;10.0.0.54;",
            ],
        ),
        (by_mac(), &["mac-address=00:50:56:00:00:01", "method=disabled"]),
        (by_name(), &["interface-name=ens192", "address1=10.0.0.4/31,10.0.0.5"]),
    ] {
        let root = Root::written_by_ignition(&rendered(&network, Os::CoreOs));
        let Some(read) = network_manager(&root.keyfile()) else {
            println!("left out: there is no nmcli");
            return;
        };
        for part in parts {
            assert!(read.contains(part), "{part}: {read}");
        }
        assert!(!read.contains("method=auto"), "{read}");
    }
}

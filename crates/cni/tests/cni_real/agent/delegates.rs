//! ptp, bridge and macvlan, as Debian packages them, with addresses from `berth-ipam`.

use std::path::Path;

use berth_testkit::Namespace;
use serde_json::{Value, json};

use super::serving::Serving;
use crate::call::{Call, Done, IPAM, ipam_conf};

/// Where the package puts them.
const DIRECTORY: &str = "/usr/lib/cni";

struct Stage {
    serving: Serving,
    host: Namespace,
    conf: Value,
    _directory: tempfile::TempDir,
}

impl Stage {
    fn new(kind: &str, count: u8) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let serving = Serving::start(directory.path(), count);
        let mut conf = ipam_conf(directory.path());
        conf["type"] = json!(kind);
        conf["cniVersion"] = json!("1.0.0");
        Self {
            serving,
            host: Namespace::new(),
            conf,
            _directory: directory,
        }
    }

    fn call(&self, command: &str, container: &str, pod: &Namespace, conf: &Value) -> Done {
        let program = format!("{DIRECTORY}/{}", self.conf["type"].as_str().unwrap());
        assert!(
            Path::new(&program).exists(),
            "{program} is missing: install containernetworking-plugins"
        );
        let ours = Path::new(IPAM).parent().unwrap().to_str().unwrap();
        let call = Call::new(&program, command).by(&["ip", "netns", "exec", self.host.name()]);
        call.set("CNI_CONTAINERID", container)
            .set("CNI_NETNS", &pod.path())
            .set("CNI_PATH", ours)
            .run(conf)
    }

    /// ADD, CHECK and DEL of two pods, and an ADD that finds no address.
    fn life(&self) {
        let (one, two, three) = (Namespace::new(), Namespace::new(), Namespace::new());
        let first = self.call("ADD", "c1", &one, &self.conf).result();
        let second = self.call("ADD", "c2", &two, &self.conf).result();
        let addresses = |result: &Value| {
            let ips = result["ips"].as_array().unwrap();
            ips.iter()
                .map(|ip| ip["address"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!((addresses(&first).len(), addresses(&second).len()), (2, 2));
        assert!(
            addresses(&first)
                .iter()
                .all(|address| !addresses(&second).contains(address))
        );
        for (pod, result) in [(&one, &first), (&two, &second)] {
            let links = pod.show("address show dev eth0");
            let infos = links[0]["addr_info"].as_array().unwrap();
            for address in addresses(result) {
                let (address, length) = address.split_once('/').unwrap();
                let length: u64 = length.parse().unwrap();
                let is_it = |info: &&Value| info["local"] == address && info["prefixlen"] == length;
                assert!(infos.iter().any(|info| is_it(&info)), "{address}: {links}");
            }
        }
        assert_eq!(self.serving.agent.holdings().len(), 2);
        let mut conf = self.conf.clone();
        conf["prevResult"] = first.clone();
        self.call("CHECK", "c1", &one, &conf).silent();
        // Two are all that there are.
        let refused = self.call("ADD", "c3", &three, &self.conf);
        let document: Value = serde_json::from_str(&refused.stdout).unwrap();
        assert!(!refused.success && document["code"] == 11, "{document}");
        self.call("DEL", "c1", &one, &conf).silent();
        self.call("DEL", "c2", &two, &self.conf).silent();
        self.call("DEL", "c1", &one, &conf).silent();
        assert_eq!((self.serving.agent.holdings().len(), self.serving.free()), (0, 4));
    }
}

#[test]
fn ptp_gets_its_addresses_from_us() {
    Stage::new("ptp", 2).life();
}

#[test]
fn bridge_gets_its_addresses_from_us() {
    let mut stage = Stage::new("bridge", 2);
    stage.conf["bridge"] = json!("pods0");
    stage.conf["isDefaultGateway"] = json!(true);
    stage.life();
}

#[test]
fn macvlan_gets_its_addresses_from_us() {
    let mut stage = Stage::new("macvlan", 2);
    stage.host.ip("link add up0 type veth peer name up1");
    stage.host.ip("link set up0 up");
    stage.host.ip("link set up1 up");
    stage.conf["master"] = json!("up0");
    stage.life();
}

//! All commands of CNI 1.1.0, in the order a runtime gives them.

use std::path::Path;

use berth_testkit::Namespace;
use serde_json::{Value, json};

use super::serving::Serving;
use crate::call::{CNI, Call, IPAM, cni_conf, ipam_conf};

/// A runtime: it keeps results, and hands them back.
struct Runtime<'a> {
    program: &'a str,
    host: &'a Namespace,
    conf: Value,
}

impl Runtime<'_> {
    fn call(&self, command: &str) -> Call {
        Call::new(self.program, command).by(&["ip", "netns", "exec", self.host.name()])
    }

    fn on(&self, command: &str, container: &str, pod: &Namespace) -> Call {
        self.call(command)
            .set("CNI_CONTAINERID", container)
            .set("CNI_NETNS", &pod.path())
    }

    fn with(&self, field: &str, value: Value) -> Value {
        let mut conf = self.conf.clone();
        conf[field] = value;
        conf
    }
}

fn conf_of(program: &str, directory: &Path) -> Value {
    if program == IPAM {
        ipam_conf(directory)
    } else {
        cni_conf(directory)
    }
}

#[test]
fn from_the_first_status_to_the_last_del() {
    for program in [IPAM, CNI] {
        let directory = tempfile::tempdir().unwrap();
        let (host, one, two) = (Namespace::new(), Namespace::new(), Namespace::new());
        let conf = conf_of(program, directory.path());
        let runtime = Runtime {
            program,
            host: &host,
            conf,
        };
        let conf = &runtime.conf;

        let versions = runtime.call("VERSION").run(conf).result();
        assert!(
            versions["supportedVersions"]
                .as_array()
                .unwrap()
                .contains(&json!("1.1.0"))
        );
        // Before there is an agent.
        assert_eq!(runtime.call("STATUS").run(conf).code(), 50);
        let serving = Serving::start(directory.path(), 2);
        runtime.call("STATUS").run(conf).silent();

        let first = runtime.on("ADD", "c1", &one).run(conf).result();
        let second = runtime.on("ADD", "c2", &two).run(conf).result();
        assert_ne!(first["ips"], second["ips"]);
        for (container, pod, result) in [("c1", &one, &first), ("c2", &two, &second)] {
            runtime
                .on("CHECK", container, pod)
                .run(&runtime.with("prevResult", result.clone()))
                .silent();
        }
        // The other's result.
        let swapped = runtime
            .on("CHECK", "c1", &one)
            .run(&runtime.with("prevResult", second.clone()));
        assert!(matches!(swapped.code(), 7 | 101));
        // Nothing is left to give: the node is full, and not broken.
        assert_eq!(serving.free(), 0);
        runtime.call("STATUS").run(conf).silent();

        // The first sandbox is gone without a DEL.
        let valid = json!([{"containerID": "c2", "ifname": "eth0"}]);
        runtime
            .call("GC")
            .run(&runtime.with("cni.dev/valid-attachments", valid))
            .silent();
        assert_eq!((serving.agent.holdings().len(), serving.free()), (1, 2));
        runtime.call("STATUS").run(conf).silent();
        runtime
            .on("CHECK", "c2", &two)
            .run(&runtime.with("prevResult", second.clone()))
            .silent();
        assert_eq!(
            runtime
                .on("CHECK", "c1", &one)
                .run(&runtime.with("prevResult", first.clone()))
                .code(),
            101
        );

        runtime
            .on("DEL", "c2", &two)
            .run(&runtime.with("prevResult", second))
            .silent();
        runtime
            .on("DEL", "c1", &one)
            .run(&runtime.with("prevResult", first))
            .silent();
        assert_eq!((serving.agent.holdings().len(), serving.free()), (0, 4));
        assert_eq!(
            (host.link_names().len(), one.link_names().len(), two.link_names().len()),
            (0, 0, 0)
        );
    }
}

#[test]
fn a_del_while_the_agent_is_down_frees_the_address_at_restart() {
    for program in [IPAM, CNI] {
        let directory = tempfile::tempdir().unwrap();
        let (host, pod) = (Namespace::new(), Namespace::new());
        let conf = conf_of(program, directory.path());
        let runtime = Runtime {
            program,
            host: &host,
            conf,
        };
        let serving = Serving::start(directory.path(), 2);
        runtime.on("ADD", "c1", &pod).run(&runtime.conf).result();
        drop(serving);
        runtime.on("DEL", "c1", &pod).run(&runtime.conf).silent();
        let serving = Serving::start(directory.path(), 2);
        assert_eq!((serving.agent.holdings().len(), serving.free()), (0, 4));
        let queued = std::fs::read_dir(directory.path().join("queue")).unwrap();
        let queued: Vec<_> = queued.map(|found| found.unwrap().file_name()).collect();
        assert_eq!(queued, [berth_api::agent::RESERVE]);
        // And a DEL that comes again does no harm.
        runtime.on("DEL", "c1", &pod).run(&runtime.conf).silent();
        runtime.on("ADD", "c1", &pod).run(&runtime.conf).result();
        assert_eq!(serving.agent.holdings().len(), 1);
    }
}

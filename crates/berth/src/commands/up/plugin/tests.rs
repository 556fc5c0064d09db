use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use berth_cluster::Fleet;

use super::*;
use crate::commands::up::directory::Directory;

/// A plugin that stores its input in `given`, and then does what the script says.
struct Fake {
    directory: tempfile::TempDir,
    plugin: Plugin,
}

impl Fake {
    fn new(script: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("fake");
        let given = directory.path().join("given");
        let script =
            format!("#!/bin/sh\n(/usr/bin/env; /bin/cat) > {}\n{script}\n", given.display());
        write_program(&program, &script);
        let plugin = Plugin { program, ..plugin() };
        Self { directory, plugin }
    }

    /// The lines of the environment, and stdin.
    fn given(&self) -> (Vec<String>, Value) {
        let text = std::fs::read_to_string(self.directory.path().join("given")).unwrap();
        let (environment, stdin) = text.split_at(text.find('{').unwrap());
        let environment = environment.lines().map(str::to_owned).collect();
        (environment, serde_json::from_str(stdin).unwrap())
    }
}

/// Writes a script that can be executed at once. Another process writes it: a child that another
/// test starts at that moment inherits our open files, and the kernel refuses to execute a file
/// that is open for writing ("Text file busy").
fn write_program(path: &Path, script: &str) {
    let draft = path.with_extension("draft");
    std::fs::write(&draft, script).unwrap();
    std::fs::set_permissions(&draft, PermissionsExt::from_mode(0o700)).unwrap();
    let copied = std::process::Command::new("/bin/cp")
        .arg(&draft)
        .arg(path)
        .status()
        .unwrap();
    assert!(copied.success(), "{copied}");
}

fn plugin() -> Plugin {
    let directory = Directory::choose(Some("/data".into()), false).unwrap();
    let directories = NodeDirectories::choose(&directory, Fleet::new(1).unwrap()).unwrap();
    Plugin::new(directories, BTreeMap::new())
}

fn sandbox() -> Sandbox {
    Sandbox {
        id: "8f0c".to_owned(),
        node: "berth-node-1".to_owned(),
        namespace: "shop".to_owned(),
        name: "web-1".to_owned(),
        uid: "7d44".to_owned(),
    }
}

#[tokio::test]
async fn an_add_is_called_as_a_container_runtime_calls_it() {
    let answer = r#"{"cniVersion":"1.1.0","ips":[{"address":"10.64.0.5/16"},{"address":"fd64::5/64"}],"dns":{}}"#;
    let fake = Fake::new(&format!("echo '{answer}'"));
    let addresses = fake
        .plugin
        .attach(&sandbox(), Duration::from_millis(500))
        .await
        .unwrap();
    assert_eq!(
        addresses,
        ["10.64.0.5".parse::<IpAddr>().unwrap(), "fd64::5".parse().unwrap()]
    );
    let (environment, conf) = fake.given();
    for line in [
        "CNI_COMMAND=ADD",
        "CNI_CONTAINERID=8f0c",
        "CNI_IFNAME=eth0",
        "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-1;K8S_POD_UID=7d44;K8S_POD_INFRA_CONTAINER_ID=8f0c",
    ] {
        assert!(
            environment.iter().any(|given| given == line),
            "{line} in {environment:?}"
        );
    }
    assert!(environment.iter().any(|line| line.starts_with("CNI_NETNS=")));
    assert!(
        !environment.iter().any(|line| line.starts_with("HOME=")),
        "{environment:?}"
    );
    let ipam = json!({
        "type": "berth-ipam",
        "socket": "/data/nodes/berth-node-1/agent.sock",
        "queueDir": "/data/nodes/berth-node-1/release-queue",
        "wait": "500ms",
    });
    let expected =
        json!({"cniVersion": "1.1.0", "name": "berth", "type": "berth-ipam", "ipam": ipam});
    assert_eq!(conf, expected);
}

#[tokio::test]
async fn a_gc_names_all_that_is_still_attached() {
    let fake = Fake::new("");
    let sandboxes = ["a".to_owned(), "b".to_owned()];
    fake.plugin.keep_only("berth-node-1", &sandboxes).await.unwrap();
    let (environment, conf) = fake.given();
    assert!(environment.contains(&"CNI_COMMAND=GC".to_owned()));
    let valid =
        json!([{"containerID": "a", "ifname": "eth0"}, {"containerID": "b", "ifname": "eth0"}]);
    assert_eq!(conf["cni.dev/valid-attachments"], valid);
}

#[tokio::test]
async fn a_failure_is_told_in_the_plugins_words() {
    for (script, told) in [
        (
            r#"echo '{"code":11,"msg":"no address is free","details":"16 are on their way"}'; exit 1"#,
            "berth-ipam DEL: no address is free: 16 are on their way",
        ),
        (
            r#"echo '{"code":5,"msg":"disk full"}'; exit 1"#,
            "berth-ipam DEL: disk full",
        ),
        ("echo broken >&2; exit 1", "berth-ipam DEL: broken"),
        (
            "exit 3",
            "berth-ipam DEL: it ended with exit status: 3 and did not say why",
        ),
        (
            "kill -9 $$",
            "berth-ipam DEL: it ended with signal: 9 (SIGKILL) and did not say why",
        ),
    ] {
        let refused = Fake::new(script).plugin.detach(&sandbox()).await.unwrap_err();
        assert_eq!(refused.0, told);
    }
    let refused = Fake::new("echo yes").plugin.attach(&sandbox(), Duration::ZERO).await;
    assert!(refused.unwrap_err().0.contains("not JSON"));
}

#[tokio::test]
async fn one_that_never_stops_talking_is_not_listened_to() {
    let fake = Fake::new("while echo talk; do :; done; exit 1");
    let refused = fake.plugin.detach(&sandbox()).await.unwrap_err();
    assert!(refused.0.contains("did not say why"), "{refused}");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_said() {
    let plugin = Plugin {
        program: "/nowhere/berth".into(),
        ..plugin()
    };
    let refused = plugin.detach(&sandbox()).await.unwrap_err();
    assert!(refused.0.starts_with("berth-ipam DEL cannot be run: "), "{refused}");
}

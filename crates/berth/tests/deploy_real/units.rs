//! The systemd units: as systemd reads them, and on a machine that it runs.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use berth_testbed::Programs;
use berth_testkit::certificates::Authority;
use berth_testkit::until_so;
use rcgen::CertificateParams;
use serde_json::{Value, json};

use super::machine::Machine;
use super::{read, root, run};

const UNITS: [&str; 3] = ["berth-agent", "berth-allocator", "berth-controller"];
const PROGRAM: &str = env!("CARGO_BIN_EXE_berth");
/// Where whoever installs it has the program and this repository.
const PLACE: &str = "/install";

#[test]
fn systemd_understands_the_units() {
    let directory = tempfile::tempdir().unwrap();
    for unit in UNITS.map(|name| format!("{name}.service")) {
        let text = read(&format!("systemd/{unit}"));
        let place = "/usr/local/bin/berth";
        assert!(text.contains(&format!("ExecStart={place} ")), "{text}");
        let file = directory.path().join(&unit);
        std::fs::write(&file, text.replace(place, PROGRAM)).unwrap();
        let mut command = Command::new("systemd-analyze");
        let output = command.args(["verify", "--man=no"]).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        // It also tells of units of the machine that are not ours.
        let ours: Vec<&str> = said.lines().filter(|line| line.contains("berth-")).collect();
        assert!(output.status.success() && ours.is_empty(), "{said}");
        // Its flags are flags of that command.
        let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let words = line.split_whitespace().skip(1).chain(["--help"]);
        run(Command::new(PROGRAM).args(words));
    }
}

/// The block of the documentation that has these words.
fn block(file: &str, words: &str) -> String {
    let text = std::fs::read_to_string(root().join("docs").join(file)).unwrap();
    let mut blocks = text.split("```console ").skip(1);
    let has = |block: &&str| block.contains(words);
    let found = blocks.find_map(|block| block.split("```").next().filter(has));
    let found = found.unwrap_or_else(|| panic!("{file} has no block with {words}"));
    found.split_once('\n').unwrap().1.to_owned()
}

/// What root types in it.
fn commands(block: &str) -> Vec<&str> {
    block.lines().filter_map(|line| line.strip_prefix("# ")).collect()
}

/// Types them one after the other, where whoever installs is.
fn type_in(machine: &Machine, commands: &[&str]) {
    for command in commands {
        run(&mut machine.command(Path::new(PLACE), &["sh", "-ec", command]));
    }
}

/// A property of a unit.
fn property(machine: &Machine, unit: &str, name: &str) -> String {
    let said = machine.run(&["systemctl", "show", "--value", "--property", name, unit]);
    said.trim().to_owned()
}

fn log(machine: &Machine, unit: &str) -> String {
    machine.run(&["journalctl", "--unit", unit, "--output", "cat", "--no-pager"])
}

/// Until its log has these words.
fn says(machine: &Machine, unit: &str, words: &str) {
    let found = format!("journalctl --unit {unit} --output cat | grep -q \"{words}\"");
    machine.wait_for(&["sh", "-c", &found]);
}

/// A machine to install on, with what is installed.
fn machine() -> Machine {
    let machine = Machine::boot();
    let place = machine.file(PLACE);
    let units = place.join("deploy/systemd");
    std::fs::create_dir_all(&units).unwrap();
    std::fs::copy(PROGRAM, place.join("berth")).unwrap();
    for unit in UNITS.map(|name| format!("{name}.service")) {
        std::fs::write(units.join(&unit), read(&format!("systemd/{unit}"))).unwrap();
    }
    machine
}

/// A machine with `berth up` for a cluster, and a Node for the machine itself.
fn machine_in_a_cluster(programs: &Programs) -> Machine {
    let machine = machine();
    machine.run(&[
        "systemd-run",
        "--unit=cluster",
        "--quiet",
        &format!("{PLACE}/berth"),
        "up",
        "--nodes",
        "1",
        "--data-dir",
        "/var/lib/cluster",
        "--api-listen",
        "127.0.0.1:6443",
    ]);
    let kubeconfig = "/var/lib/cluster/kubeconfig";
    let kubectl = programs.path("kubectl");
    let kubectl = [kubectl.to_str().unwrap(), "--kubeconfig", kubeconfig];
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}});
    std::fs::write(machine.file(&format!("{PLACE}/node.json")), node.to_string()).unwrap();
    let file = format!("{PLACE}/node.json");
    machine.wait_for(&[&kubectl[..], &["get", "subnet", "pods"]].concat());
    machine.run(&[&kubectl[..], &["create", "-f", &file]].concat());
    for component in ["agent", "controller"] {
        let copy = format!("{PLACE}/{component}.kubeconfig");
        machine.run(&["cp", kubeconfig, &copy]);
    }
    machine
}

/// What the agent says of itself, once it has addresses.
fn agent_status(machine: &Machine) -> Value {
    let words = "curl --silent --fail --unix-socket /run/berth/agent.sock http://agent/v1/status";
    let mut status = Value::Null;
    until_so("the agent has addresses", || {
        let said = machine.wait_for(&["sh", "-c", words]);
        status = serde_json::from_str(&said).unwrap();
        status["pool"]["free"] != 0
    });
    status
}

#[test]
fn the_agent_and_controller_units_run_as_installed() {
    let programs = Programs::find().unwrap();
    let machine = machine_in_a_cluster(&programs);
    let typed = block("install.md", "systemctl enable --now berth-agent");
    type_in(&machine, &commands(&typed));

    let status = agent_status(&machine);
    assert_eq!(
        (&status["node"], &status["ready"]),
        (&json!("bare"), &json!(true)),
        "{status}"
    );
    assert!(machine.file("/opt/cni/bin/berth-cni").exists());
    assert_eq!(property(&machine, "berth-agent", "NRestarts"), "0");
    // As the kernel would when memory is short. The next one finds all of it.
    machine.run(&["systemctl", "kill", "--signal", "KILL", "berth-agent"]);
    machine.wait_for(&["sh", "-c", "systemctl show -p NRestarts berth-agent | grep -q =1"]);
    let again = agent_status(&machine);
    assert_eq!(again["pool"], status["pool"], "{}", log(&machine, "berth-agent"));

    says(&machine, "berth-controller", "waiting: another process leads");
    assert_eq!(property(&machine, "berth-controller", "ActiveState"), "active");
    let said = log(&machine, "berth-controller");
    assert_eq!(property(&machine, "berth-controller", "NRestarts"), "0", "{said}");
    // A user of its own, who reads the kubeconfig although root alone may.
    assert_ne!(property(&machine, "berth-controller", "UID"), "0");
    type_in(&machine, &["systemctl stop berth-agent berth-controller"]);
    for unit in ["berth-agent", "berth-controller"] {
        assert_eq!(property(&machine, unit, "Result"), "success", "{}", log(&machine, unit));
    }
}

/// Three members of etcd, which each have an address of the machine's own loopback.
fn start_etcd(machine: &Machine, programs: &Programs, authority: &Authority) {
    let names = [1, 2, 3].map(|n| format!("etcd-{n}"));
    let pair = authority.sign("etcd", &CertificateParams::new(names.to_vec()).unwrap());
    let text = |path: &Path| machine.inside(path);
    let hosts = [1, 2, 3].map(|n| format!("127.0.0.{n} etcd-{n}\n")).concat();
    std::fs::write(machine.file("/etc/hosts"), format!("127.0.0.1 localhost\n{hosts}")).unwrap();
    let members = names
        .each_ref()
        .map(|name| format!("{name}=http://{name}:2380"))
        .join(",");
    for name in &names {
        let client = format!("https://{name}:2379");
        let peer = format!("http://{name}:2380");
        let number = &name["etcd-".len()..];
        let (etcd, unit) = (programs.path("etcd").display().to_string(), format!("--unit={name}"));
        let listen = ["2379", "2380"].map(|port| format!("127.0.0.{number}:{port}"));
        let words = [
            "systemd-run",
            &unit,
            "--quiet",
            &etcd,
            "--name",
            name,
            "--data-dir",
            &format!("/var/lib/{name}"),
            "--listen-client-urls",
            &format!("https://{}", listen[0]),
            "--advertise-client-urls",
            &client,
            "--listen-peer-urls",
            &format!("http://{}", listen[1]),
            "--initial-advertise-peer-urls",
            &peer,
            "--initial-cluster",
            &members,
            "--cert-file",
            &text(&pair.certificate),
            "--key-file",
            &text(&pair.key),
            "--client-cert-auth",
            "--trusted-ca-file",
            &text(&authority.file()),
        ];
        machine.run(&words);
    }
}

#[test]
fn the_unit_of_an_allocator_runs_on_an_etcd_with_three_members() {
    let programs = Programs::find().unwrap();
    let machine = machine();
    let directory = machine.file("/etc/berth");
    std::fs::create_dir(&directory).unwrap();
    // Under names that are not those of the documentation's files.
    let authorities = machine.file(PLACE);
    let etcd = Authority::make(&authorities, "etcd");
    let clusters = Authority::make(&authorities, "clusters");
    start_etcd(&machine, &programs, &etcd);
    let typed = block("etcd.md", "systemctl enable --now berth-allocator");
    let lines = typed.lines().filter(|line| line.starts_with("BERTH_"));
    let flags: String = lines.map(|line| format!("{line}\n")).collect();
    std::fs::write(directory.join("allocator.env"), flags).unwrap();
    let (client, server) = (etcd.client("allocator"), clusters.server());
    let files = [
        (etcd.file(), "etcd-ca.crt"),
        (client.certificate, "etcd.crt"),
        (client.key, "etcd.key"),
        (server.certificate, "tls.crt"),
        (server.key, "tls.key"),
        (clusters.file(), "clusters.crt"),
    ];
    for (file, name) in files {
        let copy = directory.join(name);
        std::fs::copy(file, &copy).unwrap();
        let mode = if name.ends_with(".key") { 0o600 } else { 0o644 };
        std::fs::set_permissions(&copy, Permissions::from_mode(mode)).unwrap();
    }
    type_in(&machine, &["install -m 0755 berth /usr/local/bin/berth"]);
    type_in(&machine, &commands(&typed));

    says(&machine, "berth-allocator", "allocator is up");
    let blue = clusters.client("blue");
    let text = |path: &Path| machine.inside(path);
    let ask = format!(
        "curl --silent --show-error --fail --cacert {} --cert {} --key {}",
        text(&clusters.file()),
        text(&blue.certificate),
        text(&blue.key)
    );
    let pods = "https://localhost:7445/networks/prod/subnets/pods";
    let plan =
        json!({"cidrs": ["10.64.0.0/24"], "reservations": [], "reuseDelayMilliseconds": 30_000});
    machine.wait_for(&["sh", "-c", &format!("{ask} -X PUT {pods} -d '{plan}'")]);
    let lease = |node: &str| {
        let line = format!("{ask} -X PUT {pods}/containers/blue/{node}/9f0c");
        let leased: Value = serde_json::from_str(&machine.wait_for(&["sh", "-c", &line])).unwrap();
        leased["primary"][0].as_str().unwrap().to_owned()
    };
    let first = lease("node-1");
    machine.run(&["systemctl", "kill", "--signal", "KILL", "etcd-1"]);
    assert_ne!(lease("node-2"), first);
    assert_eq!(lease("node-1"), first);
    assert_eq!(property(&machine, "berth-allocator", "User"), "berth");
    type_in(&machine, &["systemctl stop berth-allocator"]);
    let said = log(&machine, "berth-allocator");
    assert_eq!(property(&machine, "berth-allocator", "Result"), "success", "{said}");
}

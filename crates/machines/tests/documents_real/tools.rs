//! The tools, each called as on a machine, on a directory that stands for its root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use berth_testbed::peers;
use serde_json::Value;
use tempfile::TempDir;

/// A machine's root, with the files that its document brings.
pub struct Root(TempDir);

impl Root {
    /// By cloud-init, as its documentation says: each of `write_files`.
    pub fn written_by(user_data: &str) -> Self {
        let config: Value = serde_saphyr::from_str(user_data).unwrap();
        let root = Self(TempDir::new().unwrap());
        for file in config["write_files"].as_array().unwrap() {
            let mode = u32::from_str_radix(file["permissions"].as_str().unwrap(), 8).unwrap();
            root.write(file["path"].as_str().unwrap(), file["content"].as_str().unwrap(), mode);
        }
        root
    }

    pub fn written_by_ignition(document: &str) -> Self {
        use base64::Engine;
        let config: Value = serde_json::from_str(document).unwrap();
        let root = Self(TempDir::new().unwrap());
        for file in config["storage"]["files"].as_array().unwrap() {
            let source = file["contents"]["source"].as_str().unwrap();
            let data = source.strip_prefix("data:;base64,").unwrap();
            let data = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
            let mode = u32::try_from(file["mode"].as_u64().unwrap()).unwrap();
            root.write(file["path"].as_str().unwrap(), &String::from_utf8(data).unwrap(), mode);
        }
        root
    }

    fn write(&self, path: &str, content: &str, mode: u32) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    /// What netplan makes of it for networkd.
    pub fn netplan_generate(&self) -> String {
        run(Command::new("netplan")
            .args(["generate", "--root-dir"])
            .arg(self.0.path()));
        all_files(&self.at("/run/systemd/network"))
    }

    pub fn unit(&self) -> PathBuf {
        self.at("/etc/systemd/network/00-berth.network")
    }

    pub fn keyfile(&self) -> String {
        fs::read_to_string(self.at("/etc/NetworkManager/system-connections/berth.nmconnection"))
            .unwrap()
    }
}

/// What it printed. A warning is an error here: what a tool does not know, it says so.
fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| {
        panic!("{command:?}: {error}: run `cargo xtask test real` to set it up")
    });
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    assert!(!err.to_lowercase().contains("warning"), "{command:?}: {err}");
    format!("{out}{err}")
}

fn all_files(directory: &Path) -> String {
    let mut text = String::new();
    let mut entries: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            text.push_str(&all_files(&path));
        } else if let Ok(content) = fs::read_to_string(&path) {
            text.push_str(&content);
        }
    }
    text
}

pub fn cloud_init_accepts(user_data: &str) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("user-data");
    fs::write(&path, user_data).unwrap();
    let said = run(Command::new("cloud-init").args(["schema", "--config-file"]).arg(&path));
    assert!(said.contains("Valid cloud-config"), "{said}\n{user_data}");
}

/// All that cloud-init writes for a distribution.
pub fn convert(netplan: &Value, distribution: &str, format: &str) -> String {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("network.yaml");
    fs::write(&path, netplan.to_string()).unwrap();
    let output = directory.path().join("out");
    let mut command = Command::new("cloud-init");
    command
        .args(["devel", "net-convert", "--kind", "yaml", "--network-data"])
        .arg(&path);
    command
        .args(["--distro", distribution, "--output-kind", format, "--directory"])
        .arg(&output);
    run(&mut command);
    all_files(&output)
}

pub fn ignition_accepts(document: &str) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("config.ign");
    fs::write(&path, document).unwrap();
    let validate = peers::ignition_validate(&|line| println!("{line}")).unwrap();
    let said = run(Command::new(validate).arg(&path));
    assert!(said.trim().is_empty(), "{said}\n{document}");
}

/// Runs systemd-networkd on a link called eth7 in namespaces of its own, until the link has the
/// address and the route. Gives the link's addresses and all routes.
pub fn networkd(unit: &Path, address: &str, family: &str, route: &str) -> String {
    // Where /sys can't be written to, networkd does not wait for udev.
    let script = r#"
        set -e
        mount -t sysfs -o ro sysfs /sys
        mount -t tmpfs tmpfs /run
        mkdir -p /run/systemd/network
        cp "$UNIT" /run/systemd/network/00-berth.network
        ip link add eth7 type veth peer name peer7
        ip link set peer7 up
        /lib/systemd/systemd-networkd 2>/run/log & networkd=$!
        until ip -o addr show eth7 | grep -q "$ADDRESS" && ip "$FAMILY" route | grep -q "$ROUTE"; do
            kill -0 $networkd || { cat /run/log; exit 1; }
            sleep 0.05
        done
        ip -o addr show eth7
        ip route
        ip -6 route
        kill $networkd
    "#;
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "sh", "-c", script]);
    command
        .env("UNIT", unit)
        .env("ADDRESS", address)
        .env("FAMILY", family)
        .env("ROUTE", route);
    run(&mut command)
}

/// What NetworkManager's own reader makes of a keyfile; `None` where it is not installed.
pub fn network_manager(keyfile: &str) -> Option<String> {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("keyfile");
    fs::write(&path, keyfile).unwrap();
    let mut command = Command::new("nmcli");
    command.args(["--offline", "connection", "modify", "connection.id", "berth"]);
    let output = command.stdin(fs::File::open(&path).unwrap()).output();
    if output
        .as_ref()
        .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    {
        return None;
    }
    let output = output.unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && err.is_empty(), "{err}\n{keyfile}");
    Some(String::from_utf8(output.stdout).unwrap())
}

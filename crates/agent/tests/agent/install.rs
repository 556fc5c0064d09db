//! Putting plugins and conf in place, and taking them out.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use berth_agent::install::{CONF_NAME, Conf, Directories, PLUGINS, Portmap, Source};
use serde_json::{Value, json};

struct Node {
    base: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("source")).unwrap();
        let node = Self { base };
        node.build("new");
        node
    }

    fn build(&self, version: &str) {
        for plugin in PLUGINS {
            fs::write(self.source(plugin), format!("{version} {plugin}")).unwrap();
        }
    }

    fn source(&self, plugin: &str) -> PathBuf {
        self.base.path().join("source").join(plugin)
    }

    fn bin(&self, name: &str) -> PathBuf {
        self.base.path().join("opt/cni/bin").join(name)
    }

    fn conf(&self, name: &str) -> PathBuf {
        self.base.path().join("etc/cni/net.d").join(name)
    }

    fn directories(&self) -> Directories {
        Directories::new(self.bin(""), self.conf(""))
    }

    fn directory_source(&self) -> Source {
        Source::Directory(self.source(""))
    }

    fn installed(&self) -> Vec<String> {
        let read = |plugin: &&str| fs::read_to_string(self.bin(plugin)).unwrap();
        PLUGINS.iter().map(read).collect()
    }
}

fn conf() -> Conf {
    Conf {
        socket: "/run/berth/agent.sock".into(),
        queue_dir: "/var/lib/berth/release-queue".into(),
        mtu: None,
        reconnect: Duration::ZERO,
        portmap: None,
    }
}

fn names(directory: &Path) -> Vec<String> {
    let found = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = found
        .map(|found| found.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn only_changed_plugins_are_installed_again() {
    let node = Node::new();
    node.directories().install_plugins(&node.directory_source()).unwrap();
    assert_eq!(node.installed(), ["new berth-ipam", "new berth-cni"]);
    assert_eq!(names(&node.bin("")), ["berth-cni", "berth-ipam"]);
    let inode = |plugin| fs::metadata(node.bin(plugin)).unwrap().ino();
    let before = PLUGINS.map(inode);
    for plugin in PLUGINS {
        assert_eq!(
            fs::metadata(node.bin(plugin)).unwrap().permissions().mode() & 0o7777,
            0o755
        );
    }
    node.directories().install_plugins(&node.directory_source()).unwrap();
    assert_eq!(PLUGINS.map(inode), before);

    fs::write(node.source("berth-cni"), "newer").unwrap();
    node.directories().install_plugins(&node.directory_source()).unwrap();
    assert_eq!(node.installed(), ["new berth-ipam", "newer"]);
    assert_eq!(inode("berth-ipam"), before[0]);

    // A mode that nobody can call is not the same.
    fs::set_permissions(node.bin("berth-ipam"), PermissionsExt::from_mode(0o600)).unwrap();
    node.directories().install_plugins(&node.directory_source()).unwrap();
    assert_eq!(
        fs::metadata(node.bin("berth-ipam")).unwrap().permissions().mode() & 0o777,
        0o755
    );
}

#[test]
fn one_program_that_answers_to_both_names_is_there_once() {
    let node = Node::new();
    let program = node.base.path().join("berth");
    fs::write(&program, "answers to both").unwrap();
    let source = Source::beside(&program);
    assert_eq!(source, Source::Program(program.clone()));
    node.directories().install_plugins(&source).unwrap();
    assert_eq!(node.installed(), ["answers to both"; 2]);
    let inodes = PLUGINS.map(|plugin| fs::metadata(node.bin(plugin)).unwrap().ino());
    assert_eq!(inodes[0], inodes[1]);
    fs::write(&program, "answers again").unwrap();
    node.directories().install_plugins(&source).unwrap();
    assert_eq!(node.installed(), ["answers again"; 2]);
    assert_eq!(names(&node.bin("")), ["berth-cni", "berth-ipam"]);
    // The plugins of their own are taken where they are.
    assert_eq!(Source::beside(&node.source("berth")), node.directory_source());
}

#[test]
fn when_one_plugin_can_not_be_read_the_old_ones_stay() {
    let node = Node::new();
    node.build("old");
    node.directories().install_plugins(&node.directory_source()).unwrap();
    node.build("new");
    fs::remove_file(node.source("berth-cni")).unwrap();
    let error = node
        .directories()
        .install_plugins(&node.directory_source())
        .unwrap_err()
        .to_string();
    assert!(error.contains("source/berth-cni: the plugin can't be read"), "{error}");
    fs::create_dir(node.source("berth-cni")).unwrap();
    node.directories()
        .install_plugins(&node.directory_source())
        .unwrap_err();
    assert_eq!(node.installed(), ["old berth-ipam", "old berth-cni"]);
    assert_eq!(names(&node.bin("")), ["berth-cni", "berth-ipam"]);
}

/// The limit is that of a process of its own: the same test once more, under a shell that sets it.
#[test]
fn a_disk_that_is_full_half_way_keeps_the_old_ones() {
    const BASE: &str = "BERTH_TEST_FULL_DISK";
    if let Some(base) = std::env::var_os(BASE) {
        let base = PathBuf::from(base);
        let directories = Directories::new(base.join("bin"), base.join("conf"));
        let error = directories
            .install_plugins(&Source::Directory(base.join("source")))
            .unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("--cni-bin-dir ") && error.contains("berth-cni can't be installed"),
            "{error}"
        );
        return;
    }
    let base = tempfile::tempdir().unwrap();
    for directory in ["source", "bin"] {
        fs::create_dir(base.path().join(directory)).unwrap();
    }
    let fill = |directory: &str, sizes: [usize; 2]| {
        for (plugin, size) in PLUGINS.iter().zip(sizes) {
            fs::write(base.path().join(directory).join(plugin), vec![b'x'; size]).unwrap();
        }
    };
    fill("source", [600, 1 << 20]);
    fill("bin", [1, 1]);
    let status = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact \
             install::a_disk_that_is_full_half_way_keeps_the_old_ones",
        ])
        .arg(std::env::current_exe().unwrap())
        .env(BASE, base.path())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(names(&base.path().join("bin")), ["berth-cni", "berth-ipam"]);
    for plugin in PLUGINS {
        assert_eq!(fs::metadata(base.path().join("bin").join(plugin)).unwrap().len(), 1);
    }
}

#[test]
fn a_directory_that_can_not_be_written_is_named_with_its_flag() {
    let node = Node::new();
    let file = node.base.path().join("file");
    fs::write(&file, "").unwrap();
    for unusable in [file.as_path(), Path::new("/proc/berth")] {
        let directories = Directories::new(unusable, unusable);
        let error = directories
            .install_plugins(&node.directory_source())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(&format!("--cni-bin-dir {}: ", unusable.display())),
            "{error}"
        );
        let error = directories.place_conf(&conf()).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("--cni-conf-dir {}: ", unusable.display())),
            "{error}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn what_a_killed_process_left_is_no_hindrance() {
    let node = Node::new();
    fs::create_dir_all(node.bin("")).unwrap();
    fs::create_dir_all(node.conf("")).unwrap();
    fs::write(node.bin(".berth-cni.new"), "half").unwrap();
    fs::write(node.conf(".10-berth.conflist.new"), "half").unwrap();
    node.directories().install_plugins(&node.directory_source()).unwrap();
    node.directories().place_conf(&conf()).unwrap();
    assert_eq!(names(&node.bin("")), ["berth-cni", "berth-ipam"]);
    assert_eq!(names(&node.conf("")), [CONF_NAME]);
}

#[test]
fn the_conf_says_only_what_is_not_the_default() {
    let expected = json!({
        "cniVersion": "1.0.0",
        "cniVersions": ["0.3.1", "0.4.0", "1.0.0", "1.1.0"],
        "name": "berth",
        "plugins": [{"type": "berth-cni"}],
    });
    assert_eq!(conf().document(), expected);
    let other = Conf {
        socket: "/run/other.sock".into(),
        queue_dir: "/var/lib/other".into(),
        mtu: Some(1400),
        reconnect: Duration::from_secs(20),
        portmap: None,
    };
    let plugin = json!({
        "type": "berth-cni", "socket": "/run/other.sock", "queueDir": "/var/lib/other",
        "mtu": 1400, "reconnect": "20s",
    });
    assert_eq!(other.document()["plugins"][0], plugin);
}

/// A `portmap` that says this when it is asked for its versions, and is called for nothing else.
fn with_portmap(script: &str) -> Node {
    let node = Node::new();
    fs::create_dir_all(node.bin("")).unwrap();
    let text = format!("#!/bin/sh\n[ \"$CNI_COMMAND\" = VERSION ] || exit 3\n{script}\n");
    fs::write(node.bin("portmap"), text).unwrap();
    fs::set_permissions(node.bin("portmap"), PermissionsExt::from_mode(0o755)).unwrap();
    node
}

#[test]
fn portmap_is_chained_with_the_cni_versions_both_support() {
    let cases = [
        (
            r#"echo '{"supportedVersions": ["0.2.0", "0.4.0", "1.0.0", "1.1.0"]}'"#,
            "1.0.0",
            json!(["0.4.0", "1.0.0", "1.1.0"]),
        ),
        (
            r#"echo '{"supportedVersions": ["0.3.0", "0.3.1", "0.4.0"]}'"#,
            "0.4.0",
            json!(["0.3.1", "0.4.0"]),
        ),
        (r#"echo '{"supportedVersions": ["1.1.0"]}'"#, "1.1.0", json!(["1.1.0"])),
        (
            r#"echo '{"supportedVersions": ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]}'"#,
            "1.0.0",
            json!(["0.3.1", "0.4.0", "1.0.0", "1.1.0"]),
        ),
        // It does not say: what every one of the last years knows.
        ("exit 1", "1.0.0", json!(["0.3.1", "0.4.0", "1.0.0"])),
        ("echo x", "1.0.0", json!(["0.3.1", "0.4.0", "1.0.0"])),
    ];
    for (script, version, versions) in cases {
        let node = with_portmap(script);
        let portmap = node.directories().portmap();
        let is_whole = versions.as_array().unwrap().len() == 4;
        assert_eq!(
            portmap.as_ref().map(Portmap::knows_all_versions),
            Some(is_whole),
            "{script}"
        );
        let document = Conf { portmap, ..conf() }.document();
        assert_eq!(document["cniVersion"], version, "{script}");
        assert_eq!(document["cniVersions"], versions, "{script}");
        let entry =
            json!({"type": "portmap", "capabilities": {"portMappings": true}, "snat": true});
        assert_eq!(document["plugins"], json!([{"type": "berth-cni"}, entry]), "{script}");
    }
    let strange = with_portmap(r#"echo '{"supportedVersions": ["2.0.0"]}'"#);
    assert_eq!(strange.directories().portmap(), None);
    assert_eq!(Node::new().directories().portmap(), None);
}

#[test]
fn the_conf_is_placed_whole_and_others_are_not_touched() {
    let node = Node::new();
    fs::create_dir_all(node.conf("")).unwrap();
    let other = node.conf("05-other.conflist");
    fs::write(&other, "{}").unwrap();
    assert!(node.directories().place_conf(&conf()).unwrap());
    assert!(!node.directories().place_conf(&conf()).unwrap());
    let text = fs::read_to_string(node.conf(CONF_NAME)).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), conf().document());
    assert_eq!(
        fs::metadata(node.conf(CONF_NAME)).unwrap().permissions().mode() & 0o7777,
        0o600
    );

    let changed = Conf {
        mtu: Some(1400),
        ..conf()
    };
    assert!(node.directories().place_conf(&changed).unwrap());
    fs::write(node.conf(CONF_NAME), &text[..20]).unwrap();
    assert!(
        node.directories().place_conf(&conf()).unwrap(),
        "a torn one is replaced"
    );
    assert_eq!(fs::read_to_string(&other).unwrap(), "{}");
    assert_eq!(names(&node.conf("")), ["05-other.conflist", CONF_NAME]);
}

#[test]
fn a_conf_of_others_under_our_name_is_left_alone() {
    let node = Node::new();
    fs::create_dir_all(node.conf("")).unwrap();
    let text = r#"{"name": "theirs", "plugins": [{"type": "bridge"}]}"#;
    fs::write(node.conf(CONF_NAME), text).unwrap();
    for error in [
        node.directories().place_conf(&conf()).unwrap_err(),
        node.directories().uninstall().unwrap_err(),
    ] {
        assert!(error.to_string().contains("remove or rename it"), "{error}");
    }
    assert_eq!(fs::read_to_string(node.conf(CONF_NAME)).unwrap(), text);
}

#[test]
fn uninstall_removes_only_what_berth_installed() {
    let node = Node::new();
    node.directories().uninstall().unwrap();
    node.directories().install_plugins(&node.directory_source()).unwrap();
    node.directories().place_conf(&conf()).unwrap();
    fs::write(node.bin("bridge"), "theirs").unwrap();
    fs::write(node.conf("87-podman.conflist"), "{}").unwrap();
    node.directories().uninstall().unwrap();
    assert_eq!(names(&node.bin("")), ["bridge"]);
    assert_eq!(names(&node.conf("")), ["87-podman.conflist"]);
    node.directories().uninstall().unwrap();
}

#[test]
fn plugins_stay_when_the_conf_can_not_be_taken_out() {
    let node = Node::new();
    node.directories().install_plugins(&node.directory_source()).unwrap();
    fs::create_dir_all(node.conf(CONF_NAME)).unwrap();
    let error = node.directories().uninstall().unwrap_err().to_string();
    assert!(
        error.starts_with("--cni-conf-dir ") && error.contains(CONF_NAME),
        "{error}"
    );
    assert_eq!(node.installed().len(), 2);
}

#[test]
fn a_symlink_in_place_of_a_plugin_is_replaced_and_not_followed() {
    let node = Node::new();
    let elsewhere = node.base.path().join("elsewhere");
    fs::write(&elsewhere, "theirs").unwrap();
    fs::create_dir_all(node.bin("")).unwrap();
    symlink(&elsewhere, node.bin("berth-cni")).unwrap();
    node.directories().install_plugins(&node.directory_source()).unwrap();
    assert_eq!(node.installed(), ["new berth-ipam", "new berth-cni"]);
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "theirs");
}

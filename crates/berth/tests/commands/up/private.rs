//! Whatever `berth up` keeps is for its owner alone: Secrets are in it, and keys.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Running, up};

/// The same command under this umask.
fn under(umask: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask \"$1\" && shift && exec \"$@\"", "sh", umask]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// All files and directories below, with their permissions. Nothing for what is being replaced.
fn below(directory: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        if metadata.is_dir() {
            found.extend(below(&path));
        }
        if metadata.is_dir() || metadata.is_file() {
            found.push((path, metadata.permissions().mode() & 0o7777));
        }
    }
    found
}

fn check_private(directory: &Path) {
    let found = below(directory);
    let named = |name: &str| found.iter().any(|(path, _)| path.ends_with(name));
    for name in [
        "objects.redb",
        "ledger.redb",
        "kubeconfig",
        "pki/ca.key",
        "pki/token",
        "nodes/berth-node-1",
    ] {
        assert!(named(name), "{name} is not in {found:?}");
    }
    for (path, mode) in found {
        assert_eq!(mode & 0o077, 0, "{} is {mode:o}", path.display());
    }
}

#[test]
fn what_is_kept_is_private_in_a_directory_that_was_there() {
    for umask in ["000", "022"] {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let berth = Running::start(under(umask, &up(directory.path())));
        check_private(directory.path());
        drop(berth);
    }
}

#[test]
fn what_was_open_to_all_is_private_after_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    drop(Running::start(up(directory.path())));
    for (path, mode) in below(directory.path()) {
        fs::set_permissions(path, Permissions::from_mode(mode | 0o044)).unwrap();
    }
    let berth = Running::start(under("000", &up(directory.path())));
    check_private(directory.path());
    drop(berth);
}

#[test]
fn a_first_start_that_was_killed_half_way_needs_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let pki = directory.path().join("pki");
    fs::create_dir(&pki).unwrap();
    fs::write(pki.join("token"), "half").unwrap();
    fs::write(pki.join("ca.key"), "half").unwrap();
    let berth = Running::start(up(directory.path()));
    assert!(berth.kubeconfig().exists());
    assert!(pki.join("ca.crt").exists());
}

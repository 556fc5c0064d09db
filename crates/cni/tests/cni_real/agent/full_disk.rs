//! DEL on a disk without room, with the agent away: the deadlock of a node that can't delete its
//! pods.

use std::path::{Path, PathBuf};
use std::process::Command;

use berth_agent::queue::{Directory, Flavour};
use berth_api::agent::overflow_of;

use super::serving::Serving;
use crate::call::{Call, IPAM, ipam_conf};

/// A file system of its own, as small as they come.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path, options: &str) -> Self {
        std::fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "small"]).arg(at);
        assert!(mount.status().unwrap().success());
        Self(at.to_owned())
    }

    fn names(&self) -> Vec<String> {
        let found = std::fs::read_dir(&self.0).unwrap();
        found
            .map(|found| found.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(&self.0).status());
    }
}

fn call(command: &str, directory: &Path) -> crate::call::Done {
    Call::new(IPAM, command).run(&ipam_conf(directory))
}

#[test]
fn a_del_succeeds_on_a_full_disk_and_the_agent_knows_of_it() {
    // Without blocks, and without inodes.
    for options in ["size=16k", "size=1m,nr_inodes=6"] {
        let directory = tempfile::tempdir().unwrap();
        let small = Small::mount(&directory.path().join("queue"), options);
        let serving = Serving::start(directory.path(), 2);
        call("ADD", directory.path()).result();
        drop(serving);
        for n in 0..100 {
            // As many files as go, each as long as it can be.
            drop(std::fs::write(small.0.join(format!(".other-{n}")), vec![0; 1 << 20]));
        }
        let probe = std::fs::write(small.0.join(".probe"), "x");
        assert!(probe.is_err(), "{options}: there is room");
        drop(std::fs::remove_file(small.0.join(".probe")));
        for _ in 0..2 {
            call("DEL", directory.path()).silent();
            let names = small.names();
            let marks: Vec<_> = names.iter().filter_map(|name| overflow_of(name)).collect();
            assert_eq!(marks.len(), 1, "{options}: {names:?}");
            assert!(!names.contains(&"c1:eth0".to_owned()), "{options}: {names:?}");
        }
        // The next agent finds it, and with the disk still full it can take it away.
        let queue = Directory::open(&small.0, Flavour::Ours).unwrap();
        let mark = queue.mark().unwrap().unwrap();
        assert!(queue.unmark(mark).unwrap());
        assert_eq!(queue.mark().unwrap(), None);
    }
}

//! A machine that systemd runs: the files of this one, under what the test writes, with a network
//! of its own.

use std::cell::RefCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_testkit::until_so;
use tempfile::TempDir;

use super::run;

const HOST_NAME: &str = "bare";

/// What it starts with. The services that this machine has enabled stay off.
const TARGET: &str = "[Unit]\nRequires=basic.target\nAfter=basic.target\nAllowIsolate=yes\n";

/// Machines of one process would have one control group.
static TURN: Mutex<()> = Mutex::new(());

/// It is gone when this is dropped.
pub struct Machine {
    _turn: MutexGuard<'static, ()>,
    nspawn: RefCell<Child>,
    /// The first process in it, as this machine numbers it.
    init: Option<u32>,
    directory: TempDir,
}

impl Machine {
    pub fn boot() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        run(Command::new("mount").args(["-t", "tmpfs", "berth-test", path]));
        for part in ["upper", "work", "root"] {
            std::fs::create_dir(directory.path().join(part)).unwrap();
        }
        let options = format!("lowerdir=/,upperdir={path}/upper,workdir={path}/work");
        let root = format!("{path}/root");
        run(Command::new("mount").args(["-t", "overlay", "berth-test", "-o", &options, &root]));
        std::fs::write(format!("{root}/etc/systemd/system/berth-test.target"), TARGET).unwrap();
        std::fs::write(format!("{root}/etc/hostname"), HOST_NAME).unwrap();
        let mut command = Command::new("systemd-nspawn");
        command
            .args(["--quiet", "--boot", "--register=no", "--keep-unit", "--private-network"])
            .args(["--console=pipe", "--link-journal=no", "--directory", &root])
            .arg(format!("--machine=berth-{}", path.rsplit(['.', '/']).next().unwrap()))
            .args(["--", "--unit=berth-test.target"])
            .stdin(Stdio::null())
            .stdout(File::create(directory.path().join("console")).unwrap());
        let nspawn = RefCell::new(command.spawn().unwrap());
        let mut machine = Self {
            _turn: turn,
            nspawn,
            init: None,
            directory,
        };
        machine.init = Some(machine.find_init());
        machine.wait_for(&["systemctl", "is-active", "berth-test.target"]);
        machine
    }

    /// The one that is the first in its own namespace: systemd-nspawn has another child before,
    /// which makes this one and ends.
    fn find_init(&self) -> u32 {
        let id = self.nspawn.borrow().id();
        let is_first = |process: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{process}/status"));
            let status = status.unwrap_or_default();
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            numbers.is_some_and(|numbers| numbers.trim_end().ends_with("\t1"))
        };
        let mut init = None;
        until_so("systemd-nspawn has started systemd", || {
            self.assert_runs();
            let children = format!("/proc/{id}/task/{id}/children");
            let children = std::fs::read_to_string(children).unwrap_or_default();
            let mut children = children.split_whitespace().map(|child| child.parse().unwrap());
            init = children.find(is_first);
            init.is_some()
        });
        init.unwrap()
    }

    fn assert_runs(&self) {
        if let Some(status) = self.nspawn.borrow_mut().try_wait().unwrap() {
            let console = std::fs::read(self.directory.path().join("console")).unwrap();
            let console = String::from_utf8_lossy(&console).into_owned();
            panic!("the machine has ended with {status}: {console}");
        }
    }

    /// A file of this machine's, as it is seen from outside. What is in /tmp is not: it has one of
    /// its own.
    pub fn file(&self, path: &str) -> PathBuf {
        self.directory.path().join("root").join(path.trim_start_matches('/'))
    }

    /// The same file, as it is seen inside.
    pub fn inside(&self, file: &Path) -> String {
        let root = self.directory.path().join("root");
        format!("/{}", file.strip_prefix(root).unwrap().display())
    }

    /// A command in it, in a directory of it.
    pub fn command(&self, directory: &Path, words: &[&str]) -> Command {
        let init = self.init.unwrap().to_string();
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &init, "--all", "--"])
            .args(["env", "--chdir"])
            .arg(directory)
            .args(words);
        command
    }

    pub fn run(&self, words: &[&str]) -> String {
        run(&mut self.command(Path::new("/"), words))
    }

    /// Until the command succeeds.
    pub fn wait_for(&self, words: &[&str]) -> String {
        let mut said = String::new();
        until_so(&words.join(" "), || {
            self.assert_runs();
            let output = self.command(Path::new("/"), words).output().unwrap();
            said = String::from_utf8_lossy(&output.stdout).into_owned();
            output.status.success()
        });
        said
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Everything in it goes with its first process. systemd-nspawn alone would leave it behind.
        let nspawn = self.nspawn.get_mut();
        match self.init {
            Some(init) => {
                drop(Command::new("kill").args(["-KILL", &init.to_string()]).status());
            }
            None => drop(nspawn.kill()),
        }
        drop(nspawn.wait());
        for mount in [self.directory.path().join("root"), self.directory.path().to_owned()] {
            drop(Command::new("umount").arg("--lazy").arg(mount).status());
        }
    }
}

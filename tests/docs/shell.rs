//! A shell for one page: with a home, a network and processes of its own, and our program on the
//! `PATH`. All of that ends with the shell.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use berth_e2e::docs::{Command, root};
use berth_testbed::{Programs, WITHOUT_COLLECTOR};

use crate::expect::{is_error, is_shown};

/// The reader's home directory in the pages.
const HOME: &str = "/home/you";
/// Begins the line that follows the output of a command.
const MARK: &str = "--- berth-docs:";
/// Commands of ours that run until they are told to end.
const PROCESSES: [&str; 7] = [
    "up",
    "controller",
    "allocator",
    "agent",
    "scheduler",
    "machine-ipam",
    "dashboard",
];
/// An output that has not changed for this long will not change any more.
const STANDSTILL: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Takes the place of cargo: `cargo run -- …` runs the program that is built already, and anything
/// else is refused.
const CARGO: &str = r#"#!/bin/bash
[[ $1 == run ]] || { echo "cargo $*: not run here"; exit 1; }
while [[ $1 != -- ]]; do shift; done
shift
exec berth "$@"
"#;

pub struct Shell {
    bash: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    directory: tempfile::TempDir,
    has_cluster: bool,
}

pub fn is_up(command: &str) -> bool {
    process(command) == Some("up")
}

/// The one of `PROCESSES` that the command starts, if any.
fn process(command: &str) -> Option<&str> {
    let mut words = command.split_whitespace();
    let first = words.next()?;
    let name = match first {
        "berth" => words.next(),
        "cargo" if words.next() == Some("run") => words.skip_while(|word| *word != "--").nth(1),
        _ => None,
    }?;
    let ends = command.contains("--help") || command.contains("--uninstall-cni");
    PROCESSES.into_iter().find(|process| *process == name && !ends)
}

/// Commands that only look: they can be given again until they show what the page shows.
fn looks(command: &str) -> bool {
    let mut words: Vec<&str> = command.split_whitespace().collect();
    if let ["cargo", "run", rest @ ..] = words.as_slice() {
        let given = rest.iter().skip_while(|word| **word != "--").skip(1);
        words = std::iter::once("berth").chain(given.copied()).collect();
    }
    words.truncate(2);
    matches!(
        words.as_slice(),
        ["kubectl", "get" | "describe" | "wait" | "explain"]
            | ["berth", "status" | "explain" | "check"]
            | ["curl", _]
    )
}

impl Shell {
    pub fn open() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = prepare(directory.path()).map_err(|error| error.to_string())?;
        let mut command = std::process::Command::new("unshare");
        command
            .args(["--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"])
            .args(["bash", "--noprofile", "--norc"])
            .current_dir(directory.path().join("work"))
            .env_clear()
            .env("PATH", path)
            .env("HOME", directory.path().join("home"))
            .env("TMPDIR", directory.path().join("tmp"))
            .env("LANG", "C.UTF-8")
            .env(WITHOUT_COLLECTOR.0, WITHOUT_COLLECTOR.1)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut bash = command.spawn().map_err(|error| format!("starting unshare: {error}"))?;
        let (Some(input), Some(output)) = (bash.stdin.take(), bash.stdout.take()) else {
            return Err("bash has no pipes".to_owned());
        };
        let mut shell = Self {
            bash,
            input,
            output: BufReader::new(output),
            directory,
            has_cluster: false,
        };
        shell.done("exec 2>&1; ip link set lo up")?;
        Ok(shell)
    }

    /// A cluster for the page, if it has none.
    pub fn up(&mut self) -> Result<(), String> {
        if self.has_cluster {
            return Ok(());
        }
        self.start("berth up")
    }

    pub fn follow(&mut self, command: &Command) -> Result<(), String> {
        let text = command.text.replace(HOME, &self.home());
        let page: Vec<String> = command
            .output
            .iter()
            .map(|line| line.replace(HOME, &self.home()))
            .collect();
        if process(&text).is_none() {
            return self.expect(&text, &page, looks(&text));
        }
        self.start(&text)?;
        let log = format!("cat {}", self.log().display());
        self.expect(&log, &page, true)
    }

    /// Runs the command until it prints what the page shows; only once if it may change something.
    fn expect(&mut self, text: &str, page: &[String], looks: bool) -> Result<(), String> {
        let mut last = String::new();
        let mut changed = Instant::now();
        loop {
            let (code, output) = self.run(text)?;
            if (code == 0 || is_error(page)) && is_shown(page, &output) {
                return Ok(());
            }
            // Ages and counts change even if nothing else does.
            let without_digits: String = output.chars().filter(|c| !c.is_numeric()).collect();
            if without_digits != last {
                last = without_digits;
                changed = Instant::now();
            }
            // A command that may change something is run once.
            if !looks || changed.elapsed() > STANDSTILL {
                return Err(format!(
                    "exit code {code}, and the page shows\n{}\nwhile it printed\n{output}",
                    page.join("\n")
                ));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Starts a process of ours, and waits until it says that it is up.
    fn start(&mut self, command: &str) -> Result<(), String> {
        if is_up(command) && self.has_cluster {
            self.done("kill $berth_up; wait $berth_up; rm -rf ~/.local/share/berth")?;
        }
        let log = self.log();
        let log = log.display();
        let body = command.trim_end().trim_end_matches('&');
        self.done(&format!(
            "process() {{ {body}\n}}\n\
             : >{log}\nprocess >{log} 2>&1 &\nberth_process=$!\n\
             until grep -qE 'is up|started|serving|listening' {log}; do\n\
             kill -0 $berth_process || {{ cat {log}; false; return; }}\nsleep 0.1\ndone"
        ))?;
        if is_up(command) {
            self.has_cluster = true;
            self.done(
                "berth_up=$berth_process; export KUBECONFIG=~/.local/share/berth/kubeconfig",
            )?;
        }
        Ok(())
    }

    fn done(&mut self, script: &str) -> Result<(), String> {
        self.printed(script).map(drop)
    }

    pub fn printed(&mut self, script: &str) -> Result<String, String> {
        match self.run(script)? {
            (0, output) => Ok(output),
            (code, output) => Err(format!("exit code {code}: {output}")),
        }
    }

    /// The exit code, and what was printed.
    fn run(&mut self, script: &str) -> Result<(i32, String), String> {
        let file = self.directory.path().join("command.sh");
        let ended = |error: std::io::Error| format!("the shell has ended: {error}");
        fs::write(&file, format!("{script}\n")).map_err(ended)?;
        let file = file.display();
        writeln!(self.input, ". {file} </dev/null; printf '\\n{MARK} %s\\n' $?").map_err(ended)?;
        let mut printed = String::new();
        loop {
            let mut line = Vec::new();
            let read = self.output.read_until(b'\n', &mut line).map_err(ended)?;
            if read == 0 {
                return Err(format!("the shell has ended: {printed}"));
            }
            let line = String::from_utf8_lossy(&line);
            match line.strip_prefix(MARK) {
                None => printed += &line,
                Some(code) => return Ok((code.trim().parse().unwrap_or(-1), printed)),
            }
        }
    }

    /// The output of the last process that was started.
    fn log(&self) -> PathBuf {
        self.directory.path().join("process.log")
    }

    fn home(&self) -> String {
        self.directory.path().join("home").display().to_string()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The shell's processes end with it, see `--kill-child`.
        let _ = self.bash.kill();
        let _ = self.bash.wait();
    }
}

/// Makes the directories and programs, and returns the `PATH`.
fn prepare(directory: &Path) -> anyhow::Result<String> {
    for name in ["home", "work", "tmp", "bin"] {
        fs::create_dir(directory.join(name))?;
    }
    for name in ["deploy", "docs", "examples"] {
        symlink(root().canonicalize()?.join(name), directory.join("work").join(name))?;
    }
    let bin = directory.join("bin");
    symlink(berth_e2e::berth()?, bin.join("berth"))?;
    let kubectl: PathBuf = Programs::find()?.path("kubectl");
    symlink(kubectl, bin.join("kubectl"))?;
    let cargo = bin.join("cargo");
    fs::write(&cargo, CARGO)?;
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755))?;
    let system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    Ok(format!("{}:{system}", bin.display()))
}

#[test]
fn processes_of_ours_are_told_from_commands_that_end() {
    assert!(is_up("berth up --nodes 3 &") && is_up("cargo run --release -- up"));
    assert_eq!(process("berth allocator --listen 0.0.0.0:7445"), Some("allocator"));
    for ends in [
        "berth up --help",
        "berth status",
        "kubectl get pods",
        "cargo xtask test",
    ] {
        assert_eq!(process(ends), None, "{ends}");
    }
}

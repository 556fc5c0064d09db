//! What people type: the machine's own kubectl, its output and its effect.
//!
//! `BERTH_TEST_KUBECTL` names other binaries than the one in `PATH`, separated by `:`; every test
//! then runs once with each of them.

mod apply;
mod basics;
mod change;
mod create;
mod custom;
mod delete;
mod events;
mod nodes;
mod read;
mod rollout;
mod round_trip;
mod wait;
mod workloads;

use std::io::{BufRead, BufReader, Write};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::namespace::Namespace;
use crate::target::{left_out, target};

/// One kubectl binary with a namespace of its own.
struct Kubectl {
    program: PathBuf,
    namespace: Namespace,
}

/// Runs a test with each binary that is to be tested.
fn each(test: impl Fn(&Kubectl)) {
    static PROGRAMS: LazyLock<Vec<PathBuf>> = LazyLock::new(programs);
    if PROGRAMS.is_empty() {
        left_out("kubectl");
    }
    for program in &*PROGRAMS {
        test(&Kubectl {
            program: program.clone(),
            namespace: Namespace::new(),
        });
    }
}

fn programs() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os("BERTH_TEST_KUBECTL") {
        return std::env::split_paths(&named).collect();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|directory| directory.join("kubectl"))
        .find(|file| file.is_file());
    if found.is_none() {
        let why = "there is no kubectl in PATH, and BERTH_TEST_KUBECTL names none";
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{why}");
    }
    found.into_iter().collect()
}

/// A command line: a text that is cut at blanks, or a list where an argument has blanks in it.
trait Line {
    fn words(&self) -> Vec<&str>;
}

impl Line for &str {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Line for &String {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl<const N: usize> Line for [&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Line for Vec<&str> {
    fn words(&self) -> Vec<&str> {
        self.clone()
    }
}

struct Outcome {
    code: i32,
    out: String,
    err: String,
}

impl Kubectl {
    fn command(&self, line: &impl Line) -> Command {
        let mut command = Command::new(&self.program);
        let cache = self.program.to_string_lossy().replace('/', "_");
        command
            .arg("--kubeconfig")
            .arg(&target().kubeconfig)
            .arg("--cache-dir")
            .arg(target().scratch.join(cache))
            .args(["--namespace", &self.namespace.name])
            .args(line.words())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, line: impl Line, input: &str, set: &[(&str, &str)]) -> Outcome {
        let mut command = self.command(&line);
        command.envs(set.iter().copied());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It may end without reading: its answer says why.
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        Outcome {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// What a command prints that must succeed.
    #[track_caller]
    fn ok(&self, line: impl Line) -> String {
        self.fed("", line)
    }

    /// The same with something at its standard input.
    #[track_caller]
    fn fed(&self, input: &str, line: impl Line) -> String {
        let shown = line.words().join(" ");
        let outcome = self.run(line, input, &[]);
        let Outcome { code, out, err } = outcome;
        assert_eq!(code, 0, "{}: kubectl {shown}\n{out}{err}", self.program.display());
        out
    }

    /// The same, as JSON.
    #[track_caller]
    fn json(&self, line: &str) -> Value {
        let line = format!("{line} -o json");
        serde_json::from_str(&self.ok(&line)).unwrap()
    }

    /// What a command prints to standard error that must fail.
    #[track_caller]
    fn fails(&self, line: impl Line) -> String {
        self.fails_fed("", line)
    }

    #[track_caller]
    fn fails_fed(&self, input: &str, line: impl Line) -> String {
        let shown = line.words().join(" ");
        let outcome = self.run(line, input, &[]);
        assert_ne!(
            outcome.code,
            0,
            "{}: kubectl {shown}\n{}",
            self.program.display(),
            outcome.out
        );
        outcome.err
    }

    /// Starts a command that goes on, such as a watch.
    fn start(&self, line: impl Line) -> Running {
        let mut child = self
            .command(&line)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let errors = sender.clone();
        std::thread::spawn(move || {
            BufReader::new(out)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        std::thread::spawn(move || {
            BufReader::new(err)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| errors.send(line))
        });
        Running { child, lines }
    }
}

impl Deref for Kubectl {
    type Target = Namespace;

    fn deref(&self) -> &Namespace {
        &self.namespace
    }
}

/// Only ends a run that would hang: no test states a time.
const BOUND: Duration = Duration::from_secs(3600);

/// A command that has been started. It ends with this value.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    /// The next line that has this in it. The bound only ends a run that would hang.
    #[track_caller]
    fn line_with(&self, part: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(BOUND) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => seen.push(line),
                Err(error) => panic!("no line with {part:?}: {error}\n{}", seen.join("\n")),
            }
        }
    }

    /// Waits for its end, which must be a success.
    #[track_caller]
    fn succeeds(mut self) -> String {
        let status = self.child.wait().unwrap();
        let lines: Vec<String> = self.lines.iter().collect();
        let lines = lines.join("\n");
        assert!(status.success(), "{lines}");
        lines
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The cells of the row that begins with this word. Cells are cut at two blanks or more.
#[track_caller]
fn row<'t>(table: &'t str, first: &str) -> Vec<&'t str> {
    let found = table.lines().find(|line| line.split_whitespace().next() == Some(first));
    let line = found.unwrap_or_else(|| panic!("no row {first} in\n{table}"));
    line.split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect()
}

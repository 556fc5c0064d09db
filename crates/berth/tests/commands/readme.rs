//! The README's quick start, command by command, as a newcomer types it: in an empty directory,
//! with a home that has nothing in it. `cargo run --release --` stands for the built program.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::up::has_kubectl;

const PROGRAM: &str = "cargo run --release --";
/// Whose paths the README shows.
const HOME: &str = "/home/you";

/// A command, and the lines that follow it.
#[derive(Debug)]
struct Shown {
    command: String,
    output: Vec<String>,
}

/// The blocks of the section, each with its commands.
fn blocks(readme: &str) -> Vec<Vec<Shown>> {
    let (_, section) = readme.split_once("\n## Quick start\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut blocks = Vec::new();
    for block in section.split("```console up\n").skip(1) {
        let (block, _) = block.split_once("```").unwrap();
        let mut shown: Vec<Shown> = Vec::new();
        for line in block.lines() {
            match (line.strip_prefix("$ "), shown.last_mut()) {
                (Some(command), _) => shown.push(Shown {
                    command: command.to_owned(),
                    output: Vec::new(),
                }),
                (None, Some(last)) => last.output.push(line.to_owned()),
                (None, None) => panic!("{line} is not a command: begin it with `$ `"),
            }
        }
        blocks.push(shown);
    }
    blocks
}

struct Newcomer {
    home: tempfile::TempDir,
    directory: tempfile::TempDir,
}

impl Newcomer {
    /// What is typed, with the program and the home of here.
    fn typed(&self, command: &str) -> String {
        let home = self.home.path().to_str().unwrap();
        command
            .replace(PROGRAM, env!("CARGO_BIN_EXE_berth"))
            .replace(HOME, home)
    }

    fn shell(&self) -> Command {
        let mut shell = Command::new("bash");
        shell.env_clear().current_dir(self.directory.path());
        shell
            .env("HOME", self.home.path())
            .env("PATH", std::env::var_os("PATH").unwrap())
            // So that the test can run beside others, and beside a cluster that somebody uses.
            .env("BERTH_API_LISTEN", "127.0.0.1:0")
            .env("BERTH_DASHBOARD_LISTEN", "127.0.0.1:0");
        shell
    }
}

/// A test that fails must not leave a server behind.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn a_newcomer_gets_through_the_quick_start_as_it_stands() {
    if !has_kubectl() {
        return;
    }
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let blocks = blocks(&std::fs::read_to_string(readme).unwrap());
    let newcomer = Newcomer {
        home: tempfile::tempdir().unwrap(),
        directory: tempfile::tempdir().unwrap(),
    };
    let [first, rest @ ..] = blocks.as_slice() else {
        panic!("there is no block");
    };
    let [up] = first.as_slice() else {
        panic!("the first block starts the cluster, and nothing else: {first:?}");
    };
    assert_eq!(up.command, format!("{PROGRAM} up"));

    let mut shell = newcomer.shell();
    let typed = format!("exec {}", newcomer.typed(&up.command));
    let mut cluster = Ended(shell.args(["-c", &typed]).stdout(Stdio::piped()).spawn().unwrap());
    let mut out = BufReader::new(cluster.0.stdout.take().unwrap()).lines();
    for expected in &up.output {
        let line = out.next().unwrap().unwrap();
        match expected.strip_prefix("Dashboard:") {
            Some(_) => assert!(line.starts_with("Dashboard:   http://127.0.0.1:"), "{line}"),
            None => assert_eq!(line, newcomer.typed(expected)),
        }
    }

    let mut count = 0;
    for block in rest {
        count += block.len();
        second_terminal(&newcomer, block);
    }
    assert!(count >= 5, "the section has hardly a command: {blocks:?}");

    let id = cluster.0.id().to_string();
    let sent = Command::new("kill").args(["-s", "INT", &id]).status().unwrap();
    assert!(sent.success());
    assert_eq!(cluster.0.wait().unwrap().code(), Some(0));
    let left = std::fs::read_dir(newcomer.directory.path()).unwrap().count();
    assert_eq!(left, 0, "nothing is left where it was started");
}

/// What is typed. A `kubectl get` whose output is shown is typed again until it prints something: a
/// newcomer is slower than the cluster, this shell is not.
fn script(newcomer: &Newcomer, shown: &Shown) -> String {
    let typed = newcomer.typed(&shown.command);
    if shown.command.starts_with("kubectl get") && !shown.output.is_empty() {
        return format!("while out=$({typed}) && [ -z \"$out\" ]; do sleep 0.1; done\n{typed}");
    }
    typed
}

/// All commands of a block in one shell; each must succeed, and begin as the README shows.
fn second_terminal(newcomer: &Newcomer, block: &[Shown]) {
    const MARK: &str = "--- next command ---";
    let typed: String = block
        .iter()
        .map(|shown| format!("{}\necho '{MARK}'\n", script(newcomer, shown)))
        .collect();
    let ended = newcomer.shell().args(["-e", "-c", &typed]).output().unwrap();
    let out = String::from_utf8(ended.stdout).unwrap();
    let parts: Vec<&str> = out.split(MARK).collect();
    let failed = block.get(parts.len() - 1).map_or("", |shown| &shown.command);
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "README.md: `{failed}`: {errors}");
    for (shown, printed) in block.iter().zip(parts) {
        let Some(expected) = shown.output.first() else {
            continue;
        };
        let first = printed.trim_start().lines().next().unwrap_or_default();
        assert_eq!(words(first), words(expected), "README.md: `{}`", shown.command);
    }
}

#[test]
fn the_blocks_of_a_section_are_told_apart_with_their_commands() {
    let readme = "# X\n\n## Quick start\n\n```console up\n$ a -- b\nout\n```\n\n\
                  ```console up\n$ c\n$ d\n```\n\n## Next\n\n```console up\n$ e\n```\n";
    let found = blocks(readme);
    let commands: Vec<Vec<&str>> = found
        .iter()
        .map(|block| block.iter().map(|shown| shown.command.as_str()).collect())
        .collect();
    assert_eq!(commands, [vec!["a -- b"], vec!["c", "d"]]);
    assert_eq!(found[0][0].output, ["out"]);
}

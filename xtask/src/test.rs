//! `cargo xtask test`: every test of the workspace, in parts, each closed by a line `part: N passed, N failed`.
//!
//! All parts are `cargo test --workspace` with filters: with another selection of packages cargo would unify their features differently, and
//! compile the dependencies once more for each.

mod part;
mod real;
mod tally;

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::cargo::cargo;
use part::{Part, Targets};
use tally::Tally;

#[derive(Debug, clap::Args)]
pub struct Test {
    /// Which parts to run; all when none is named.
    #[arg(value_enum, value_name = "PART")]
    parts: Vec<Part>,
}

impl Test {
    pub fn run(self) -> Result<ExitCode> {
        let targets = Targets::of_workspace()?;
        let parts: Vec<Part> = Part::value_variants()
            .iter()
            .copied()
            .filter(|part| self.parts.is_empty() || self.parts.contains(part))
            .collect();
        if let Some(shorter) = shorter_than(&std::env::temp_dir()) {
            println!("TMPDIR is too long for the sockets of tests: they use {shorter}");
        }
        let mut total = Tally::default();
        let parts = with_real_ones(parts, &mut total)?;
        if self.parts.is_empty() {
            build_all()?;
        }
        let mut lines = Vec::new();
        for part in parts {
            println!("\n== {part}: {}", part.about());
            let start = Instant::now();
            let tally = run(part, &targets)?;
            println!("{part} took {:.1} s", start.elapsed().as_secs_f64());
            let line = format!("{part}: {tally}");
            println!("{line}");
            lines.push(line);
            total += tally;
        }
        println!("\n{}", lines.join("\n"));
        println!("total: {total}");
        Ok(if total.failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// The kernel ends a socket's path after 107 bytes. What tests add to the directory for temporary
/// files takes up to 60 of them.
fn shorter_than(directory: &Path) -> Option<&'static str> {
    const MAX_LENGTH: usize = 47;
    (directory.as_os_str().len() > MAX_LENGTH).then_some("/tmp")
}

/// Everything at once keeps all cores busy, and shows cargo's own progress.
fn build_all() -> Result<()> {
    println!("== building the tests");
    let start = Instant::now();
    let status = cargo()
        .args(["test", "--workspace", "--tests", "--no-run"])
        .status()
        .context("starting cargo test")?;
    ensure!(status.success(), "the tests do not compile");
    println!("building took {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Sets up a real Kubernetes if one is asked for. Where this machine can't have it, one line says so and the parts that need it are left out.
fn with_real_ones(mut parts: Vec<Part>, total: &mut Tally) -> Result<Vec<Part>> {
    if !parts.iter().any(|part| part.is_real()) {
        return Ok(parts);
    }
    match real::obstacle() {
        None => real::set_up()?,
        Some(why) => {
            println!("tests on a real Kubernetes are left out: {why}");
            parts.retain(|part| !part.is_real());
            *total += left_out();
        }
    }
    Ok(parts)
}

/// What the machine lacks is a failure only where it is meant to have everything.
fn left_out() -> Tally {
    let mut tally = Tally::default();
    if std::env::var_os("CI").is_some_and(|value| value == "true") {
        println!("CI=true: what is left out counts as failed");
        tally.failed = 1;
    }
    tally
}

fn run(part: Part, targets: &Targets) -> Result<Tally> {
    let mut command = cargo();
    command
        .args(["test", "--workspace", "--no-fail-fast"])
        .args(targets.filters(part))
        .arg("--");
    if let Some(shorter) = shorter_than(&std::env::temp_dir()) {
        command.env("TMPDIR", shorter);
    }
    let mut tally = Tally::default();
    match part {
        Part::Api | Part::ApiReal => match real::kubectls() {
            Some(kubectls) => drop(command.env("BERTH_TEST_KUBECTL", kubectls)),
            None => {
                println!("there is no kubectl on the PATH: the tests that drive it are left out");
                command.args(["--skip", "kubectl"]);
                tally += left_out();
            }
        },
        // Each starts a cluster of its own.
        Part::E2e => drop(command.arg("--test-threads=1")),
        Part::Unit | Part::Doc | Part::Integration | Part::Crash | Part::Real => {}
    }
    // Held until the suite is through.
    let cluster = (part == Part::ApiReal).then(real::cluster).transpose()?;
    if let Some(cluster) = &cluster {
        real::aim(&mut command, cluster);
    }
    tally += stream(command, io::stdout().lock())?;
    if let Some(cluster) = cluster {
        cluster.down()?;
    }
    Ok(tally)
}

/// Shows what `command` prints as it comes, and counts.
fn stream(mut command: Command, mut shown: impl Write) -> Result<Tally> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("starting cargo test")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    let mut tally = Tally::default();
    for line in BufReader::new(output).split(b'\n') {
        let mut line = line?;
        tally.count(&String::from_utf8_lossy(&line));
        line.push(b'\n');
        shown.write_all(&line)?;
    }
    let status = child.wait()?;
    // A test program that was killed, or does not compile, has no result line: nothing may be lost for that.
    if !status.success() && tally.failed == 0 {
        writeln!(shown, "cargo test ended with {status} and named no failed test")?;
        tally.failed = 1;
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Tally {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        stream(command, io::sink()).unwrap()
    }

    #[test]
    fn a_run_that_ends_badly_without_a_failed_test_counts_as_one() {
        let tally = shell("echo 'test result: ok. 2 passed; 0 failed; 0 ignored'; exit 101");
        assert_eq!((tally.passed, tally.failed), (2, 1));
    }

    #[test]
    fn a_long_directory_for_temporary_files_gives_way_to_a_short_one() {
        assert_eq!(shorter_than(Path::new("/var/tmp")), None);
        let long = format!("/{}", "x".repeat(80));
        assert_eq!(shorter_than(Path::new(&long)), Some("/tmp"));
    }

    #[test]
    fn failed_tests_are_not_counted_twice() {
        let tally = shell("echo 'test result: FAILED. 1 passed; 3 failed; 0 ignored'; exit 101");
        assert_eq!((tally.passed, tally.failed), (1, 3));
    }
}

//! `cargo xtask test`: every test of the workspace, in parts, each closed by a line `part: N passed, N failed`.
//!
//! All parts are `cargo test --workspace` with filters: with another selection of packages cargo would unify their features differently, and
//! compile the dependencies once more for each.

mod part;
mod tally;

use std::io::{self, BufRead, BufReader, Write};
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
        if self.parts.is_empty() {
            build_all()?;
        }
        let mut total = Tally::default();
        for part in parts {
            println!("\n== {part}: {}", part.about());
            let start = Instant::now();
            let tally = run(part, &targets)?;
            println!("{part} took {:.1} s", start.elapsed().as_secs_f64());
            println!("{part}: {tally}");
            total += tally;
        }
        println!("\ntotal: {total}");
        Ok(if total.failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
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

fn run(part: Part, targets: &Targets) -> Result<Tally> {
    let mut command = cargo();
    command
        .args(["test", "--workspace", "--no-fail-fast"])
        .args(targets.filters(part))
        .arg("--");
    let mut left_out = Tally::default();
    if part == Part::Api && !kubectl_runs() {
        println!("there is no kubectl on the PATH: the tests that drive it are left out");
        command.args(["--skip", "kubectl"]);
        if std::env::var_os("CI").is_some_and(|value| value == "true") {
            println!("CI=true: what is left out counts as failed");
            left_out.failed = 1;
        }
    }
    let mut tally = stream(command, io::stdout().lock())?;
    tally += left_out;
    Ok(tally)
}

/// The suite takes the one on the PATH, or those that the variable names.
fn kubectl_runs() -> bool {
    if std::env::var_os("BERTH_TEST_KUBECTL").is_some() {
        return true;
    }
    let mut command = Command::new("kubectl");
    command
        .args(["version", "--client"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
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
        assert_eq!(tally, Tally { passed: 2, failed: 1 });
    }

    #[test]
    fn failed_tests_are_not_counted_twice() {
        let tally = shell("echo 'test result: FAILED. 1 passed; 3 failed; 0 ignored'; exit 101");
        assert_eq!(tally, Tally { passed: 1, failed: 3 });
    }
}

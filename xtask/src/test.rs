//! `cargo xtask test`: every test of the workspace, in parts, each closed by a line
//! `part: N passed, N failed`.
//!
//! All parts are `cargo test --workspace` with filters: for another selection of packages cargo
//! would unify features differently, and compile the dependencies again.

mod output;
mod part;
mod real;
mod tally;

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use clap::ValueEnum;

use crate::cargo::cargo;
use part::{Lane, Part, Targets};
use tally::Tally;

/// Marks the end of a run's output. No test prints it.
const END_MARK: &[u8] = b"\0the run has ended\n";

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
        let parts = without_unavailable(parts, &mut total);
        let mut lines = Vec::new();
        for (part, tally) in build_and_run(&parts, &targets, self.parts.is_empty())? {
            lines.push(format!("{part}: {tally}"));
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

/// The kernel limits a socket's path to 107 bytes. Tests add up to 60 of them to the directory for
/// temporary files.
fn shorter_than(directory: &Path) -> Option<&'static str> {
    const MAX_LENGTH: usize = 47;
    (directory.as_os_str().len() > MAX_LENGTH).then_some("/tmp")
}

/// Removes parts that this machine cannot run, and says so in one line.
fn without_unavailable(mut parts: Vec<Part>, total: &mut Tally) -> Vec<Part> {
    let is_real = parts.iter().any(|part| part.is_real());
    if is_real && let Some(why) = real::obstacle() {
        println!("tests on a real Kubernetes are left out: {why}");
        parts.retain(|part| !part.is_real());
        *total += left_out();
    }
    parts
}

/// Builds and runs the tests. If a part needs a real Kubernetes, that is set up at the same time,
/// and all but the quickest parts wait for it: it needs all cores, and the longest lane cannot
/// start without it.
fn build_and_run(parts: &[Part], targets: &Targets, is_whole: bool) -> Result<Vec<(Part, Tally)>> {
    let set_up = SetUp::default();
    std::thread::scope(|scope| {
        if parts.iter().any(|part| part.is_real()) {
            scope.spawn(|| set_up.ensure());
        }
        if is_whole {
            build_all()?;
        }
        run_all(parts, targets, &set_up)
    })
}

/// The setup of a real Kubernetes: the first caller does it, all others wait for it.
#[derive(Debug, Default)]
struct SetUp {
    outcome: OnceLock<Result<(), String>>,
}

impl SetUp {
    fn ensure(&self) -> Result<()> {
        let outcome = self
            .outcome
            .get_or_init(|| real::set_up().map_err(|error| format!("{error:#}")));
        outcome.clone().map_err(anyhow::Error::msg)
    }
}

/// Builds all tests in one run of cargo, which uses all cores and shows its own progress.
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

/// Runs all parts, those of different lanes at the same time: most tests mainly wait, for a grace
/// period or for a kubelet. Their output is printed part after part.
fn run_all(parts: &[Part], targets: &Targets, set_up: &SetUp) -> Result<Vec<(Part, Tally)>> {
    let (shown, printer) = output::in_order(parts.len());
    let is_real = parts.iter().any(|part| part.is_real());
    let mut lanes: BTreeMap<Lane, Vec<(Part, output::Shown)>> = BTreeMap::new();
    for (part, shown) in parts.iter().copied().zip(shown) {
        lanes.entry(part.lane()).or_default().push((part, shown));
    }
    let alone = lanes.remove(&Lane::Alone).unwrap_or_default();
    let run_lane = |parts: Vec<(Part, output::Shown)>| {
        let run = |(part, shown): (Part, _)| {
            if is_real && !part.is_quick() {
                let done = set_up.ensure();
                // The setup also builds kubectl.
                if part.is_real() || part == Part::Api {
                    done?;
                }
            }
            run_shown(part, targets, shown)
        };
        parts.into_iter().map(run).collect::<Result<Vec<_>>>()
    };
    let mut tallies = std::thread::scope(|scope| {
        let running = scope.spawn(move || {
            let lanes = lanes.into_values().map(|parts| scope.spawn(move || run_lane(parts)));
            let lanes: Vec<_> = lanes.collect();
            let mut tallies = Vec::new();
            for lane in lanes {
                tallies.extend(joined(lane)?);
            }
            tallies.extend(run_lane(alone)?);
            Ok(tallies)
        });
        // Stdout is not locked: other threads print lines, too.
        printer.print_to(&mut io::stdout())?;
        joined(running)
    })?;
    tallies.sort_by_key(|(part, _)| parts.iter().position(|of| of == part));
    Ok(tallies)
}

fn joined<T>(thread: ScopedJoinHandle<Result<T>>) -> Result<T> {
    thread.join().map_err(|_| anyhow!("a lane of tests panicked"))?
}

fn run_shown(part: Part, targets: &Targets, mut shown: output::Shown) -> Result<(Part, Tally)> {
    writeln!(shown, "\n== {part}: {}", part.about())?;
    let start = Instant::now();
    let tally = run(part, targets, &mut shown)?;
    writeln!(shown, "{part} took {:.1} s", start.elapsed().as_secs_f64())?;
    writeln!(shown, "{part}: {tally}")?;
    Ok((part, tally))
}

/// Tests that the machine cannot run count as failed only in CI, which must have everything.
fn left_out() -> Tally {
    let mut tally = Tally::default();
    if std::env::var_os("CI").is_some_and(|value| value == "true") {
        println!("CI=true: what is left out counts as failed");
        tally.failed = 1;
    }
    tally
}

fn run(part: Part, targets: &Targets, shown: &mut impl Write) -> Result<Tally> {
    let mut command = cargo();
    command
        .args(["test", "--workspace", "--no-fail-fast"])
        .args(targets.filters(part))
        .arg("--");
    let (name, value) = part.collector();
    command.env(name, value);
    if let Some(shorter) = shorter_than(&std::env::temp_dir()) {
        command.env("TMPDIR", shorter);
    }
    let mut tally = Tally::default();
    match part {
        Part::Api | Part::ApiReal => match real::kubectls() {
            Some(kubectls) => drop(command.env("BERTH_TEST_KUBECTL", kubectls)),
            None => {
                let why = "there is no kubectl on the PATH: the tests that drive it are left out";
                writeln!(shown, "{why}")?;
                command.args(["--skip", "kubectl"]);
                tally += left_out();
            }
        },
        // Each test starts its own cluster.
        Part::Scheduling | Part::E2e | Part::Cluster => {
            command.arg("--test-threads=1");
        }
        // Most tests wait for a grace period to end, each on its own cluster.
        Part::Real => drop(command.arg("--test-threads=4")),
        Part::Unit | Part::Doc | Part::Integration | Part::Crash => {}
    }
    // The cluster lives until the suite has ended: dropping it would end it.
    let cluster = (part == Part::ApiReal).then(|| real::cluster(shown)).transpose()?;
    if let Some(cluster) = &cluster {
        real::use_cluster(&mut command, cluster);
    }
    tally += stream(command, shown)?;
    if let Some(cluster) = cluster {
        cluster.down()?;
    }
    Ok(tally)
}

/// Copies the output of `command` as it comes, and counts results.
fn stream(mut command: Command, mut shown: impl Write) -> Result<Tally> {
    let (output, written) = io::pipe().context("making a pipe")?;
    command
        .stdout(written.try_clone()?)
        .stderr(written.try_clone()?)
        .stdin(Stdio::null());
    let mut child = command.spawn().context("starting cargo test")?;
    // A process that a test left running may hold the pipe open for long, so the end of the pipe
    // means nothing. The mark follows all that was printed before the child ended.
    let waiting = std::thread::spawn(move || {
        let status = child.wait();
        (&written).write_all(END_MARK).and(status)
    });
    let mut tally = Tally::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let last = line.strip_suffix(END_MARK.trim_ascii_end());
        let text = last.unwrap_or(&line);
        tally.count(&String::from_utf8_lossy(text));
        if last.is_some() && text.is_empty() {
            break;
        }
        shown.write_all(text)?;
        shown.write_all(b"\n")?;
        if last.is_some() {
            break;
        }
    }
    let status = waiting
        .join()
        .map_err(|_| anyhow!("waiting for cargo test panicked"))??;
    // A test program that was killed, or does not compile, prints no result line: this must count
    // as a failure.
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
    fn a_tmpdir_that_is_too_long_for_sockets_is_replaced() {
        assert_eq!(shorter_than(Path::new("/var/tmp")), None);
        let long = format!("/{}", "x".repeat(80));
        assert_eq!(shorter_than(Path::new(&long)), Some("/tmp"));
    }

    #[test]
    fn a_process_that_a_test_left_running_is_not_waited_for() {
        let tally = shell("sleep 600 & echo 'test result: ok. 2 passed; 0 failed; 0 ignored'");
        assert_eq!((tally.passed, tally.failed), (2, 0));
    }

    #[test]
    fn all_that_is_printed_before_the_end_counts_and_is_shown() {
        // More output than the pipe holds, and a last line without a newline.
        let script = "yes 'test a ... ok' | head -n 100000
            printf 'test result: ok. 2 passed; 0 failed; 0 ignored'";
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut shown = Vec::new();
        let tally = stream(command, &mut shown).unwrap();
        assert_eq!((tally.passed, tally.failed), (2, 0));
        let shown = String::from_utf8(shown).unwrap();
        assert_eq!(shown.lines().count(), 100_001);
        assert!(shown.ends_with("0 ignored\n"));
    }

    #[test]
    fn failed_tests_are_not_counted_twice() {
        let tally = shell("echo 'test result: FAILED. 1 passed; 3 failed; 0 ignored'; exit 101");
        assert_eq!((tally.passed, tally.failed), (1, 3));
    }
}

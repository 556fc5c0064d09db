//! Building Kubernetes from the Go module in `xtask/kubernetes`: once, into a folder that is named after the hash of its files.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{NAMES, Programs, go, sources};
use crate::shell;

/// Between two lines about the progress.
const BETWEEN: Duration = Duration::from_secs(10);

/// Does nothing when it is there already. Only one process builds at a time; the others wait and find it.
pub fn build(say: &dyn Fn(&str)) -> Result<()> {
    let programs = Programs::built()?;
    let done = || NAMES.iter().all(|name| programs.path(name).exists());
    if done() {
        return Ok(());
    }
    let parent = programs.folder().parent().context("the cache has no parent")?;
    std::fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
    let lock = File::create(parent.join("lock")).context("opening the lock of the cache")?;
    if lock.try_lock().is_err() {
        say("another process is building Kubernetes: waiting for it");
        lock.lock().context("locking the cache")?;
    }
    if done() {
        return Ok(());
    }

    let start = Instant::now();
    let go = go::find(&go_version()?, say)?;
    say(&format!(
        "building Kubernetes {} with {}: about 8 minutes on 2 cores, once",
        kubernetes_version()?,
        go.display()
    ));
    // In place only when it is whole. What a killed build left is made anew.
    let unfinished = programs.folder().with_extension("unfinished");
    if unfinished.exists() {
        std::fs::remove_dir_all(&unfinished)?;
    }
    std::fs::create_dir(&unfinished)?;
    compile(&go, &unfinished.join("kubernetes"), say)?;
    for name in NAMES {
        symlink("kubernetes", unfinished.join(name))?;
    }
    if programs.folder().exists() {
        std::fs::remove_dir_all(programs.folder())?;
    }
    std::fs::rename(&unfinished, programs.folder()).context("putting the built programs in place")?;
    say(&format!("built in {} s", start.elapsed().as_secs()));
    Ok(())
}

fn compile(go: &Path, output: &Path, say: &dyn Fn(&str)) -> Result<()> {
    say("downloading modules");
    let packages = shell::run(command(go).args(["list", "-deps", "."]))?.lines().count();
    let version = kubernetes_version()?;
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    // Without a version, clients take the server for v0.0.0.
    let set = |name: &str, value: &str| format!("-X k8s.io/component-base/version.{name}={value}");
    let flags = [
        "-s -w".to_owned(),
        set("gitVersion", &version),
        set("gitMajor", major),
        set("gitMinor", minor),
    ];
    let mut command = command(go);
    command.args(["build", "-v", "-trimpath", "-ldflags", &flags.join(" "), "-o"]);
    command.arg(output).arg(".").stderr(Stdio::piped());
    let mut child = command.spawn().context("starting go build")?;
    let lines = child.stderr.take().context("go build has no output")?;
    // With -v there is a line for each package that is compiled; anything with a space in it is an error.
    let mut errors = VecDeque::new();
    let mut compiled = 0;
    let mut said = Instant::now();
    for line in BufReader::new(lines).lines() {
        let line = line?;
        if line.contains(' ') {
            errors.push_back(line);
            errors.truncate(30);
            continue;
        }
        compiled += 1;
        if said.elapsed() >= BETWEEN {
            said = Instant::now();
            say(&format!("compiled {compiled} of at most {packages} packages"));
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("go build ended with {status}:\n{}", errors.make_contiguous().join("\n"));
    }
    Ok(())
}

fn command(go: &Path) -> Command {
    let mut command = Command::new(go);
    command.current_dir(sources());
    // Static, and by the Go that was chosen.
    command.env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local");
    command.env_remove("GOFLAGS").stdin(Stdio::null());
    command
}

/// The Go that the module asks for.
pub fn go_version() -> Result<String> {
    in_module("go ")
}

fn kubernetes_version() -> Result<String> {
    in_module("k8s.io/kubernetes ")
}

/// What follows `word` in go.mod.
fn in_module(word: &str) -> Result<String> {
    let path = sources().join("go.mod");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let found = text.lines().find_map(|line| {
        let line = line.trim().trim_start_matches("require ");
        line.strip_prefix(word)
    });
    Ok(found
        .with_context(|| format!("{} does not say {word}", path.display()))?
        .trim()
        .to_owned())
}

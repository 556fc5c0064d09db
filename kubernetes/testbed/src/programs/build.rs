//! Builds a Go module of `xtask/` once, into a directory of the cache that is named after the hash
//! of its files.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::go;
use crate::cache;
use crate::digest::sha256;
use crate::shell;

/// The time between two lines about the progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// A module to build.
#[derive(Debug)]
pub struct Module {
    /// Its name for people.
    pub title: &'static str,
    /// Its directory under `xtask/`, and under the cache.
    pub directory: &'static str,
    pub sources: &'static [&'static str],
    /// The requirement in go.mod whose version is the program's.
    pub requirement: &'static str,
    pub commands: &'static [Command],
    /// Build tags, separated by commas.
    pub tags: &'static str,
    /// Variables for the linker, given the version.
    pub variables: fn(&str) -> Vec<(&'static str, String)>,
    /// How long it takes, in words.
    pub takes: &'static str,
}

/// A program of a module.
#[derive(Debug)]
pub struct Command {
    /// Its package, as the module sees it.
    pub package: &'static str,
    /// All names that it can be called by.
    pub names: &'static [&'static str],
}

impl Module {
    /// The directory of the built programs.
    pub fn built(&self) -> Result<PathBuf> {
        let mut parts = Vec::new();
        for name in self.sources {
            let path = self.sources_directory().join(name);
            let content =
                std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            // The length of each file counts, so that moving text between files changes the hash.
            parts.push(content.len().to_le_bytes().to_vec());
            parts.push(content);
        }
        let hash = sha256(parts.iter().map(Vec::as_slice));
        Ok(cache::directory()?.join(self.directory).join(&hash[..16]))
    }

    /// Builds the module unless it is built already. Only one process builds at a time; the others
    /// wait and use its result.
    pub fn build(&self, say: &dyn Fn(&str)) -> Result<()> {
        let directory = self.built()?;
        let names = || self.commands.iter().flat_map(|command| command.names);
        let done = || names().all(|name| directory.join(name).exists());
        if done() {
            return Ok(());
        }
        let title = self.title;
        let parent = directory.parent().context("the cache has no parent")?;
        std::fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        let lock = File::create(parent.join("lock")).context("opening the lock of the cache")?;
        if lock.try_lock().is_err() {
            say(&format!("another process is building {title}: waiting for it"));
            lock.lock().context("locking the cache")?;
        }
        if done() {
            return Ok(());
        }

        let start = Instant::now();
        let go = go::find(&self.go_version()?, say)?;
        say(&format!(
            "building {title} {} with {}: {}, once",
            self.version()?,
            go.display(),
            self.takes
        ));
        // The directory is renamed into place when it is complete. What a killed build left is
        // removed.
        let unfinished = directory.with_extension("unfinished");
        if unfinished.exists() {
            std::fs::remove_dir_all(&unfinished)?;
        }
        std::fs::create_dir(&unfinished)?;
        for (number, command) in self.commands.iter().enumerate() {
            let program = format!("program-{number}");
            self.compile(&go, command.package, &unfinished.join(&program), say)?;
            for name in command.names {
                symlink(&program, unfinished.join(name))?;
            }
        }
        if directory.exists() {
            std::fs::remove_dir_all(&directory)?;
        }
        std::fs::rename(&unfinished, &directory).context("putting the built programs in place")?;
        say(&format!("built in {} s", start.elapsed().as_secs()));
        Ok(())
    }

    /// The directory of the requirement's sources, for files that are not compiled.
    pub fn source(&self) -> Result<PathBuf> {
        let go = go::find(&self.go_version()?, &|_| {})?;
        let mut command = self.command(&go);
        let directory =
            shell::run(command.args(["list", "-m", "-f", "{{.Dir}}", self.requirement]))?;
        Ok(PathBuf::from(directory.trim()))
    }

    fn compile(&self, go: &Path, package: &str, output: &Path, say: &dyn Fn(&str)) -> Result<()> {
        say("downloading modules");
        let tags = format!("-tags={}", self.tags);
        let packages = shell::run(self.command(go).args(["list", "-deps", &tags, package]))?
            .lines()
            .count();
        let mut flags = vec!["-s -w".to_owned()];
        for (name, value) in (self.variables)(&self.version()?) {
            flags.push(format!("-X {name}={value}"));
        }
        let mut command = self.command(go);
        // Without debug information the compiler needs a seventh less time.
        command.args(["build", "-v", "-trimpath", "-gcflags=all=-dwarf=false", &tags]);
        command.args(["-ldflags", &flags.join(" "), "-o"]);
        command.arg(output).arg(package).stderr(Stdio::piped());
        let mut child = command.spawn().context("starting go build")?;
        let lines = child.stderr.take().context("go build has no output")?;
        // With -v there is a line for each compiled package; a line with a space in it is an error.
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
            if said.elapsed() >= PROGRESS_INTERVAL {
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

    fn command(&self, go: &Path) -> std::process::Command {
        let mut command = std::process::Command::new(go);
        command.current_dir(self.sources_directory());
        // A static program, built with the Go that was chosen.
        command.env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local");
        command.env_remove("GOFLAGS").stdin(Stdio::null());
        command
    }

    fn sources_directory(&self) -> PathBuf {
        let xtask = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask");
        xtask.join(self.directory)
    }

    /// The Go version that the module asks for.
    pub fn go_version(&self) -> Result<String> {
        self.required("go")
    }

    fn version(&self) -> Result<String> {
        self.required(self.requirement)
    }

    /// What follows `word` in go.mod.
    fn required(&self, word: &str) -> Result<String> {
        let path = self.sources_directory().join("go.mod");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        let found = text.lines().find_map(|line| {
            let line = line.trim().trim_start_matches("require ");
            line.strip_prefix(word)?.strip_prefix(' ')
        });
        let found = found.and_then(|rest| rest.split_whitespace().next());
        let found =
            found.with_context(|| format!("{} has no version of {word}", path.display()))?;
        Ok(found.to_owned())
    }
}

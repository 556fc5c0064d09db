//! `cargo xtask lint`: checks that no compiler does. Modules of a crate have no cycles, the two
//! wings stay apart, each crate has one set of features, comments and docs end at 100 columns,
//! names of tests have at most 60 characters, and things have the field's words.

mod circles;
mod features;
mod modules;
mod source;
mod test_names;
mod uses;
mod width;
mod words;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::crates::{self, Package};

/// Prints the findings, a line each.
pub fn run() -> Result<ExitCode> {
    let packages = crates::of_workspace()?;
    let mut findings = crates::forbidden_uses(&packages);
    for package in &packages {
        findings.extend(circular_modules(package)?);
    }
    findings.extend(features::differ(&packages)?);
    findings.extend(check_text()?);
    for finding in &findings {
        println!("{finding}");
    }
    println!("{} crates, {} findings", packages.len(), findings.len());
    Ok(if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn circular_modules(package: &Package) -> Result<Vec<String>> {
    let modules = modules::Modules::read(&package.source)?;
    let line = |circle: Vec<String>| {
        format!("{}: these modules use each other: {}", package.name, circle.join(", "))
    };
    Ok(circles::find(&modules.siblings()).into_iter().map(line).collect())
}

/// The first file tells of changed names; the second has the list of words.
const EXEMPT_FILES: [&str; 2] = ["CHANGELOG.md", "xtask/src/lint/words.rs"];

/// Checks all files that git tracks.
fn check_text() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for path in tracked()? {
        let name = path.display();
        // Generated, each description on one line.
        if path.starts_with("deploy/crds") {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let long = width::too_long(&path, &text);
        let long = long
            .iter()
            .map(|line| format!("{name}:{line}: longer than 100 columns"));
        findings.extend(long);
        let is_ours = path
            .extension()
            .is_some_and(|extension| extension == "rs" || extension == "md");
        if !is_ours || EXEMPT_FILES.iter().any(|file| path == Path::new(file)) {
            continue;
        }
        let long = test_names::too_long(&text);
        let long = long.iter().map(|(line, test)| {
            format!("{name}:{line}: {test}: the name of a test has at most 60 characters")
        });
        findings.extend(long);
        for (line, number) in text.lines().zip(1..) {
            for (word, instead) in words::find(line) {
                findings.push(format!("{name}:{number}: {word}: say {instead}"));
            }
        }
    }
    Ok(findings)
}

fn tracked() -> Result<Vec<PathBuf>> {
    let output = Command::new("git").args(["ls-files", "-z"]).output();
    let output = output.context("asking git for the files")?;
    ensure!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let names = String::from_utf8(output.stdout)?;
    let names = names.split('\0').filter(|name| !name.is_empty());
    Ok(names.map(PathBuf::from).collect())
}

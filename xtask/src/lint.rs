//! `cargo xtask lint`: what no compiler checks. Modules of a crate point one way, and the two wings
//! keep apart.

mod circles;
mod modules;
mod source;
mod uses;

use std::process::ExitCode;

use anyhow::Result;

use crate::crates::{self, Package};

/// Prints what it finds, a line each.
pub fn run() -> Result<ExitCode> {
    let packages = crates::of_workspace()?;
    let mut findings = crates::arrows_back(&packages);
    for package in &packages {
        findings.extend(in_circles(package)?);
    }
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

fn in_circles(package: &Package) -> Result<Vec<String>> {
    let modules = modules::Modules::read(&package.source)?;
    let line = |circle: Vec<String>| {
        format!("{}: these modules use each other: {}", package.name, circle.join(", "))
    };
    Ok(circles::find(&modules.siblings()).into_iter().map(line).collect())
}

//! `cargo xtask codegen`: the CRDs under `deploy/crds`, from the types in `berth-api`, and the
//! tables of flags and metrics in `docs`, from the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::cargo;

/// The test of `berth` that compares the tables, and writes them when it is told to.
const TABLES: &str = "commands::reference::tables_of_flags_and_metrics_are_those_of_the_code";

/// Writes the CRDs and the tables, or with `check` only says which files differ from what would be
/// written.
pub fn run(check: bool) -> Result<()> {
    write("deploy/crds", &berth_api::crds::files()?, check)?;
    write("deploy/machines/crds", &berth_api::crds::machine_files()?, check)?;
    tables(check)
}

/// The command line and the registries are known to the program alone. All of the workspace is
/// selected, so that what is built for this is what `cargo xtask test` uses.
fn tables(check: bool) -> Result<()> {
    let mut command = cargo();
    command.args([
        "test",
        "--quiet",
        "--workspace",
        "--bin",
        "berth",
        "--",
        "--exact",
        TABLES,
    ]);
    if !check {
        command.env("BERTH_CODEGEN", "write");
    }
    let status = command.status().context("starting cargo test")?;
    ensure!(
        status.success(),
        "the tables of docs are not as the code has them: {status}"
    );
    Ok(())
}

fn write(shown: &str, files: &[(String, String)], check: bool) -> Result<()> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(shown);
    let stale = stale(&directory, files)?;
    if check {
        if !stale.is_empty() {
            bail!(
                "{shown} is out of date: {}. Run `cargo xtask codegen` and commit what it writes",
                stale.join(", ")
            );
        }
        return Ok(());
    }
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    for name in stale {
        let path = directory.join(&name);
        match files.iter().find(|(file, _)| *file == name) {
            Some((_, yaml)) => {
                fs::write(&path, yaml).with_context(|| format!("writing {}", path.display()))?
            }
            None => {
                fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?
            }
        }
        println!("{shown}/{name}");
    }
    Ok(())
}

/// Files that are missing, that differ, or that nothing generates any more.
fn stale(directory: &Path, files: &[(String, String)]) -> Result<Vec<String>> {
    let mut stale: BTreeSet<String> = present(directory)?;
    for (name, yaml) in files {
        let same = fs::read_to_string(directory.join(name)).is_ok_and(|found| found == *yaml);
        if same {
            stale.remove(name);
        } else {
            stale.insert(name.clone());
        }
    }
    Ok(stale.into_iter().collect())
}

fn present(directory: &Path) -> Result<BTreeSet<String>> {
    if !directory.exists() {
        return Ok(BTreeSet::new());
    }
    fs::read_dir(directory)
        .with_context(|| format!("reading {}", directory.display()))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_changed_and_superfluous_files_are_stale_and_no_others() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [("same", "a"), ("changed", "old"), ("superfluous", "c")] {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let files = [("same", "a"), ("changed", "new"), ("missing", "d")]
            .map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(
            stale(directory.path(), &files).unwrap(),
            ["changed", "missing", "superfluous"]
        );
    }

    #[test]
    fn without_the_directory_every_file_is_stale() {
        let directory = tempfile::tempdir().unwrap();
        let files = [("a.yaml".to_owned(), String::new())];
        assert_eq!(stale(&directory.path().join("none"), &files).unwrap(), ["a.yaml"]);
    }
}

//! `cargo xtask codegen`: the CRDs under `deploy/crds`, from the types in `berth-api`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Writes the CRDs, or with `check` only says which files differ from what would be written.
pub fn run(check: bool) -> Result<()> {
    write("deploy/crds", &berth_api::crds::files()?, check)?;
    write("deploy/machines/crds", &berth_api::crds::machine_files()?, check)
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

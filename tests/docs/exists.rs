//! Commands of ours must exist, with their flags, also where a page only shows them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use berth_e2e::docs::pages;

/// Writes a script that takes the place of a program. The script calls the real one with `--help`
/// added: that refuses an unknown command or flag before it prints help.
fn stand_in(directory: &Path, name: &str, guard: &str, real: &Path) {
    let path = directory.join(name);
    let (log, real) = (directory.join("log"), real.display());
    let script = format!(
        "#!/bin/bash\n{guard}\n\
         if said=$({real} \"$@\" --help 2>&1 </dev/null); then echo ok; else echo \"{name} $*: \
         $said\"; fi >>{}\n",
        log.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The shell parses the line. It finds no programs but the two scripts, and may not write anything.
#[test]
fn every_command_and_flag_of_ours_in_a_block_exists() {
    let directory = tempfile::tempdir().unwrap();
    let berth = berth_e2e::berth().unwrap();
    let xtask = berth.with_file_name("xtask");
    assert!(
        xtask.is_file(),
        "{} is not built: run `cargo build -p xtask`",
        xtask.display()
    );
    let run = format!(
        "[[ $1 == run ]] && {{ while [[ $1 != -- ]]; do shift; done; shift; \
                       exec {}/berth \"$@\"; }}",
        directory.path().display()
    );
    let guard = format!("{run}\n[[ $1 == xtask ]] || exit 0\nshift");
    stand_in(directory.path(), "berth", "", &berth);
    stand_in(directory.path(), "cargo", &guard, &xtask);
    for page in pages().unwrap() {
        for block in page.blocks().unwrap() {
            for command in block.commands {
                Command::new("/bin/bash")
                    .args(["--noprofile", "--norc", "--restricted", "-c", &command.text])
                    .env_clear()
                    .env("PATH", directory.path())
                    .output()
                    .unwrap();
            }
        }
    }
    let log = fs::read_to_string(directory.path().join("log")).unwrap();
    let (fine, wrong): (Vec<&str>, Vec<&str>) = log.lines().partition(|line| *line == "ok");
    println!("{} commands exist", fine.len());
    assert!(fine.len() > 30, "only {} commands of ours were found", fine.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

//! The commands of `docs/install.md`, as the page has them.

use std::collections::BTreeSet;
use std::process::Command;

use berth_e2e::docs::{Class, Page, pages};

const PAGE: &str = "docs/install.md";
/// The commands of the page that `install` runs, in this order, by their first words.
pub const FOLLOWED: [&str; 6] = [
    "helm install",
    "kubectl apply",
    "berth status",
    "helm upgrade",
    "kubectl delete deployments",
    "helm uninstall",
];
/// `$0` is the command, the other arguments are for Helm: our image, which the page can't know.
const SCRIPT: &str = r#"more=("$@"); helm() { command helm "$@" "${more[@]}"; }; eval "$0""#;

/// The command of the page that begins with these words.
pub fn command(beginning: &str) -> String {
    let found: Vec<String> = commands(&Page::read(PAGE).unwrap())
        .into_iter()
        .filter(|command| command.starts_with(beginning))
        .collect();
    assert_eq!(found.len(), 1, "{PAGE}: `{beginning}` begins {found:?}");
    found.concat()
}

/// A shell that runs this command.
pub fn shell(beginning: &str, more: &[String]) -> Command {
    let mut shell = Command::new("bash");
    shell.args(["-c", SCRIPT]).arg(command(beginning)).args(more);
    shell
}

fn commands(page: &Page) -> Vec<String> {
    let blocks = page.blocks().unwrap().into_iter();
    let blocks = blocks.filter(|block| block.class == Class::Chart);
    blocks
        .flat_map(|block| block.commands)
        .map(|command| command.text)
        .collect()
}

#[test]
fn every_command_of_a_chart_block_is_run() {
    let run: BTreeSet<String> = FOLLOWED.into_iter().map(command).collect();
    let all: BTreeSet<String> = pages().unwrap().iter().flat_map(commands).collect();
    assert_eq!(all, run, "what `install` does not run is to be shown, or run");
}

//! Tables of flags, from clap's command line.

use std::fmt::Write;

use clap::{Arg, Command, CommandFactory};

use crate::commands::Cli;

fn root() -> Command {
    let mut command = Cli::command();
    // Sets the names of commands, and the flags that all of them have.
    command.build();
    command
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    let all = command.get_subcommands();
    all.filter(|found| found.get_name() != "help" && !found.is_hide_set())
}

/// The names of all commands.
pub fn names() -> Vec<String> {
    subcommands(&root()).map(|found| found.get_name().to_owned()).collect()
}

/// A row for each command.
pub fn commands() -> String {
    let mut table = "| command | what it does |\n| --- | --- |\n".to_owned();
    for command in subcommands(&root()) {
        writeln!(table, "| `berth {}` | {} |", command.get_name(), about(command)).unwrap();
    }
    table
}

/// The flags that every command takes.
pub fn of_all() -> String {
    let root = root();
    let shared = root.get_arguments().filter(|argument| argument.is_global_set());
    table(shared)
}

pub fn of(name: &str) -> String {
    let root = root();
    let command = subcommands(&root).find(|found| found.get_name() == name);
    let command = command.unwrap_or_else(|| panic!("there is no command {name}"));
    let mut text = table(own(command));
    for under in subcommands(command) {
        text += &format!("\n{}\n", usage(name, under));
        let flags = table(own(under).filter(|argument| !argument.is_positional()));
        if !flags.is_empty() {
            text += &format!("\n{flags}");
        }
    }
    let text = text.trim_start();
    if text.is_empty() {
        "It has no flags of its own.\n".to_owned()
    } else {
        text.to_owned()
    }
}

/// The row of a subcommand: its name, its arguments and what it does.
fn usage(above: &str, command: &Command) -> String {
    let words = own(command).filter(|argument| argument.is_positional()).map(shown);
    let words: String = words.map(|word| format!(" {word}")).collect();
    let line = code(&format!("berth {above} {}{words}", command.get_name()));
    match about(command) {
        none if none.is_empty() => line,
        some => wrapped(&format!("{line}: {some}")),
    }
}

/// Lines of at most 100 columns, as in all of docs.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + word.chars().count() < 100 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

fn own(command: &Command) -> impl Iterator<Item = &Arg> {
    let asks_only = |argument: &Arg| matches!(argument.get_id().as_str(), "help" | "version");
    let shown = command.get_arguments();
    shown.filter(move |argument| {
        !argument.is_global_set() && !argument.is_hide_set() && !asks_only(argument)
    })
}

fn table<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    let rows: String = arguments.map(row).collect();
    if rows.is_empty() {
        return rows;
    }
    format!("| flag | environment | default | meaning |\n| --- | --- | --- | --- |\n{rows}")
}

fn row(argument: &Arg) -> String {
    let variable = argument.get_env().map(|name| code(&name.to_string_lossy()));
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .filter(|value| !value.is_empty())
        .collect();
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let help = cell(&help.map(ToString::to_string).unwrap_or_default());
    // A default that is not a plain value is at the end of the help.
    let (help, told) = match help.split_once(" [default: ") {
        Some((help, default)) => (help, default.trim_end_matches(']')),
        None => (help.as_str(), ""),
    };
    // A flag without a value is off by default.
    let default = match defaults.join(",") {
        none if none.is_empty() || !argument.get_action().takes_values() => told.to_owned(),
        some => code(&some),
    };
    format!(
        "| {} | {} | {default} | {help} |\n",
        code(&shown(argument)),
        variable.unwrap_or_default()
    )
}

/// As it is typed: `-o, --output <table|wide|json|yaml>`.
fn shown(argument: &Arg) -> String {
    let choices: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    let names = argument.get_value_names().unwrap_or_default();
    let value = match (choices.as_slice(), names) {
        ([], []) => argument.get_id().to_string().to_uppercase(),
        ([], names) => names.join(" "),
        (choices, _) => choices.join("|"),
    };
    let Some(long) = argument.get_long() else {
        return format!("<{value}>");
    };
    let short = argument
        .get_short()
        .map_or_else(String::new, |short| format!("-{short}, "));
    if argument.get_action().takes_values() {
        format!("{short}--{long} <{value}>")
    } else {
        format!("{short}--{long}")
    }
}

fn about(command: &Command) -> String {
    cell(&command.get_about().map(ToString::to_string).unwrap_or_default())
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

/// One line, without characters that would end the cell or begin a tag.
fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('|', "\\|").replace('<', "&lt;")
}

#[test]
fn a_flag_is_shown_with_its_variable_its_default_and_its_help() {
    let argument = Arg::new("cloud")
        .long("cloud")
        .env("BERTH_CLOUD")
        .value_parser(["linux", "aws"])
        .default_value("linux")
        .help("Where routes\n are made");
    assert_eq!(
        row(&argument),
        "| `--cloud <linux\\|aws>` | `BERTH_CLOUD` | `linux` | Where routes are made |\n"
    );
}

#[test]
fn a_default_in_words_has_the_same_column() {
    let argument = Arg::new("name")
        .long("name")
        .help("Its name [default: that of the machine]");
    assert_eq!(
        row(&argument),
        "| `--name <NAME>` |  | that of the machine | Its name |\n"
    );
}

//! Runs small programs of the system. Errors contain their stderr.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs `command` to its end and returns its stdout. Errors contain its stderr.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {}", shown(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}: {}", shown(command), output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `ip`, with the words of `line` as arguments.
pub fn ip(line: &str) -> Result<String> {
    run(Command::new("ip").args(line.split_whitespace()))
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// `text` as one word of a shell script.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The path of a program, for a script or another program.
pub fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Network tools are not on every user's PATH.
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    directories
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_was_run_and_what_it_said() {
        let error = run(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("sh -c") && text.ends_with("exit status: 3: why"),
            "{text}"
        );
    }

    #[test]
    fn a_quoted_word_is_one_word_whatever_is_in_it() {
        let word = "it's $HOME; `x` \"y\"";
        let script = format!("printf %s {}", quoted(word));
        assert_eq!(run(Command::new("sh").args(["-c", &script])).unwrap(), word);
    }
}

//! Command blocks of a page.

use anyhow::{Result, bail, ensure};

/// Languages of fences that hold commands. All but the first are refused.
const SHELLS: [&str; 6] = ["console", "sh", "bash", "shell", "shell-session", "zsh"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    Run,
    Up,
    Chart,
    /// With the reason why nobody runs it.
    Shown(String),
}

impl Class {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "run" => Some(Self::Run),
            "up" => Some(Self::Up),
            "chart" => Some(Self::Chart),
            _ => {
                let why = text.strip_prefix("shown:")?.trim();
                (!why.is_empty()).then(|| Self::Shown(why.to_owned()))
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The line in its page, counted from 1.
    pub line: usize,
    /// Without the prompt; may have several lines.
    pub text: String,
    pub output: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub line: usize,
    pub class: Class,
    pub commands: Vec<Command>,
}

/// The command blocks of a page, in its order.
pub fn blocks(text: &str) -> Result<Vec<Block>> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        // A block in a list is indented as far as its fence.
        let indent = &line[..line.len() - line.trim_start().len()];
        let body: Vec<(usize, &str)> = lines
            .by_ref()
            .take_while(|(_, line)| line.trim() != "```")
            .map(|(index, line)| (index + 1, line.strip_prefix(indent).unwrap_or(line)))
            .collect();
        let (language, class) = info.split_once(' ').unwrap_or((info, ""));
        if !SHELLS.contains(&language) {
            continue;
        }
        let line = index + 1;
        ensure!(!info.contains('`'), "line {line}: no ` may stand behind a fence");
        ensure!(
            language == SHELLS[0],
            "line {line}: commands stand in a block of `console`, not of `{language}`"
        );
        let Some(class) = Class::parse(class.trim()) else {
            bail!(
                "line {line}: who runs it? Write `console run`, `up`, `chart` or `shown: WHY`, \
                 see docs/testing.md"
            );
        };
        let commands = commands(&body)?;
        ensure!(!commands.is_empty(), "line {line}: no line begins with `$ ` or `# `");
        found.push(Block { line, class, commands });
    }
    Ok(found)
}

fn commands(body: &[(usize, &str)]) -> Result<Vec<Command>> {
    let mut found: Vec<Command> = Vec::new();
    let mut lines = body.iter();
    while let Some(&(line, text)) = lines.next() {
        let Some(first) = text.strip_prefix("$ ").or_else(|| text.strip_prefix("# ")) else {
            let Some(command) = found.last_mut() else {
                bail!("line {line}: output before the first command");
            };
            command.output.push(text.to_owned());
            continue;
        };
        let mut command = first.to_owned();
        while command.ends_with('\\') {
            let Some((_, next)) = lines.next() else {
                bail!("line {line}: the command ends with a backslash");
            };
            command = format!("{command}\n{next}");
        }
        if let Some(end) = here_document(&command) {
            loop {
                let Some((_, next)) = lines.next() else {
                    bail!("line {line}: no line is {end}");
                };
                command = format!("{command}\n{next}");
                if *next == end {
                    break;
                }
            }
        }
        found.push(Command {
            line,
            text: command,
            output: Vec::new(),
        });
    }
    Ok(found)
}

/// The word that ends the here-document of a command.
fn here_document(command: &str) -> Option<String> {
    let (_, after) = command.split_once("<<")?;
    // `<<<` is a here-string.
    let word = after.split_whitespace().next().filter(|word| !word.starts_with('<'))?;
    Some(word.trim_matches(['\'', '"', '-']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_its_lines_and_its_output() {
        let text =
            "a\n```console up\n$ one \\\n  two\nout …\n# cat <<EOF\n$ no command\nEOF\n```\n";
        let commands = blocks(text).unwrap().remove(0).commands;
        assert_eq!(commands.len(), 2);
        assert_eq!(commands[0].text, "one \\\n  two");
        assert_eq!(commands[0].line, 3);
        assert_eq!(commands[0].output, ["out …"]);
        assert_eq!(commands[1].text, "cat <<EOF\n$ no command\nEOF");
    }

    #[test]
    fn a_block_without_a_class_is_refused_with_its_line() {
        for info in [
            "console",
            "console sometimes",
            "console shown:",
            "sh",
            "console shown: `a`",
        ] {
            let error = blocks(&format!("text\n```{info}\n$ true\n```\n")).unwrap_err();
            assert!(error.to_string().starts_with("line 2: "), "{info}: {error}");
        }
        assert_eq!(blocks("```yaml\nkind: Pod\n```\n").unwrap(), []);
    }

    #[test]
    fn a_block_in_a_list_is_read_from_its_fence_on() {
        let text = "1. a\n\n   ```console run\n   $ one\n     out\n   ```\n";
        let command = blocks(text).unwrap().remove(0).commands.remove(0);
        assert_eq!(
            (command.text.as_str(), command.output),
            ("one", vec!["  out".to_owned()])
        );
    }

    #[test]
    fn what_is_only_shown_says_why() {
        let block = blocks("```console shown: it takes an hour\n$ true\n```\n")
            .unwrap()
            .remove(0);
        assert_eq!(block.class, Class::Shown("it takes an hour".to_owned()));
    }
}

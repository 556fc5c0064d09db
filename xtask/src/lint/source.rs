//! Rust source without text that only looks like code: comments, strings, and tests beside it.

/// Replaces that text by blanks, so that all lines keep their length.
pub fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut code = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match (letter, rest.peek()) {
            ('/', Some('/')) => {
                while rest.peek().is_some_and(|next| *next != '\n') {
                    rest.next();
                }
            }
            ('"', _) => {
                skip_string(&mut rest);
                code.push_str("\"\"");
            }
            _ => code.push(letter),
        }
    }
    code
}

/// Does not support raw strings with quotes in them: what follows is read as code, which at worst
/// has no path in it.
fn skip_string(rest: &mut impl Iterator<Item = char>) {
    while let Some(letter) = rest.next() {
        match letter {
            '\\' => drop(rest.next()),
            '"' => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_tests_are_left_out() {
        let text = "use a; // use b;\nlet c = \"use \\\" d\";\n#[cfg(test)]\nmod tests {}";
        assert_eq!(code_of(text), "use a; \nlet c = \"\";\n");
    }
}

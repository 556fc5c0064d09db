//! Reduces Rust source to its code: without comments, the text of strings, and tests beside the
//! code.

/// Removes comments, empties strings, and ends at the first `#[cfg(test)]`.
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

/// Does not support raw strings with quotes in them: a part of such a string may be read as code,
/// or code as a string.
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

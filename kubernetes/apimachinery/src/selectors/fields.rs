//! Field selectors: `metadata.name=x,spec.nodeName!=y`.

#[derive(Debug, PartialEq, Eq)]
pub struct FieldTerm {
    pub field: String,
    pub value: String,
    pub equal: bool,
}

/// Terms are separated by commas. `\` escapes a `,`, `=` or `\` in a value.
pub fn parse(text: &str) -> Result<Vec<FieldTerm>, String> {
    let mut terms = Vec::new();
    for part in split(text).into_iter().filter(|part| !part.is_empty()) {
        let Some((field, operator, value)) = cut(part) else {
            return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
        };
        terms.push(FieldTerm {
            field: field.to_owned(),
            value: unescape(value)?,
            equal: operator != "!=",
        });
    }
    Ok(terms)
}

fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// At the first operator, wherever it stands.
fn cut(term: &str) -> Option<(&str, &str, &str)> {
    let at = term.find("!=").into_iter().chain(term.find('=')).min()?;
    let (field, rest) = term.split_at(at);
    let operator = ["!=", "==", "="]
        .into_iter()
        .find(|operator| rest.starts_with(operator))?;
    Some((field, operator, &rest[operator.len()..]))
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(kept @ ('\\' | ',' | '=')) => plain.push(kept),
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: \\{other}"
                    ));
                }
            },
            ',' | '=' => {
                let number = u32::from(character);
                return Err(format!(
                    "invalid field selector: unescaped character in value: {number}"
                ));
            }
            _ => plain.push(character),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_split_at_commas_that_are_not_escaped() {
        let terms = parse(r"metadata.name=a\,b\\,spec.x!=y,,z==1").unwrap();
        let read: Vec<_> = terms
            .iter()
            .map(|term| (term.field.as_str(), term.value.as_str(), term.equal))
            .collect();
        assert_eq!(
            read,
            [
                ("metadata.name", r"a,b\", true),
                ("spec.x", "y", false),
                ("z", "1", true)
            ]
        );
    }

    #[test]
    fn what_cannot_be_read_is_said_in_the_servers_words() {
        for (selector, words) in [
            ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
            (r"a=\", r"invalid field selector: invalid escape sequence: \"),
        ] {
            assert_eq!(parse(selector).unwrap_err(), words);
        }
    }
}

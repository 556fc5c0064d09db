//! Field selectors: `metadata.name=x,spec.nodeName!=y`, and which fields of which kind they can ask for.

use crate::kinds::Kind;

#[derive(Debug, PartialEq, Eq)]
pub struct FieldTerm {
    pub field: String,
    pub value: String,
    pub equal: bool,
}

/// Terms are separated by commas; `\` keeps the next `,`, `=` or `\` of a value.
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
                    return Err(format!("invalid field selector: invalid escape sequence: \\{other}"));
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

/// Where a selectable field's value stands in the stored form of an object.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// The first that has a value counts.
    pub paths: Vec<Vec<String>>,
    /// What a missing value counts as.
    pub missing: &'static str,
}

/// What can be asked for beside `metadata.name` and `metadata.namespace`.
#[rustfmt::skip]
const SELECTABLE: &[(&str, &str, &[&str])] = &[
    ("", "Pod", &[
        "spec.nodeName", "spec.host", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        // The last is a list, which has no value: only the empty one matches.
        "status.phase", "status.podIP", "status.nominatedNodeName", "status.podIPs",
    ]),
    ("", "Node", &["spec.unschedulable"]),
    ("", "Namespace", &["status.phase"]),
    ("", "Secret", &["type"]),
    ("", "Service", &["spec.clusterIP", "spec.type"]),
    ("", "Event", &[
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
        "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type",
    ]),
    ("events.k8s.io", "Event", &[
        "regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion",
        "regarding.resourceVersion", "regarding.fieldPath", "reason", "reportingController", "type",
    ]),
];

/// Fields whose value stands elsewhere than they say. Events of both groups are stored as core/v1 has them.
const ELSEWHERE: &[(&str, &[&str])] = &[
    ("spec.host", &["spec.nodeName"]),
    ("source", &["source.component", "reportingComponent"]),
    ("reportingController", &["reportingComponent"]),
];

/// Where the value of `field` stands in objects of this kind, or why it cannot be asked for.
pub fn source(kind: &Kind, field: &str) -> Result<Source, String> {
    let own = SELECTABLE.iter().find(|(group, name, _)| kind.is(group, name));
    let known = match (field, &kind.custom, own) {
        ("metadata.name", ..) => true,
        // Kinds with no fields of their own take it even where they have no namespace.
        ("metadata.namespace", custom, own) => kind.namespaced || (custom.is_none() && own.is_none()),
        (_, Some(custom), _) => custom
            .selectable
            .iter()
            .any(|path| path.trim_start_matches('.') == field),
        (_, None, Some((_, _, fields))) => fields.contains(&field),
        (_, None, None) => {
            return Err(format!(
                "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            ));
        }
    };
    if !known {
        return Err(format!("field label not supported: {field}"));
    }
    let path = |text: &str| -> Vec<String> { text.split('.').map(str::to_owned).collect() };
    let elsewhere = ELSEWHERE
        .iter()
        .find(|(name, _)| *name == field && kind.custom.is_none());
    Ok(Source {
        paths: match (elsewhere, field.strip_prefix("regarding.")) {
            (Some((_, paths)), _) => paths.iter().map(|text| path(text)).collect(),
            (None, Some(rest)) if kind.custom.is_none() => vec![path(&format!("involvedObject.{rest}"))],
            _ => vec![path(field)],
        },
        missing: match field {
            "spec.hostNetwork" | "spec.unschedulable" if kind.custom.is_none() => "false",
            _ => "",
        },
    })
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

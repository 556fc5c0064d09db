//! The part of JSONPath that print columns use: `.a.b`, `['a']`, `[0]`, `[-1]`, `[*]`,
//! `[?(@.type=="Ready")]`, `\.` in a name.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Every,
    Filter { path: JsonPath, equal: bool, value: Value },
}

impl JsonPath {
    /// `None` if the path has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'))
            .unwrap_or(text);
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = if let Some(inside) = rest.strip_prefix('[') {
                let end = closing(inside)?;
                (bracket(&inside[..end])?, &inside[end + 1..])
            } else {
                // Only the first name may lack its dot.
                let name = rest.strip_prefix('.').or_else(|| steps.is_empty().then_some(rest))?;
                field(name)?
            };
            steps.push(step);
            rest = after;
        }
        Some(Self(steps))
    }

    /// All values at the path. Empty if a step finds nothing.
    pub fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        self.0.iter().fold(vec![object], |found, step| {
            found.into_iter().flat_map(|value| step.from(value)).collect()
        })
    }
}

impl Step {
    fn from<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let children = || -> Vec<&'a Value> {
            match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(fields) => fields.values().collect(),
                _ => Vec::new(),
            }
        };
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Every => children(),
            Self::Index(index) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let from_end = usize::try_from(index.unsigned_abs())
                    .ok()
                    .and_then(|back| items.len().checked_sub(back));
                let at = usize::try_from(*index).ok().or(from_end);
                at.and_then(|at| items.get(at)).into_iter().collect()
            }
            Self::Filter {
                path,
                equal,
                value: wanted,
            } => {
                let holds = |item: &&Value| {
                    path.find(item)
                        .first()
                        .is_some_and(|&found| (found == wanted) == *equal)
                };
                children().into_iter().filter(holds).collect()
            }
        }
    }
}

/// A name up to the next `.` or `[` that is not escaped with `\`.
fn field(text: &str) -> Option<(Step, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    let mut end = text.len();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.push(characters.next()?.1),
            '.' | '[' => {
                end = at;
                break;
            }
            _ => name.push(character),
        }
    }
    let step = match name.as_str() {
        "" => return None,
        "*" => Step::Every,
        _ => Step::Field(name),
    };
    Some((step, &text[end..]))
}

/// The position of the matching `]`. Brackets in quotes don't count.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    text.char_indices().find_map(|(at, character)| {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, ']') => return Some(at),
            _ => {}
        }
        None
    })
}

fn bracket(text: &str) -> Option<Step> {
    if text == "*" {
        return Some(Step::Every);
    }
    if let Some(condition) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        let operator = ["==", "!="].into_iter().find(|operator| condition.contains(operator))?;
        let (path, value) = condition.split_once(operator)?;
        return Some(Step::Filter {
            path: JsonPath::parse(path.trim().strip_prefix('@')?)?,
            equal: operator == "==",
            value: literal(value.trim())?,
        });
    }
    match literal(text)? {
        Value::String(name) => Some(Step::Field(name)),
        Value::Number(index) => index.as_i64().map(Step::Index),
        _ => None,
    }
}

fn literal(text: &str) -> Option<Value> {
    match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        Some(quoted) => Some(Value::String(quoted.to_owned())),
        None => serde_json::from_str(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_form_of_step_finds_what_it_names() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "label"}},
            "spec": {"list": [{"n": 1}, {"n": 2}], "flag": true},
            "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Up]", "status": "True"}]},
        });
        for (path, expected) in [
            (".spec.flag", json!([true])),
            ("{.spec.flag}", json!([true])),
            ("$.spec.flag", json!([true])),
            ("spec.flag", json!([true])),
            (r".metadata.labels.a\.b/c", json!(["label"])),
            (".metadata.labels['a.b/c']", json!(["label"])),
            (".spec.list[0].n", json!([1])),
            (".spec.list[-1].n", json!([2])),
            (".spec.list[5].n", json!([])),
            (".spec.list[-5].n", json!([])),
            (".spec.list[*].n", json!([1, 2])),
            (".spec.list[?(@.n!=1)].n", json!([2])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["False"])),
            (".status.conditions[?(@.type=='Up]')].status", json!(["True"])),
            (".status.missing.deeper", json!([])),
        ] {
            let found = JsonPath::parse(path).unwrap();
            assert_eq!(json!(found.find(&object)), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_such_path_is_refused() {
        for path in [".a[", ".a[x]", ".a..b", ".a.", ".a[0]b"] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }
}

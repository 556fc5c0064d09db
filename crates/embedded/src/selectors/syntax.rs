//! What a label's key and value may look like. Each function gives what is wrong, in kube-apiserver's words; nothing when all is well.

const NAME: &str = "[A-Za-z0-9][-A-Za-z0-9_.]*";

/// A label key or annotation key: `name` or `dns.subdomain/name`.
pub fn key_problems(key: &str) -> Vec<String> {
    let mut parts = key.split('/');
    let (prefix, name) = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => (None, name),
        (Some(prefix), Some(name), None) => (Some(prefix), name),
        _ => {
            let shape = shape_words("a valid label key", &format!("({NAME})?[A-Za-z0-9]"), KEY_EXAMPLES);
            return vec![format!(
                "{shape} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    let mut problems = Vec::new();
    match prefix {
        Some("") => problems.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => problems.extend(
            subdomain_problems(prefix)
                .into_iter()
                .map(|problem| format!("prefix part {problem}")),
        ),
        None => {}
    }
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 characters".to_owned());
    }
    if !is_name(name) {
        problems.push(shape_words("name part", &format!("({NAME})?[A-Za-z0-9]"), KEY_EXAMPLES));
    }
    problems
}

/// A label's value: empty, or 63 characters of the same alphabet as a name.
pub fn value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > 63 {
        problems.push("must be no more than 63 characters".to_owned());
    }
    if !value.is_empty() && !is_name(value) {
        let examples = "(e.g. 'MyValue',  or 'my_value',  or '12345'";
        problems.push(shape_words(
            "a valid label must be an empty string or",
            &format!("(({NAME})?[A-Za-z0-9])?"),
            examples,
        ));
    }
    problems
}

const KEY_EXAMPLES: &str = "(e.g. 'MyName',  or 'my.name',  or '123-abc'";

fn shape_words(what: &str, pattern: &str, examples: &str) -> String {
    let must = if what.contains("must") { "" } else { " must" };
    format!(
        "{what}{must} consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
         {examples}, regex used for validation is '{pattern}')"
    )
}

fn is_name(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn subdomain_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    if !text.split('.').all(is_part) {
        problems.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end \
             with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_may_have_one_dns_prefix() {
        for good in ["a", "app.kubernetes.io/name", "A_b-c.9", &"x".repeat(63)] {
            assert_eq!(key_problems(good), Vec::<String>::new(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            "a b",
            "/a",
            "a/",
            "UPPER/a",
            "a/b/c",
            &"x".repeat(64),
            "ä",
        ] {
            assert!(!key_problems(bad).is_empty(), "{bad}");
        }
    }

    #[test]
    fn a_value_may_be_empty_but_not_long_or_odd() {
        assert!(value_problems("").is_empty());
        assert!(value_problems("v1.2_x-3").is_empty());
        for bad in ["-", "a/b", "a b", &"x".repeat(64)] {
            assert_eq!(value_problems(bad).len(), 1, "{bad}");
        }
    }
}

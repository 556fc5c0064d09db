//! Rules for names, label keys and label values. Each check returns what is wrong, as advice.

fn is_alphanumeric(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn is_label(text: &str, longest: usize) -> bool {
    let bytes = text.as_bytes();
    !bytes.is_empty()
        && bytes.len() <= longest
        && bytes.iter().all(|&c| is_alphanumeric(c) || c == b'-')
        && bytes.first().is_some_and(|&c| is_alphanumeric(c))
        && bytes.last().is_some_and(|&c| is_alphanumeric(c))
}

/// RFC 1123 label.
pub fn label(text: &str) -> Option<String> {
    (!is_label(text, 63)).then(|| {
        "a lowercase RFC 1123 label must be 1 to 63 letters a-z, digits or '-', with a \
         letter or digit at both ends"
            .to_owned()
    })
}

/// RFC 1035 label.
pub fn label_1035(text: &str) -> Option<String> {
    let starts = text.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    (!starts || !is_label(text, 63)).then(|| {
        "a DNS-1035 label must be 1 to 63 letters a-z, digits or '-', with a letter \
         first and a letter or digit last"
            .to_owned()
    })
}

/// RFC 1123 subdomain.
pub fn subdomain(text: &str) -> Option<String> {
    let fine = text.len() <= 253 && text.split('.').all(|part| is_label(part, 253));
    (!fine).then(|| {
        "a lowercase RFC 1123 subdomain must be 1 to 253 letters a-z, digits, '-' or \
         '.', with a letter or digit at both ends of each part"
            .to_owned()
    })
}

/// A segment of a URL path.
pub fn segment(text: &str) -> Option<String> {
    if text == "." || text == ".." {
        Some(format!("may not be '{text}'"))
    } else {
        let found = text.chars().find(|c| matches!(c, '/' | '%'));
        found.map(|c| format!("may not contain '{c}'"))
    }
}

fn is_qualified_part(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|&c| inner(c))
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

/// `[prefix/]name`: keys of labels and annotations, finalizers.
pub fn qualified(text: &str) -> Option<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if let Some(prefix) = prefix
        && let Some(problem) = subdomain(prefix)
    {
        return Some(format!("prefix part {problem}"));
    }
    (!is_qualified_part(name)).then(|| {
        "name part must be 1 to 63 letters, digits, '-', '_' or '.', with a letter or \
         digit at both ends"
            .to_owned()
    })
}

pub fn label_value(text: &str) -> Option<String> {
    (!text.is_empty() && !is_qualified_part(text)).then(|| {
        "a valid label must be empty, or at most 63 letters, digits, '-', '_' or '.', \
         with a letter or digit at both ends"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_held_to_their_rule() {
        assert_eq!(subdomain("a.b-c.9"), None);
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", &"a".repeat(254)] {
            assert!(subdomain(bad).is_some(), "{bad}");
        }
        assert_eq!(label("node-1"), None);
        assert!(label("a.b").is_some());
        assert!(label(&"a".repeat(64)).is_some());
        assert!(label_1035("1a").is_some());
        assert_eq!(segment("system:node"), None);
        assert!(segment("a/b").is_some());
    }

    #[test]
    fn keys_and_values_of_labels_are_held_to_their_rule() {
        assert_eq!(qualified("app.kubernetes.io/name"), None);
        assert_eq!(qualified("A_b.c"), None);
        for bad in ["", "a/b/c", "A/b", "/b", "a/", "b-"] {
            assert!(qualified(bad).is_some(), "{bad}");
        }
        assert_eq!(label_value(""), None);
        assert!(label_value("a b").is_some());
    }
}

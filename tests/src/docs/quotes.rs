//! Texts that a page quotes from the code: a fence of `text`, followed by the file.

use std::fs;

use super::{pages, root};

/// Words with one blank between them, and strings that go over several lines as one.
fn plain(text: &str) -> String {
    let joined = text.replace("\\\n", " ").replace("\\\"", "\"");
    joined.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A line is there when all of its parts between `…` are, in this order.
fn is_in(source: &str, line: &str) -> bool {
    let mut rest = source;
    line.split('…').all(|part| match rest.split_once(part.trim()) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

#[test]
fn what_pages_quote_is_what_the_code_says() {
    let mut count = 0;
    let mut missing = Vec::new();
    for page in pages().unwrap() {
        let fences = page.text.split("\n```").skip(1).step_by(2);
        for (file, text) in fences.filter_map(|fence| fence.strip_prefix("text ")?.split_once('\n'))
        {
            let source = plain(&fs::read_to_string(root().join(file)).unwrap());
            for line in text.lines() {
                count += 1;
                if !is_in(&source, line) {
                    missing.push(format!("{}: {file} does not say: {line}", page.name));
                }
            }
        }
    }
    assert!(count > 5, "only {count} lines were found");
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn a_text_that_changed_is_found() {
    let source = plain("format!(\n  \"subnet {name} is \\\n   full\"\n)");
    assert!(is_in(&source, "subnet … is full"));
    assert!(!is_in(&source, "subnet … is empty") && !is_in(&source, "is full … subnet"));
}

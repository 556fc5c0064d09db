//! Links and the book's table of contents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::{Page, pages, root};

const SUMMARY: &str = "docs/SUMMARY.md";

/// The text without its code blocks.
fn prose(text: &str) -> String {
    let mut in_block = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            lines.push(line);
        }
    }
    // Spans of code stay: the text of a link may be one.
    lines.join("\n")
}

/// The targets of `[text](target)`.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let ends = prose.split("](").skip(1);
    ends.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
        .collect()
}

/// The anchors that GitHub and mdBook make from headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for heading in prose(text).lines().filter(|line| line.starts_with('#')) {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let times = seen.entry(anchor.clone()).or_default();
        all.insert(match *times {
            0 => anchor,
            n => format!("{anchor}-{n}"),
        });
        *times += 1;
    }
    all
}

/// `docs/../deploy` is `deploy`.
fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(tidy.pop()),
            other => tidy.push(other),
        }
    }
    tidy
}

/// What is wrong with a link of the page.
fn fault(page: &Page, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let directory = Path::new(&page.name).parent().unwrap();
    let target = match path {
        "" => PathBuf::from(&page.name),
        path => tidy(&directory.join(path)),
    };
    if !root().join(&target).exists() {
        return Some(format!("{}: {link} leads nowhere", page.name));
    }
    if anchor.is_empty() {
        return None;
    }
    let text = Page::read(&target.to_string_lossy()).unwrap().text;
    (!anchors(&text).contains(anchor))
        .then(|| format!("{}: {link}: no such heading in {}", page.name, target.display()))
}

#[test]
fn every_link_leads_somewhere() {
    let mut faults = Vec::new();
    let mut count = 0;
    for page in pages().unwrap() {
        for link in links(&page.text) {
            count += 1;
            faults.extend(fault(&page, &link));
        }
    }
    assert!(count > 50, "only {count} links were found");
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_page_of_docs_is_in_the_summary_once() {
    let summary = Page::read(SUMMARY).unwrap();
    let mut listed = links(&summary.text);
    listed.sort();
    let all = pages().unwrap();
    let docs = all.iter().filter_map(|page| page.name.strip_prefix("docs/"));
    let there: Vec<&str> = docs.filter(|name| *name != "SUMMARY.md").collect();
    assert_eq!(listed, there);
}

#[test]
fn a_link_to_nothing_is_found() {
    let page = Page {
        name: "docs/up.md".to_owned(),
        text: String::new(),
    };
    for good in ["agent.md", "../README.md", "https://example.com", "testing.md#testing"] {
        assert_eq!(fault(&page, good), None);
    }
    for bad in [
        "agents.md",
        "README.md",
        "testing.md#no-such-heading",
        "#no-such-heading",
    ] {
        assert!(fault(&page, bad).is_some(), "{bad}");
    }
    assert_eq!(links("[a](b.md) ![c](d.png)\n```\n[e](f)\n```\n"), ["b.md", "d.png"]);
    let both = anchors("# What is `berth up`?\n## What is berth up\n");
    assert_eq!(Vec::from_iter(both), ["what-is-berth-up", "what-is-berth-up-1"]);
}

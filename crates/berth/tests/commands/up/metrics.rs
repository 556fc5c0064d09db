//! What a scraper gets: the whole text, held to the rules of the format.

use std::collections::{BTreeMap, BTreeSet};

use super::{Running, http, up};

/// Suffixes that samples have beyond the name of their family.
const SUFFIXES: &[&str] = &["_total", "_bucket", "_count", "_sum", "_info", "_created"];

#[test]
fn each_metric_family_is_there_once_and_in_one_piece() {
    let parent = tempfile::tempdir().unwrap();
    let berth = Running::start(up(&parent.path().join("data")));
    let (code, text) = http(berth.dashboard(), "/metrics", "127.0.0.1");
    assert_eq!(code, 200);
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.pop(), Some("# EOF"));

    let mut seen: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut samples = BTreeSet::new();
    let mut family = "";
    for line in lines {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.split(' ');
            let (word, name) = (words.next().unwrap(), words.next().unwrap());
            assert!(["HELP", "TYPE", "UNIT"].contains(&word), "{line}");
            *seen.entry((word, name)).or_default() += 1;
            family = name;
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        value.parse::<f64>().unwrap();
        let name = sample.split('{').next().unwrap();
        let of_family = name == family
            || SUFFIXES.iter().any(|suffix| name.strip_suffix(suffix) == Some(family));
        assert!(of_family, "{line} stands under {family}");
        assert!(samples.insert(sample), "{sample} is there twice");
    }
    let twice: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    for needed in ["workqueue_depth", "workqueue_unfinished_work_seconds"] {
        assert!(seen.contains_key(&("TYPE", needed)), "{needed}");
    }
}

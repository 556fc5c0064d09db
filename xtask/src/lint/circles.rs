//! Cycles in a graph.

use std::collections::{BTreeMap, BTreeSet};

/// The groups of nodes that reach each other, each in order.
pub fn find(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        edges.keys().map(|from| (from, reachable(edges, from))).collect();
    let mut grouped = BTreeSet::new();
    let mut circles = Vec::new();
    for (from, to) in &reached {
        if grouped.contains(*from) || !to.contains(from) {
            continue;
        }
        let returns = |other: &&&String| reached.get(**other).is_some_and(|to| to.contains(from));
        let circle: Vec<String> = to.iter().filter(returns).map(|name| (*name).clone()).collect();
        grouped.extend(circle.iter().cloned());
        circles.push(circle);
    }
    circles
}

fn reachable<'a>(
    edges: &'a BTreeMap<String, BTreeSet<String>>,
    from: &'a String,
) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        for to in edges.get(at).into_iter().flatten() {
            if reached.insert(to) {
                next.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_and_a_line_is_none() {
        let edges = [
            ("a", vec!["b"]),
            ("b", vec!["c", "d"]),
            ("c", vec!["a"]),
            ("d", vec!["e"]),
        ];
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let edges = edges.into_iter().map(|(from, to)| (from.to_owned(), owned(to)));
        assert_eq!(find(&edges.collect()), [["a", "b", "c"]]);
    }
}

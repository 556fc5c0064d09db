//! The page as HTML: readable as it is sent, kept fresh by a script where there is one.

use std::fmt::Write;

use super::state::Snapshot;

const TEMPLATE: &str = include_str!("page.html");

pub fn render(snapshot: &Snapshot) -> String {
    let facts = &snapshot.facts;
    let node = |line: &super::state::NodeLine| {
        row([
            &line.name,
            &line.status,
            &line.address,
            &line.pods.to_string(),
            &line.age,
        ])
    };
    let pod = |line: &super::state::PodLine| {
        row([
            &line.namespace,
            &line.name,
            &line.node,
            &line.status,
            &line.address,
            &line.age,
        ])
    };
    fill(TEMPLATE, |name| match name {
        "version" => escaped(facts.version),
        "api" => escaped(&facts.api),
        "keptIn" => escaped(&facts.kept_in),
        "uptime" => escaped(&snapshot.uptime),
        "nodeCount" => snapshot.nodes.len().to_string(),
        "podCount" => snapshot.pod_count.to_string(),
        "shown" => snapshot.pods.len().to_string(),
        "hidden" => if snapshot.pods.len() < snapshot.pod_count {
            ""
        } else {
            "hidden"
        }
        .to_owned(),
        "nodes" => snapshot.nodes.iter().map(node).collect(),
        "pods" => snapshot.pods.iter().map(pod).collect(),
        _ => String::new(),
    })
}

fn row<const N: usize>(cells: [&str; N]) -> String {
    let cells = cells.map(|cell| format!("<td>{}</td>", escaped(cell)));
    format!("<tr>{}</tr>\n", cells.concat())
}

/// Puts in each `{{name}}` what `value` says. What is put in is not looked at again.
fn fill(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut parts = template.split("{{");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("}}").unwrap_or((part, ""));
        text.push_str(&value(name));
        text.push_str(rest);
    }
    text
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '<' | '>' | '"' | '\'' => drop(write!(out, "&#{};", u32::from(c))),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::state::{Facts, NodeLine, PodLine};
    use super::*;

    fn snapshot(name: &str, pod_count: usize) -> Snapshot {
        let word = || "x".to_owned();
        let node = NodeLine {
            name: name.to_owned(),
            status: word(),
            address: word(),
            pods: 1,
            age: word(),
        };
        let pod = PodLine {
            namespace: word(),
            name: name.to_owned(),
            node: word(),
            status: word(),
            address: word(),
            age: word(),
        };
        Snapshot {
            facts: Facts::new("https://127.0.0.1:7443".into(), "memory".into()),
            uptime: word(),
            nodes: vec![node],
            pods: vec![pod],
            pod_count,
        }
    }

    #[test]
    fn nothing_from_the_cluster_is_taken_for_html() {
        let page = render(&snapshot("<script>alert('{{version}}')</script>&", 1));
        assert!(
            page.contains("&#60;script&#62;alert(&#39;{{version}}&#39;)&#60;/script&#62;&#38;")
        );
        assert!(!page.contains("<script>alert"));
    }

    #[test]
    fn the_first_page_holds_the_tables_without_a_script() {
        let page = render(&snapshot("berth-node-1", 1));
        assert!(page.contains("<td>berth-node-1</td>"));
        assert!(page.contains("https://127.0.0.1:7443"));
        assert!(page.contains("<caption"));
    }

    #[test]
    fn the_page_says_when_it_does_not_show_all_pods() {
        let more = |count| render(&snapshot("p", count)).contains("id=\"more\" hidden");
        assert!(more(1));
        assert!(!more(2));
    }

    #[test]
    fn the_page_asks_nobody_else_for_anything() {
        assert!(
            !TEMPLATE.contains("http://")
                && !TEMPLATE.contains("https://")
                && !TEMPLATE.contains("src=")
        );
    }
}

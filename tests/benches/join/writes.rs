//! The writes that kube-apiserver counts.

use std::collections::BTreeMap;

use http::Request;

use crate::server::Server;

/// How many, by verb, resource and response code.
pub struct Writes {
    counts: BTreeMap<String, usize>,
}

impl Writes {
    pub async fn of(server: &Server) -> Self {
        let request = Request::get("/metrics").body(Vec::new()).unwrap();
        let text = server.client().request_text(request).await.unwrap();
        let mut counts = BTreeMap::new();
        for line in text.lines() {
            let Some((labels, count)) = line
                .strip_prefix("apiserver_request_total{")
                .and_then(|line| line.rsplit_once("} "))
            else {
                continue;
            };
            let labels = parse(labels);
            let verb = labels["verb"];
            if ["POST", "PUT", "PATCH", "APPLY", "DELETE"].contains(&verb)
                && !renews_a_lease(&labels)
            {
                let (resource, subresource, code) =
                    (labels["resource"], labels["subresource"], labels["code"]);
                let slash = if subresource.is_empty() { "" } else { "/" };
                let name = format!("{verb} {resource}{slash}{subresource} {code}");
                *counts.entry(name).or_default() += count.parse::<usize>().unwrap();
            }
        }
        Self { counts }
    }

    pub fn since(&self, before: &Self) -> Self {
        let since = |(name, count): (&String, &usize)| {
            let more = count - before.counts.get(name).unwrap_or(&0);
            (more > 0).then(|| (name.clone(), more))
        };
        Self {
            counts: self.counts.iter().filter_map(since).collect(),
        }
    }

    pub fn total(&self) -> usize {
        self.counts.values().sum()
    }

    pub fn by_kind(&self) -> impl Iterator<Item = (&String, &usize)> {
        self.counts.iter()
    }
}

/// Leases are renewed for as long as a process runs, whatever it does. kube-apiserver has one, too.
fn renews_a_lease(labels: &BTreeMap<&str, &str>) -> bool {
    labels["resource"] == "leases"
}

/// No value of these labels has a comma or a quote in it.
fn parse(labels: &str) -> BTreeMap<&str, &str> {
    let pairs = labels.split(',').filter_map(|label| label.split_once('='));
    pairs.map(|(name, value)| (name, value.trim_matches('"'))).collect()
}

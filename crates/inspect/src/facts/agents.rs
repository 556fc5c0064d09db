//! What agents hold. The API server forwards the question to each agent: it reaches all nodes and
//! checks permissions (`get` on `nodes/proxy`).

use std::time::Duration;

use berth_api::agent::{DIGEST, Digest};
use futures::future::BoxFuture;
use futures::future::join_all;
use http::Request;
use kube::Client;

use super::Facts;

/// This many are asked at the same time. If none of the first batch answers, the others are not
/// asked.
const CONCURRENCY: usize = 32;
/// An agent answers within milliseconds; a node that is gone never does.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the agent of each node that has a NodeNetworkConfig. Call this after all else is read: what
/// an agent holds is then never older than the pods that it is compared with.
pub fn ask_agents<'a>(client: &'a Client, port: u16, facts: &'a mut Facts) -> BoxFuture<'a, ()> {
    Box::pin(async move {
        let nodes: Vec<String> = facts
            .nodes
            .keys()
            .filter(|node| facts.nncs.contains_key(*node))
            .cloned()
            .collect();
        for some in nodes.chunks(CONCURRENCY) {
            if facts.digests.is_empty() && facts.unanswered.len() >= CONCURRENCY {
                let why = "not asked: no other agent has answered".to_owned();
                facts
                    .unanswered
                    .extend(some.iter().map(|node| (node.clone(), why.clone())));
                continue;
            }
            let asked = some.iter().map(async |node| {
                let answered = tokio::time::timeout(TIMEOUT, ask(client, node, port)).await;
                let digest =
                    answered.unwrap_or_else(|_| Err(format!("no answer within {TIMEOUT:?}")));
                (node.clone(), digest)
            });
            for (node, digest) in join_all(asked).await {
                match digest {
                    Ok(digest) => {
                        let lines = digest.addresses.into_iter().map(|line| (line.address, line));
                        facts.digests.insert(node, lines.collect());
                    }
                    Err(why) => {
                        facts.unanswered.insert(node, why);
                    }
                }
            }
        }
    })
}

async fn ask(client: &Client, node: &str, port: u16) -> Result<Digest, String> {
    let path = format!("/api/v1/nodes/http:{node}:{port}/proxy{DIGEST}");
    let request = Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    let digest: Digest = client.request(request).await.map_err(|error| error.to_string())?;
    // Something else may listen on the port: another node's agent, for example.
    match digest.node == node {
        true => Ok(digest),
        false => Err(format!("the agent of {} has answered", digest.node)),
    }
}

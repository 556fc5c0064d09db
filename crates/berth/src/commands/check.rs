use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use berth_api::agent::DEFAULT_METRICS_PORT;
use berth_inspect::check::{Finding, check};
use berth_inspect::facts::ask_agents;
use berth_inspect::{Facts, gather};
use berth_kit::args::CommonArgs;
use kube::Client;

use super::output::{OutputArgs, Table, print};

/// Compare pods, nodes, machines, Subnets, routes, the ledger and what agents hold, and print what
/// disagrees
#[derive(Debug, clap::Args)]
pub struct Check {
    /// Put right what can be without harm, after printing it; the rest is left to people
    #[arg(long, env = "BERTH_REPAIR")]
    repair: bool,
    /// Where the agents have --metrics-listen: each is asked through the API server what it holds
    #[arg(
        long,
        env = "BERTH_AGENT_PORT",
        value_name = "PORT",
        default_value_t = DEFAULT_METRICS_PORT
    )]
    agent_port: u16,
    #[command(flatten)]
    output: OutputArgs,
}

/// Two clients: requests to agents are not retried.
struct Clients {
    agents: Client,
    others: Client,
}

/// Why the agent of a node has not answered.
type Unanswered = BTreeMap<String, String>;

impl Check {
    /// Ends with an error when something disagrees that was not put right.
    pub fn run(self, common: &CommonArgs) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let client = common.cluster.client().await?;
            let clients = Clients {
                agents: common.cluster.client_without_retries().await?,
                others: client.clone(),
            };
            let (findings, unanswered) = check_twice(&clients, self.agent_port).await?;
            print_unanswered(&unanswered);
            print(self.output.output, &findings, || text(&findings))?;
            let repaired = if self.repair {
                repair(&client, &findings).await?
            } else {
                0
            };
            match findings.len() - repaired {
                0 => Ok(()),
                left if self.repair => bail!("{left} things disagree that people must put right"),
                left => bail!("{left} things disagree"),
            }
        })
    }
}

/// Checks twice, as a healthy system keeps changing, and returns only findings of both checks. Also
/// returns which agents did not answer, and why.
async fn check_twice(clients: &Clients, port: u16) -> Result<(Vec<Finding>, Unanswered)> {
    let facts = gather_all(clients, port).await?;
    let first = check(&facts);
    if first.is_empty() {
        return Ok((first, facts.unanswered));
    }
    let facts = gather_all(clients, port).await?;
    let stays = |finding: &Finding| first.contains(finding);
    let findings = check(&facts).into_iter().filter(stays).collect();
    Ok((findings, facts.unanswered))
}

async fn gather_all(clients: &Clients, port: u16) -> Result<Facts> {
    let mut facts = gather(&clients.others).await?;
    ask_agents(&clients.agents, port, &mut facts).await;
    Ok(facts)
}

/// Prints to stderr: an agent without an answer is not a finding.
fn print_unanswered(unanswered: &Unanswered) {
    if let Some((node, why)) = unanswered.first_key_value() {
        let count = unanswered.len();
        eprintln!(
            "What {count} agents hold is not compared, such as that of {node}: {why}. Each needs \
             --metrics-listen where the API server reaches it, and you `get` on nodes/proxy."
        );
    }
}

/// Repairs findings, and returns how many. What is done goes to stderr: stdout is for the findings.
async fn repair(client: &Client, findings: &[Finding]) -> Result<usize> {
    let mut done = BTreeSet::new();
    let mut repaired = 0;
    for repair in findings.iter().filter_map(|finding| finding.repair.as_ref()) {
        // A pod with two addresses may be in two findings.
        if done.insert(repair) {
            repair.apply(client).await.with_context(|| format!("cannot {repair}"))?;
            eprintln!("repaired: {repair}");
        }
        repaired += 1;
    }
    Ok(repaired)
}

fn text(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "Nothing disagrees.\n".to_owned();
    }
    let mut table = Table::new(&["OBJECT", "PROBLEM", "FIX"]);
    for finding in findings {
        table.add([finding.object.clone(), finding.problem.clone(), finding.fix.clone()]);
    }
    table.to_string()
}

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

/// An agent that does not answer is not asked again.
struct Clients {
    agents: Client,
    others: Client,
}

/// Why the agent of a node has not answered.
type Unheard = BTreeMap<String, String>;

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
            let (findings, unheard) = look_twice(&clients, self.agent_port).await?;
            tell_unheard(&unheard);
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

/// A system in motion is between two states: only what stays is told. Also says which agents were
/// not heard, and why.
async fn look_twice(clients: &Clients, port: u16) -> Result<(Vec<Finding>, Unheard)> {
    let facts = look(clients, port).await?;
    let first = check(&facts);
    if first.is_empty() {
        return Ok((first, facts.unheard));
    }
    let facts = look(clients, port).await?;
    let stays = |finding: &Finding| first.contains(finding);
    let findings = check(&facts).into_iter().filter(stays).collect();
    Ok((findings, facts.unheard))
}

async fn look(clients: &Clients, port: u16) -> Result<Facts> {
    let mut facts = gather(&clients.others).await?;
    ask_agents(&clients.agents, port, &mut facts).await;
    Ok(facts)
}

/// On stderr: that an agent can't be asked is nothing that disagrees.
fn tell_unheard(unheard: &Unheard) {
    if let Some((node, why)) = unheard.first_key_value() {
        let count = unheard.len();
        eprintln!(
            "What {count} agents hold is not compared, such as that of {node}: {why}. Each needs \
             --metrics-listen where the API server reaches it, and you `get` on nodes/proxy."
        );
    }
}

/// How many findings are put right. What is done goes to stderr: stdout is for the findings.
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

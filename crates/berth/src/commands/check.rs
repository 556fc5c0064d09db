use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use berth_inspect::check::{Finding, check};
use berth_inspect::gather;
use berth_kit::args::CommonArgs;
use kube::Client;

use super::output::{OutputArgs, Table, print};

/// Compare pods, nodes, machines, Subnets and the ledger, and print what disagrees
#[derive(Debug, clap::Args)]
pub struct Check {
    /// Put right what can be without harm, after printing it; the rest is left to people
    #[arg(long, env = "BERTH_REPAIR")]
    repair: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl Check {
    /// Ends with an error when something disagrees that was not put right.
    pub fn run(self, common: &CommonArgs) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let client = common.cluster.client().await?;
            let findings = look_twice(&client).await?;
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

/// A system in motion is between two states: only what stays is told.
async fn look_twice(client: &Client) -> Result<Vec<Finding>> {
    let first = check(&gather(client).await?);
    if first.is_empty() {
        return Ok(first);
    }
    let again = check(&gather(client).await?);
    let stays = |finding: &Finding| first.contains(finding);
    Ok(again.into_iter().filter(stays).collect())
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

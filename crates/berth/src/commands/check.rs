use anyhow::{Result, bail};
use berth_inspect::check::{Finding, check};
use berth_inspect::gather;
use berth_kit::args::CommonArgs;

use super::output::{OutputArgs, Table, print};

/// Compare pods, nodes, machines, Subnets and the ledger, and print what disagrees
#[derive(Debug, clap::Args)]
pub struct Check {
    #[command(flatten)]
    output: OutputArgs,
}

impl Check {
    /// Ends with an error when something disagrees.
    pub fn run(self, common: &CommonArgs) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let findings = runtime.block_on(async {
            let client = common.cluster.client().await?;
            let first = check(&gather(&client).await?);
            if first.is_empty() {
                return anyhow::Ok(first);
            }
            // A system in motion is between two states: only what stays is told.
            let again = check(&gather(&client).await?);
            let stays = |finding: &Finding| first.contains(finding);
            Ok(again.into_iter().filter(stays).collect())
        })?;
        print(self.output.output, &findings, || text(&findings))?;
        if !findings.is_empty() {
            bail!("{} things disagree", findings.len());
        }
        Ok(())
    }
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

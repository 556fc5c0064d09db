use std::net::IpAddr;

use anyhow::{Context, Result};
use berth_inspect::explain::{self, Explanation};
use berth_inspect::facts::gather_reports;
use berth_inspect::{Facts, gather};
use berth_kit::args::CommonArgs;
use berth_kit::watch::Key;
use jiff::Timestamp;

use super::output::{OutputArgs, print};

/// Say why something waits, or whose an address is, and what to do next
#[derive(Debug, clap::Args)]
pub struct Explain {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// A pod, as NAMESPACE/NAME or NAME in the namespace default
    Pod {
        name: String,
    },
    Node {
        name: String,
    },
    Subnet {
        name: String,
    },
    /// A machine, as NAME or NAMESPACE/NAME
    Machine {
        name: String,
    },
    /// An IPAddressClaim of Cluster API, as NAMESPACE/NAME
    Claim {
        name: String,
    },
    /// The machine network of a Cluster
    Cluster {
        name: String,
    },
    /// An address: who has it, or had it
    Ip {
        address: IpAddr,
        /// Who had it then, such as 2026-11-16T03:00:00Z, as far as what is kept goes back
        #[arg(long, value_name = "TIME", env = "BERTH_AT", value_parser = time)]
        at: Option<Timestamp>,
    },
}

impl Explain {
    pub fn run(self, common: &CommonArgs) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let facts = runtime.block_on(async {
            let client = common.cluster.client().await?;
            let mut facts = gather(&client).await?;
            gather_reports(&client, &mut facts).await?;
            anyhow::Ok(facts)
        })?;
        let told = self.what.explain(&facts)?;
        print(self.output.output, &told, || text(&told))
    }
}

impl What {
    fn explain(&self, facts: &Facts) -> Result<Explanation> {
        match self {
            Self::Pod { name } => {
                let key = key(name, "default");
                explain::pod(facts, &key).with_context(|| format!("there is no pod {key}"))
            }
            Self::Node { name } => {
                explain::node(facts, name).with_context(|| format!("there is no node {name}"))
            }
            Self::Subnet { name } => {
                explain::subnet(facts, name).with_context(|| format!("there is no subnet {name}"))
            }
            Self::Machine { name } => {
                let key = key(name, "");
                explain::machine(facts, &key).with_context(|| format!("there is no machine {key}"))
            }
            Self::Claim { name } => {
                let key = key(name, "default");
                explain::claim(facts, &key).with_context(|| format!("there is no claim {key}"))
            }
            Self::Cluster { name } => {
                explain::cluster(facts, name).with_context(|| format!("there is no cluster {name}"))
            }
            Self::Ip { address, at } => Ok(match at {
                Some(at) => explain::ip_at(facts, *address, *at),
                None => explain::ip(facts, *address),
            }),
        }
    }
}

fn time(text: &str) -> Result<Timestamp, String> {
    let read = text.parse();
    read.map_err(|_| "it is not a time: write it as 2026-11-16T03:00:00Z".to_owned())
}

fn key(text: &str, namespace: &str) -> Key {
    let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
    Key {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn text(told: &Explanation) -> String {
    let mut lines = told.sentences.clone();
    if !told.next_steps.is_empty() {
        lines.push("What to do:".to_owned());
        lines.extend(told.next_steps.iter().map(|step| format!("  - {step}")));
    }
    lines.push(String::new());
    lines.join("\n")
}

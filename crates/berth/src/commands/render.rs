//! `berth render`: documents, on stdout.

use std::io::{Read, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use berth_machines::machine::Machine;
use berth_machines::render::{Os, document};

/// Print the document that a machine reads at its first start
#[derive(Debug, clap::Args)]
pub struct Render {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Machine(RenderMachine),
}

/// The cloud-init or Ignition document of a Machine, with its network if it has one
#[derive(Debug, clap::Args)]
struct RenderMachine {
    /// The Machine as YAML or JSON; - is stdin
    #[arg(long, short, env = "BERTH_FILE", value_name = "FILE")]
    file: PathBuf,
    /// The machine's operating system: ubuntu, centos, centos7, coreos or flatcar
    #[arg(long, env = "BERTH_OS", value_name = "OS")]
    os: String,
}

impl Render {
    pub fn run(self) -> Result<()> {
        let What::Machine(machine) = self.what;
        let os: Os = machine.os.parse().map_err(|error| anyhow!("--os: {error}"))?;
        let shown = machine.file.display();
        let text = if machine.file.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        } else {
            std::fs::read_to_string(&machine.file)
        };
        let text = text.with_context(|| format!("--file {shown}"))?;
        let found = Machine::parse(&text).with_context(|| format!("--file {shown}"))?;
        let document = document(&found, os).with_context(|| format!("--file {shown}"))?;
        std::io::stdout()
            .write_all(document.as_bytes())
            .context("writing to stdout")
    }
}

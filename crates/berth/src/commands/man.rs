use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::CommandFactory;

use super::Cli;

/// Write the manual pages: berth.1, and one for each command
#[derive(Debug, clap::Args)]
pub struct Man {
    /// Where to; it is made if it is not there
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

impl Man {
    pub fn run(self) -> Result<()> {
        let mut command = Cli::command();
        // Sets the names of commands, and the flags that all of them have.
        command.build();
        let written = std::fs::create_dir_all(&self.directory)
            .and_then(|()| write(&command, "berth", &self.directory));
        written.with_context(|| format!("writing manual pages to {}", self.directory.display()))
    }
}

fn write(command: &clap::Command, name: &str, directory: &Path) -> std::io::Result<()> {
    let mut page = Vec::new();
    // clap needs static names, and the program is about to end.
    let shown: &'static str = Box::leak(name.to_owned().into_boxed_str());
    clap_mangen::Man::new(command.clone().name(shown)).render(&mut page)?;
    std::fs::write(directory.join(format!("{name}.1")), page)?;
    for subcommand in command.get_subcommands().filter(|found| found.get_name() != "help") {
        write(subcommand, &format!("{name}-{}", subcommand.get_name()), directory)?;
    }
    Ok(())
}

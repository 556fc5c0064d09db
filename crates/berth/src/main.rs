//! The `berth` command: one file per subcommand under `commands`, and the dashboard of `berth up`.

mod commands;
mod dashboard;

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match commands::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line, whatever the parts of it held.
            let text = format!("{error:#}");
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            eprintln!("berth: {line}");
            ExitCode::FAILURE
        }
    }
}

//! The `berth` command: one file per subcommand under `commands`.
//! Called by the name of a CNI plugin, it is that plugin.

mod commands;

use std::env;
use std::process::ExitCode;

use berth_cni::Plugin;
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // First of all: a plugin takes the time of its call.
    if let Some(plugin) = std::env::args_os().next().as_deref().and_then(Plugin::named) {
        return plugin.main();
    }
    if env::args_os().any(|argument| argument == "agent") {
        // A node's memory is for its pods: with huge pages an agent would take 2 MiB for every few
        // KiB that it uses. As early as can be, for what is there stays. Where the kernel has none
        // there is nothing to switch off.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
    match commands::Cli::parse_from(commands::with_two_dashes(env::args_os())).run() {
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

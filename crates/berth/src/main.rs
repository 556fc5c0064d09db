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
    // The plugin check comes first: a plugin must be fast.
    if let Some(plugin) = std::env::args_os().next().as_deref().and_then(Plugin::named) {
        return plugin.main();
    }
    if env::args_os().any(|argument| argument == "agent") {
        // A node's memory is for its pods: with huge pages an agent would take 2 MiB for every few
        // KiB that it uses. This runs as early as possible, since existing pages stay huge. A
        // kernel without huge pages needs nothing.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
    match commands::Cli::parse_from(commands::with_two_dashes(env::args_os())).run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Always one line, whatever the causes contain.
            let text = format!("{error:#}");
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            eprintln!("berth: {line}");
            ExitCode::FAILURE
        }
    }
}

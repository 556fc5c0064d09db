//! The command blocks of README and docs, run as a reader would run them.

#![cfg(test)]

mod exists;
mod expect;
mod scrape;
mod shell;

use std::fmt::Write;

use berth_e2e::docs::{Block, Class, Page, pages};

use shell::Shell;

/// `BERTH_DOCS=docs/up.md` runs that page alone.
#[test]
fn every_page_can_be_followed() {
    let only = std::env::var("BERTH_DOCS").ok();
    let mut failures = String::new();
    let mut count = 0;
    for page in pages().unwrap() {
        if only.as_ref().is_some_and(|only| *only != page.name) {
            continue;
        }
        let blocks = page.blocks().unwrap().into_iter();
        let blocks: Vec<Block> = blocks
            .filter(|block| matches!(block.class, Class::Run | Class::Up))
            .collect();
        if blocks.is_empty() {
            continue;
        }
        println!("{}: {} blocks", page.name, blocks.len());
        count += blocks.len();
        if let Err(failure) = follow(&page, &blocks) {
            println!("{failure}");
            writeln!(failures, "{failure}").unwrap();
        }
    }
    assert!(count > 0, "no block was run");
    assert!(failures.is_empty(), "{failures}");
}

/// What went wrong, with the line of the page.
fn follow(page: &Page, blocks: &[Block]) -> Result<(), String> {
    let mut shell = Shell::open().map_err(|error| format!("{}: {error}", page.name))?;
    for block in blocks {
        let at = |line: usize| format!("{}:{line}", page.name);
        // A block that starts its own cluster needs no other.
        let starts = block.commands.iter().any(|command| shell::is_up(&command.text));
        if block.class == Class::Up && !starts {
            shell.up().map_err(|error| format!("{}: {error}", at(block.line)))?;
        }
        for command in &block.commands {
            println!("  {} $ {}", at(command.line), command.text);
            shell
                .follow(command)
                .map_err(|error| format!("{}: {}\n{error}", at(command.line), command.text))?;
        }
    }
    Ok(())
}

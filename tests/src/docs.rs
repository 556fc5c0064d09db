//! The pages as tests read them: command blocks with their class, headings, links.
//!
//! A command block is a fence of `console`, followed by its class:
//!
//! | class | who runs it |
//! | --- | --- |
//! | `run` | `tests/docs`: in one shell for each page, in order, without a cluster |
//! | `up` | the same, in the same shell, with a `berth up` for the page |
//! | `chart` | `tests/chart`: on a real cluster with Helm |
//! | `shown: WHY` | nobody, for the reason WHY. Its commands and flags must exist all the same |
//!
//! A line that begins with `$ ` (or `# `, for root) is a command, with the lines that belong to it:
//! after a `\`, up to the end of a here-document. What follows is its output. In it `…` stands for
//! anything, and a line `...` for any lines.

mod block;
#[cfg(test)]
mod links;
#[cfg(test)]
mod quotes;
#[cfg(test)]
mod rules;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use block::{Block, Class, Command, blocks};

/// Where pages are found, and where their commands are run from.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[derive(Clone, Debug)]
pub struct Page {
    /// From the root: `docs/up.md`.
    pub name: String,
    pub text: String,
}

impl Page {
    pub fn read(name: &str) -> Result<Self> {
        let text = fs::read_to_string(root().join(name));
        Ok(Self {
            name: name.to_owned(),
            text: text.with_context(|| format!("reading {name}"))?,
        })
    }

    /// An error names the line whose block has no class.
    pub fn blocks(&self) -> Result<Vec<Block>> {
        blocks(&self.text).with_context(|| self.name.clone())
    }
}

/// All pages that people read: those at the root, and those in `docs`.
pub fn pages() -> Result<Vec<Page>> {
    let mut names: Vec<String> = Vec::new();
    for directory in ["", "docs/"] {
        let entries = fs::read_dir(root().join(directory))?;
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                names.push(format!("{directory}{name}"));
            }
        }
    }
    names.sort();
    names.iter().map(|name| Page::read(name)).collect()
}

//! Files that outlive a checkout: built programs, and the directories of running clusters.

use std::path::PathBuf;

use anyhow::{Context, Result};

pub fn directory() -> Result<PathBuf> {
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(cache) => PathBuf::from(cache),
        None => std::env::home_dir()
            .context(
                "neither HOME nor XDG_CACHE_HOME is set: there is no place for built programs",
            )?
            .join(".cache"),
    };
    Ok(cache.join("berth"))
}

//! Files with secrets in them: keys, tokens, kubeconfigs.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes a file that its owner alone can read, from its first byte on; after a crash it is there as a whole or not at all.
pub fn write(path: &Path, content: &str) -> Result<()> {
    let unfinished = path.with_extension("new");
    // One that a crash left may have other permissions: it is not written into.
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&unfinished)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn is_for_its_owner_alone_whatever_was_there_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        for left in [path.clone(), path.with_extension("new")] {
            std::fs::write(&left, "old").unwrap();
            std::fs::set_permissions(&left, PermissionsExt::from_mode(0o644)).unwrap();
        }
        write(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!path.with_extension("new").exists());
    }
}

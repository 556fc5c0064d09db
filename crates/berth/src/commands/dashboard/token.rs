//! The token that changes need, in a file for its owner alone.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use berth_dashboard::WriteToken;
use berth_kit::private_file;

pub fn random() -> WriteToken {
    WriteToken::of_bytes(rand::random())
}

/// Reads the token; `None` without a file. `flag` chose the path.
pub fn read(flag: &str, path: &Path) -> Result<Option<WriteToken>> {
    let named = || format!("{flag} {}", path.display());
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.with_context(named)?,
    };
    let mode = path.metadata().with_context(named)?.permissions().mode();
    ensure!(
        mode & 0o077 == 0,
        "{flag} {path}: others can read it, so it is not a secret: chmod 600 {path}",
        path = path.display()
    );
    let token = WriteToken::new(&text).with_context(named)?;
    Ok(Some(token))
}

/// Reads the token, or writes a new one.
pub fn read_or_make(flag: &str, path: &Path) -> Result<WriteToken> {
    if let Some(token) = read(flag, path)? {
        return Ok(token);
    }
    let token = random();
    let written = private_file::write(path, &format!("{}\n", token.expose()));
    written.with_context(|| format!("{flag} {}", path.display()))?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_kept_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        assert!(read("--token-file", &path).unwrap().is_none());
        let token = read_or_make("--token-file", &path).unwrap();
        assert_eq!(token.expose().len(), 64);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(read_or_make("--token-file", &path).unwrap().is(token.expose()));
        assert!(!random().is(token.expose()));
    }

    #[test]
    fn a_token_file_readable_by_others_or_too_short_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        private_file::write(&path, "short").unwrap();
        let error = format!("{:#}", read("--token-file", &path).unwrap_err());
        assert!(
            error.contains("--token-file") && error.contains("at least 16"),
            "{error}"
        );
        private_file::write(&path, "a-token-that-is-long").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let error = format!("{:#}", read("--token-file", &path).unwrap_err());
        assert!(error.contains("chmod 600"), "{error}");
    }
}

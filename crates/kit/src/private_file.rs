//! Files with secrets in them: keys, tokens, kubeconfigs.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Result, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

const OWNER_ONLY: u32 = 0o600;

/// Opens a file for reading and writing, or creates it. From then on only its owner can read or
/// write it, whatever its permissions were and whatever the umask is.
pub fn open(path: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(OWNER_ONLY)
        .open(path)?;
    restrict(&file)?;
    Ok(file)
}

/// A killed process may leave behind a child that it had just started. For a moment, that child
/// still has the files open.
const UNLOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Locks the file, and waits for a moment if another process has it locked. Returns whether the
/// file is locked by this one now.
pub fn lock(file: &File) -> Result<bool> {
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if begin.elapsed() < UNLOCK_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Waits for a moment until no other process has the file locked. It does not lock the file. The
/// code that opens it does that, and reports it if another process still has the lock.
pub fn wait_until_unlocked(file: &File) -> Result<()> {
    if lock(file)? {
        file.unlock()?;
    }
    Ok(())
}

fn restrict(file: &File) -> Result<()> {
    if file.metadata()?.permissions().mode() & 0o7777 == OWNER_ONLY {
        return Ok(());
    }
    file.set_permissions(PermissionsExt::from_mode(OWNER_ONLY))
}

/// Writes a file that only its owner can read, from its first byte on. After a crash the path has
/// the content from before or all of the new content.
pub fn write(path: &Path, content: &str) -> Result<()> {
    let unfinished = path.with_extension("new");
    // A file that a crash left behind may have other permissions: it is not reused.
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(OWNER_ONLY)
        .open(&unfinished)?;
    restrict(&file)?;
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
    use super::*;

    #[test]
    fn an_open_file_is_for_its_owner_alone_and_keeps_its_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("objects");
        std::fs::write(&path, "old").unwrap();
        for mode in [0o644, 0o666] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            open(&path).unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, OWNER_ONLY);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        let made = directory.path().join("made");
        open(&made).unwrap();
        assert_eq!(made.metadata().unwrap().permissions().mode() & 0o7777, OWNER_ONLY);
    }

    #[test]
    fn a_lock_is_waited_for_until_released_or_until_a_deadline() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("objects");
        let (held, file) = (open(&path).unwrap(), open(&path).unwrap());
        held.lock().unwrap();
        wait_until_unlocked(&file).unwrap();
        assert!(matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
        let holder = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(held);
        });
        wait_until_unlocked(&file).unwrap();
        file.try_lock().unwrap();
        holder.join().unwrap();
    }

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

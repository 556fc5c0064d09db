//! What only root can show of the release queue: that other users' directories and files are not
//! followed.

use std::os::unix::fs::chown;
use std::path::Path;

use berth_agent::queue::{Directory, Flavour, Found};
use berth_api::agent::{Release, entry_name};
use berth_api::cni::Attachment;

const NOBODY: u32 = 65_534;

fn put(queue: &Path, container: &str) {
    let attachment = Attachment::new(container, "eth0").unwrap();
    let release = Release {
        attachment,
        started: 1,
    };
    let file = queue.join(entry_name(&release.attachment));
    std::fs::write(&file, serde_json::to_string(&release).unwrap()).unwrap();
}

#[test]
fn another_users_directory_is_refused_with_what_to_do() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("queue");
    let queue = Directory::open(&path, Flavour::Ours).unwrap();
    put(&path, "c1");
    chown(&path, Some(NOBODY), None).unwrap();
    let error = Directory::open(&path, Flavour::Ours).unwrap_err().to_string();
    assert!(error.contains("user 65534") && error.contains("chown root"), "{error}");
    // Nor is it read by who has opened it before.
    assert!(queue.pass().is_err() && queue.survey().is_err());
    chown(&path, Some(0), None).unwrap();
    assert_eq!(queue.pass().unwrap().batch(9).unwrap().len(), 1);
}

#[test]
fn another_users_file_is_put_aside_with_the_reason() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("queue");
    let queue = Directory::open(&path, Flavour::Ours).unwrap();
    put(&path, "c1");
    chown(path.join("c1:eth0"), Some(NOBODY), None).unwrap();
    let found = queue.pass().unwrap().batch(9).unwrap();
    let [Found::Broken(broken)] = &found[..] else {
        panic!("{found:?} is obeyed");
    };
    assert!(broken.why.to_string().contains("user 65534"), "{}", broken.why);
    queue.set_aside(broken).unwrap();
    assert!(path.join("broken/c1:eth0").exists());
}

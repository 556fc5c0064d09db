//! What only root can show of the agent's socket: another user at the door, and a disk that is full.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "scene/node.rs"]
mod node;
#[path = "scene/socket.rs"]
mod socket;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use serde_json::json;
use socket::{Served, add, send};

const NOBODY: u32 = 65_534;

/// Asks as another user: what a thread may is its own, and this one ends with the question.
fn ask_as_nobody(path: &Path) -> (u16, serde_json::Value) {
    let path = PathBuf::from(path);
    let asked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let nobody = Uid::from_raw(NOBODY);
        set_thread_res_uid(nobody, nobody, nobody).unwrap();
        runtime.block_on(send(&path, "GET", "/v1/addresses", "")).unwrap()
    });
    asked.join().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_is_refused_even_where_the_file_lets_it_in() {
    let served = Served::new(&["10.64.0.10"]).await;
    // Somebody has opened the file and its folder to everybody.
    fs::set_permissions(&served.path, Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(served.path.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    let path = served.path.clone();
    let (code, refusal) = tokio::task::spawn_blocking(move || ask_as_nobody(&path)).await.unwrap();
    assert_eq!((code, &refusal["reason"]), (403, &json!("Forbidden")));
    assert_eq!(add(&served, 1).await.0, 200);
}

/// A file system of its own, as small as they come.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Self {
        fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "small"]).arg(at);
        assert!(mount.status().unwrap().success());
        Self(at.to_owned())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(&self.0).status());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_an_add_fails_clearly_and_nothing_is_half_done() {
    let folder = tempfile::tempdir().unwrap();
    let small = Small::mount(&folder.path().join("state"));
    let served = Served::with_state(&["10.64.0.10", "10.64.0.11"], &small.0).await;
    assert_eq!(add(&served, 1).await.0, 200);
    // Whatever room is left goes to somebody else.
    let filler = small.0.join("filler");
    drop(fs::write(&filler, vec![0; 1 << 20]));
    let journal = fs::read(small.0.join("journal")).unwrap();
    let mut refused = 0;
    for n in 2..200 {
        // The last page of the journal may still have room for some.
        let (code, refusal) = add(&served, n).await;
        let released = served
            .post(
                "/v1/release",
                &json!({"attachment": {"container": format!("c{n}"), "interface": "eth0"}}),
            )
            .await;
        if code != 200 {
            assert_eq!((code, &refusal["reason"]), (507, &json!("Storage")), "{refusal}");
            assert!(
                refusal["message"].as_str().unwrap().contains("make room on its disk"),
                "{refusal}"
            );
            assert_eq!(released.0, 507, "a release that can't be kept is not acknowledged");
            refused += 1;
        }
    }
    assert!(refused > 0, "the disk was never full");
    let (code, status) = served.get("/v1/status").await;
    assert_eq!(code, 503, "no ADD can be served: {status}");
    assert_eq!(served.node.agent.status().pool.assigned, 1);
    assert!(fs::read(small.0.join("journal")).unwrap().starts_with(&journal));
    // With room again it goes on, and a restart finds all that was answered.
    fs::remove_file(&filler).unwrap();
    assert_eq!(served.get("/v1/status").await.0, 200);
    assert_eq!(add(&served, 500).await.0, 200);
    let held = served.node.agent.holdings();
    assert_eq!(served.reopened().holdings(), held);
}

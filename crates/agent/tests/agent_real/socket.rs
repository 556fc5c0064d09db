//! What only root can show of the agent's socket: another user at the door, and a disk that is
//! full.

mod uptime;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use serde_json::{Value, json};

use crate::scene::socket::{Served, add, send};

const NOBODY: u32 = 65_534;

/// Asks as another user: what a thread may is its own, and this one ends with the question.
fn ask_as_nobody(path: &Path) -> (u16, Value) {
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
    // Somebody has opened the file and its directory to everybody.
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

/// The release of `c<n>`, as the agent answers it.
async fn release(served: &Served, container: &str) -> (u16, Value) {
    let attachment = json!({"container": container, "interface": "eth0"});
    served.post("/v1/release", &json!({"attachment": attachment})).await
}

/// That it was refused for want of room, and says what to do.
fn assert_full((code, refusal): (u16, Value)) {
    assert_eq!((code, &refusal["reason"]), (507, &json!("Storage")), "{refusal}");
    let message = refusal["message"].as_str().unwrap();
    assert!(message.contains("make room on its disk"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_an_add_fails_clearly_and_nothing_is_half_done() {
    let directory = tempfile::tempdir().unwrap();
    let small = Small::mount(&directory.path().join("state"));
    // More than a page of the journal has room for.
    let addresses: Vec<String> = (0..250).map(|n| format!("10.64.1.{n}")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let served = Served::with_state(&addresses, &small.0).await;
    assert_eq!(add(&served, 1).await.0, 200);
    // Whatever room is left goes to somebody else.
    let filler = small.0.join("filler");
    drop(fs::write(&filler, vec![0; 1 << 20]));
    // The last page of the journal has room for some: for how many depends on how long their lines
    // are, and so on how many digits the uptime has. First it is filled with ADDs, and what is left
    // of it with the shortest lines there are.
    let mut kept = 1;
    let refused = loop {
        let answer = add(&served, kept + 1).await;
        if answer.0 != 200 {
            break answer;
        }
        kept += 1;
    };
    assert_full(refused);
    let mut others = 0;
    let refused = loop {
        let answer = release(&served, "x").await;
        if answer.0 != 200 {
            break answer;
        }
        others += 1;
    };
    assert_full(refused);
    let journal = fs::read(small.0.join("journal")).unwrap();
    // From here on nothing fits: no ADD, and no release, which is not acknowledged then.
    for n in 1..=kept {
        assert_full(add(&served, 1000 + n).await);
        assert_full(release(&served, &format!("c{n}")).await);
    }
    let (code, status) = served.get("/v1/status").await;
    assert_eq!(code, 503, "no ADD can be served: {status}");
    let assigned = served.node.agent.status().pool.assigned;
    assert_eq!(assigned, u64::from(kept), "after {others} releases of nothing");
    assert_eq!(fs::read(small.0.join("journal")).unwrap(), journal);
    // With room again it goes on, and a restart finds all that was answered.
    fs::remove_file(&filler).unwrap();
    assert_eq!(served.get("/v1/status").await.0, 200);
    assert_eq!(add(&served, 500).await.0, 200);
    assert_eq!(release(&served, "c1").await.0, 200);
    let held = served.node.agent.holdings();
    assert_eq!(held.len(), usize::try_from(kept).unwrap());
    assert_eq!(served.reopened().holdings(), held);
}

//! Any bytes as a journal: they are read or put aside, and a later entry is kept.

use berth_agent::journal::{Entry, Found, Journal};
use berth_api::cni::Attachment;

pub fn run(data: &[u8]) {
    let directory = tempfile::tempdir().expect("a directory");
    let mark = directory.path().join("mark");
    let open = || Journal::open(directory.path(), &mark, "boot").expect("it opens");
    let (mut journal, _) = open();
    let old = Entry::Released {
        at: 1,
        started: 1,
        attachment: Attachment::new("old", "eth0").expect("a name"),
    };
    journal.append(&[old]).expect("room");
    drop(journal);
    let path = directory.path().join("journal");
    let mut bytes = std::fs::read(&path).expect("it is there");
    // Half of the inputs damage the journal, the others only append to it.
    match data.split_first() {
        Some((how, rest)) if how % 2 == 0 => {
            let at = rest.first().map_or(0, |at| usize::from(*at) % bytes.len());
            bytes.truncate(at);
            bytes.extend_from_slice(rest);
        }
        _ => bytes.extend_from_slice(data),
    }
    std::fs::write(&path, &bytes).expect("room");
    let (mut journal, _) = open();
    let new = Entry::Released {
        at: 2,
        started: 2,
        attachment: Attachment::new("new", "eth0").expect("a name"),
    };
    journal.append(std::slice::from_ref(&new)).expect("room");
    drop(journal);
    match open().1 {
        Found::Entries { entries, torn: false } => assert_eq!(entries.last(), Some(&new)),
        other => panic!("{other:?}"),
    }
}

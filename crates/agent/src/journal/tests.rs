use proptest::prelude::*;

use super::*;

const BOOT: &str = "0b0e0c1a-55aa-4d4b-9c3e-6a1f0d2b7c8e";

fn attachment(n: u64) -> Attachment {
    Attachment {
        container: format!("{n:064x}"),
        interface: "eth0".to_owned(),
    }
}

fn assigned(n: u64) -> Entry {
    let held = |name: &str, address: String| Held {
        name: format!("{name}-{n}"),
        address: address.parse().unwrap(),
    };
    Entry::Assigned {
        at: 1_700_000_000_000 + n,
        started: 1_699_999_999_999 + n,
        attachment: attachment(n),
        network: "pods".to_owned(),
        pod: PodRef {
            namespace: "shop".to_owned(),
            name: format!("web-{n}"),
            uid: String::new(),
        },
        held: vec![
            held("a", format!("10.64.0.{}", n % 250)),
            held("b", format!("fd64::{:x}", n % 250)),
        ],
    }
}

fn released(n: u64) -> Entry {
    Entry::Released {
        at: 1_700_000_000_500 + n,
        started: 1_700_000_000_400 + n,
        attachment: attachment(n),
    }
}

fn open(directory: &Path, boot: &str) -> (Journal, Found) {
    Journal::open(directory, &directory.join("mark"), boot).unwrap()
}

fn entries(found: Found) -> Vec<Entry> {
    match found {
        Found::Entries { entries, torn: false } => entries,
        other => panic!("{other:?}"),
    }
}

/// A journal with these entries, and its bytes.
fn written(entries: &[Entry]) -> (tempfile::TempDir, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, found) = open(directory.path(), BOOT);
    assert_eq!(found, Found::Nothing);
    for entry in entries {
        journal.append(std::slice::from_ref(entry)).unwrap();
    }
    let bytes = fs::read(directory.path().join(NAME)).unwrap();
    (directory, bytes)
}

#[test]
fn what_was_appended_is_found_again_and_goes_on() {
    let others = [
        Entry::Freed {
            at: 5,
            held: vec![Held {
                name: "a".to_owned(),
                address: "10.64.0.1".parse().unwrap(),
            }],
        },
        Entry::Releasing {
            at: 6,
            names: vec!["a".to_owned(), "b".to_owned()],
        },
    ];
    let (directory, _) = written(&[&[assigned(1), released(1)], &others[..]].concat());
    let (mut journal, found) = open(directory.path(), BOOT);
    assert_eq!(entries(found), [&[assigned(1), released(1)], &others[..]].concat());
    journal.append(&[assigned(2)]).unwrap();
    assert_eq!(journal.lines(), 6);
    journal.compact(&[assigned(2)]).unwrap();
    journal.append(&[assigned(3)]).unwrap();
    let (_, found) = open(directory.path(), BOOT);
    assert_eq!(entries(found), [assigned(2), assigned(3)]);
}

#[test]
fn after_another_boot_nothing_of_before_counts() {
    let (directory, _) = written(&[assigned(1)]);
    let (_, found) = open(directory.path(), "another-boot");
    assert_eq!(found, Found::EarlierBoot);
    let (_, found) = open(directory.path(), "another-boot");
    assert_eq!(entries(found), []);
}

#[test]
fn it_is_for_its_owners_eyes_only_and_for_people_to_read() {
    use std::os::unix::fs::PermissionsExt;
    let (directory, bytes) = written(&[assigned(7)]);
    let path = directory.path().join(NAME);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = String::from_utf8(bytes).unwrap();
    let line = text.lines().nth(1).unwrap();
    assert!(
        line.contains("assigned") && line.contains("pods shop web-7 - a-7=10.64.0.7,b-7=fd64::7"),
        "{line}"
    );
}

#[test]
fn a_truncated_journal_is_read_up_to_its_last_whole_entry() {
    let all = [assigned(1), released(1), assigned(2)];
    let (_, bytes) = written(&all);
    let ends: Vec<usize> = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    for cut in ends[0]..bytes.len() {
        let read = read(&bytes[..cut], BOOT);
        assert_eq!(read.damage, None, "cut at {cut}");
        let whole = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(read.whole, ends[whole - 1] as u64);
        let torn = ends[whole - 1] != cut;
        assert_eq!(read.entries, all[..whole - 1], "cut at {cut}");
        assert_eq!(read.torn, torn, "cut at {cut}");
    }
    // Without its first line it is none of ours.
    for cut in 0..ends[0] {
        assert!(read(&bytes[..cut], BOOT).damage.is_some(), "cut at {cut}");
    }
}

#[test]
fn a_bit_that_is_flipped_anywhere_is_seen() {
    let (_, bytes) = written(&[assigned(1), released(1), assigned(2)]);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            let read = read(&flipped, BOOT);
            assert!(read.damage.is_some(), "bit {bit} of byte {at} makes {read:?}");
        }
    }
}

#[test]
fn a_damaged_journal_is_put_aside_and_a_new_one_begins() {
    for n in 1..=2 {
        let (directory, mut bytes) = written(&[assigned(1), assigned(2)]);
        let path = directory.path().join(NAME);
        fs::write(path.with_extension("damaged-1"), "an earlier one").unwrap();
        let middle = bytes.len() * 3 / 4;
        bytes[middle] ^= 1 << n;
        fs::write(&path, &bytes).unwrap();
        let (mut journal, found) = open(directory.path(), BOOT);
        let Found::Untrusted {
            aside: Some(aside),
            why,
            entries: read,
        } = found
        else {
            panic!("{found:?}");
        };
        assert!(why.starts_with("line "), "{why}");
        assert_eq!(fs::read(aside).unwrap(), bytes);
        assert_eq!(read, [assigned(1), Entry::Quarantined]);
        journal.append(&[assigned(3)]).unwrap();
        let (_, found) = open(directory.path(), BOOT);
        assert_eq!(entries(found), [assigned(1), Entry::Quarantined, assigned(3)]);
    }
}

#[test]
fn an_outdated_or_missing_journal_is_not_trusted() {
    let (directory, old) = written(&[assigned(1)]);
    let path = directory.path().join(NAME);
    let (mut journal, _) = open(directory.path(), BOOT);
    journal.append(&[assigned(2), released(1)]).unwrap();
    fs::write(&path, &old).unwrap();
    let (_, found) = open(directory.path(), BOOT);
    assert!(
        matches!(&found, Found::Untrusted { entries, aside: None, .. } if *entries == [assigned(1), Entry::Quarantined]),
        "{found:?}"
    );
    // What was made of it is the journal from now on.
    let (mut journal, found) = open(directory.path(), BOOT);
    assert_eq!(entries(found), [assigned(1), Entry::Quarantined]);
    journal.append(&[assigned(3)]).unwrap();
    let before = fs::read(&path).unwrap();
    journal.compact(&[assigned(3)]).unwrap();
    fs::write(&path, &before).unwrap();
    assert!(matches!(open(directory.path(), BOOT).1, Found::Untrusted { .. }));
    fs::remove_file(&path).unwrap();
    let (_, found) = open(directory.path(), BOOT);
    assert!(
        matches!(&found, Found::Untrusted { entries, .. } if *entries == [Entry::Quarantined]),
        "{found:?}"
    );
    // The quarantine is in what was begun instead.
    assert_eq!(entries(open(directory.path(), BOOT).1), [Entry::Quarantined]);
    // After a boot nobody has anything, whatever the files are.
    fs::remove_file(&path).unwrap();
    assert_eq!(open(directory.path(), "another-boot").1, Found::Nothing);
}

#[test]
fn a_journal_whose_mark_is_behind_or_is_gone_is_trusted() {
    let (directory, _) = written(&[assigned(1)]);
    let mark = fs::read(directory.path().join("mark")).unwrap();
    let (mut journal, _) = open(directory.path(), BOOT);
    journal.append(&[assigned(2)]).unwrap();
    fs::write(directory.path().join("mark"), &mark).unwrap();
    assert_eq!(entries(open(directory.path(), BOOT).1), [assigned(1), assigned(2)]);
    for content in [&b""[..], b"nonsense"] {
        fs::write(directory.path().join("mark"), content).unwrap();
        assert_eq!(entries(open(directory.path(), BOOT).1), [assigned(1), assigned(2)]);
    }
}

#[test]
fn names_that_would_be_read_as_something_else_are_refused() {
    let (directory, _) = written(&[]);
    let (mut journal, _) = open(directory.path(), BOOT);
    for word in ["a b", "a\nb", "a\tb"] {
        let mut entry = assigned(1);
        let Entry::Assigned { pod, .. } = &mut entry else {
            unreachable!();
        };
        word.clone_into(&mut pod.name);
        assert_eq!(
            journal.append(std::slice::from_ref(&entry)).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
    for name in ["", "a,b", "a=b", "a b"] {
        let mut entry = assigned(1);
        let Entry::Assigned { held, .. } = &mut entry else {
            unreachable!();
        };
        name.clone_into(&mut held[0].name);
        assert!(journal.append(std::slice::from_ref(&entry)).is_err(), "{name:?}");
    }
    let (_, found) = open(directory.path(), BOOT);
    assert_eq!(entries(found), []);
}

/// Takes a part of what it is given, and no cut for a while.
#[derive(Default)]
struct Full {
    bytes: Vec<u8>,
    room: usize,
    stuck: bool,
}

impl Disk for Full {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let part = bytes.len().min(self.room);
        self.bytes.extend_from_slice(&bytes[..part]);
        self.room -= part;
        if part < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        if self.stuck {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        self.bytes.truncate(usize::try_from(length).unwrap());
        Ok(())
    }
}

#[test]
fn a_disk_that_is_full_leaves_nothing_half_written() {
    let directory = tempfile::tempdir().unwrap();
    let first = Line::first(BOOT, 1).to_string();
    let disk = Full {
        bytes: first.clone().into_bytes(),
        room: 250,
        stuck: false,
    };
    let mut journal = Journal {
        path: PathBuf::new(),
        boot: BOOT.to_owned(),
        id: 1,
        mark: Mark::open(&directory.path().join("mark"), BOOT).unwrap(),
        disk,
        length: length(&first),
        lines: 1,
        has_partial_line: false,
    };
    journal.append(&[assigned(1)]).unwrap();
    assert!(journal.append(&[assigned(2)]).is_err());
    journal.disk.room = 30;
    journal.disk.stuck = true;
    assert!(journal.append(&[assigned(3)]).is_err());
    journal.disk.room = 10_000;
    assert!(
        journal.append(&[assigned(4)]).is_err(),
        "what is there in part must go first"
    );
    journal.disk.stuck = false;
    journal.append(&[assigned(5)]).unwrap();
    let read = read(&journal.disk.bytes, BOOT);
    assert_eq!(read.entries, [assigned(1), assigned(5)]);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes, BOOT);
        let mut after = Line::first(BOOT, 1).to_string().into_bytes();
        after.extend(bytes);
        let _ = read(&after, BOOT);
    }
}

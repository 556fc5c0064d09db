use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use berth_api::agent::{RESERVE, Release, entry_name, overflow_name};
use berth_api::cni::Attachment;
use rustix::fs::{CWD, FileType};

use super::aside::KEPT;
use super::*;

struct Queue {
    _base: tempfile::TempDir,
    directory: Directory,
}

fn queue(flavour: Flavour) -> Queue {
    let base = tempfile::tempdir().unwrap();
    let directory = Directory::open(base.path().join("state/queue"), flavour).unwrap();
    Queue {
        _base: base,
        directory,
    }
}

impl Queue {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// As the plugins do it, whatever the umask of who runs the tests is.
    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
        std::fs::set_permissions(self.path(name), Permissions::from_mode(0o600)).unwrap();
    }

    fn put(&self, release: &Release) {
        let content = serde_json::to_string(release).unwrap();
        self.write(&entry_name(&release.attachment), content);
    }

    fn all(&self) -> Vec<Found> {
        self.directory.pass().unwrap().batch(usize::MAX).unwrap()
    }

    /// The only file there is.
    fn broken(&self) -> Broken {
        let mut all = self.all();
        assert_eq!(all.len(), 1, "{all:?}");
        match all.remove(0) {
            Found::Broken(broken) => broken,
            Found::Entry(entry) => panic!("{entry:?} is obeyed"),
        }
    }

    fn entries(&self) -> Vec<Entry> {
        let entry = |found| match found {
            Found::Entry(entry) => entry,
            Found::Broken(broken) => panic!("{broken:?}"),
        };
        self.all().into_iter().map(entry).collect()
    }
}

fn release(container: &str, started: u64) -> Release {
    Release {
        attachment: Attachment::new(container, "eth0").unwrap(),
        started,
    }
}

fn age(path: &Path, by: Duration) {
    let file = File::open(path).unwrap();
    file.set_modified(SystemTime::now() - by).unwrap();
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn an_entry_is_read_and_stays_until_it_is_done() {
    let queue = queue(Flavour::Ours);
    queue.put(&release("c1", 7));
    let entry = queue.entries().remove(0);
    assert_eq!(entry.queued, Queued::Release(release("c1", 7)));
    assert_eq!(queue.entries(), std::slice::from_ref(&entry));
    queue.directory.done(&entry).unwrap();
    assert!(queue.all().is_empty());
    queue.directory.done(&entry).unwrap();
}

#[test]
fn an_entry_that_took_the_place_of_one_is_not_removed_with_it() {
    let queue = queue(Flavour::Ours);
    queue.put(&release("c1", 7));
    let old = queue.entries().remove(0);
    // As a plugin does it: another file under the same name.
    queue.write(".new", serde_json::to_string(&release("c1", 9)).unwrap());
    std::fs::rename(queue.path(".new"), queue.path(&old.name)).unwrap();
    queue.directory.done(&old).unwrap();
    assert_eq!(queue.entries()[0].queued, Queued::Release(release("c1", 9)));
}

/// What comes between the look and the removal is rare: it takes many rounds to be there.
#[test]
fn the_last_entry_is_never_lost_however_close_it_comes() {
    const ROUNDS: u64 = 1000;
    let queue = queue(Flavour::Ours);
    let path = queue.directory.path().to_owned();
    let (round, rounds) = std::sync::mpsc::sync_channel::<u64>(0);
    let writer = std::thread::spawn(move || {
        for started in rounds {
            let content = serde_json::to_string(&release("c1", started)).unwrap();
            let unfinished = path.join(format!(".c1.{started}"));
            std::fs::write(&unfinished, content).unwrap();
            std::fs::set_permissions(&unfinished, Permissions::from_mode(0o600)).unwrap();
            std::fs::rename(unfinished, path.join("c1:eth0")).unwrap();
        }
    });
    let released = |entry: &Entry| match &entry.queued {
        Queued::Release(release) => release.started,
        Queued::Container(container) => panic!("{container}"),
    };
    for number in 1..=ROUNDS {
        queue.put(&release("c1", 2 * number - 1));
        let first = queue.entries().remove(0);
        round.send(2 * number).unwrap();
        queue.directory.done(&first).unwrap();
        let mut last = 0;
        while last < 2 * number {
            for entry in queue.entries() {
                last = last.max(released(&entry));
                queue.directory.done(&entry).unwrap();
            }
        }
    }
    drop(round);
    writer.join().unwrap();
    assert!(queue.all().is_empty());
}

#[test]
fn what_comes_in_the_middle_of_a_removal_stays() {
    let put = |queue: &Queue, started: u64| queue.put(&release("c1", started));
    let left = |queue: &Queue| match queue.entries().remove(0).queued {
        Queued::Release(release) => release.started,
        Queued::Container(container) => panic!("{container}"),
    };
    // After the entry was taken away.
    let one = queue(Flavour::Ours);
    put(&one, 1);
    let entry = one.entries().remove(0);
    let taken = one.directory.take(&entry).unwrap().unwrap();
    put(&one, 2);
    one.directory.finish(&entry, taken).unwrap();
    assert_eq!(left(&one), 2);
    // Before it, so that the later one is taken away; and a still later one after it.
    let two = queue(Flavour::Ours);
    put(&two, 1);
    let entry = two.entries().remove(0);
    std::fs::remove_file(two.path("c1:eth0")).unwrap();
    put(&two, 2);
    let taken = two.directory.take(&entry).unwrap().unwrap();
    put(&two, 3);
    two.directory.finish(&entry, taken).unwrap();
    assert_eq!(left(&two), 3);
}

#[test]
fn what_an_agent_left_half_removed_is_an_entry_again() {
    let queue = queue(Flavour::Ours);
    let content = serde_json::to_string(&release("c1", 7)).unwrap();
    queue.write(".-removing-c1:eth0", &content);
    // Seen in the same pass or in the next.
    let seen = queue.all().len() + queue.all().len();
    assert!(seen >= 1);
    assert_eq!(queue.entries()[0].queued, Queued::Release(release("c1", 7)));
    // Not where a later one has its place.
    queue.put(&release("c1", 9));
    queue.write(".-removing-c1:eth0", &content);
    drop(queue.all());
    assert_eq!(queue.entries()[0].queued, Queued::Release(release("c1", 9)));
    assert!(!queue.path(".-removing-c1:eth0").exists());
}

#[test]
fn what_others_could_have_written_is_refused() {
    for mode in [0o620, 0o602, 0o666] {
        let queue = queue(Flavour::Ours);
        queue.put(&release("c1", 7));
        std::fs::set_permissions(queue.path("c1:eth0"), Permissions::from_mode(mode)).unwrap();
        let why = queue.broken().why.to_string();
        assert!(
            why.contains(&format!("{mode:o}")) && why.contains("nobody else"),
            "{why}"
        );
    }
}

#[test]
fn an_overflow_mark_is_removed_only_under_its_observed_name() {
    let queue = queue(Flavour::Ours);
    assert!(queue.path(RESERVE).exists(), "made before it is needed");
    let rename = |from: &str, to: &str| std::fs::rename(queue.path(from), queue.path(to)).unwrap();
    rename(RESERVE, &overflow_name(7));
    queue.put(&release("c1", 1));
    let survey = queue.directory.survey().unwrap();
    assert_eq!((survey.depth, survey.mark), (1, Some(Mark { started: 7 })));
    assert_eq!(queue.entries().len(), 1);
    // A plugin leaves out another release while the runtime is asked.
    rename(&overflow_name(7), &overflow_name(9));
    assert!(!queue.directory.unmark(Mark { started: 7 }).unwrap());
    assert_eq!(queue.directory.mark().unwrap(), Some(Mark { started: 9 }));
    assert!(queue.directory.unmark(Mark { started: 9 }).unwrap());
    assert_eq!(queue.directory.mark().unwrap(), None);
    assert!(queue.path(RESERVE).exists(), "there for the next time");
    // It is not taken for a file that somebody gave up.
    age(&queue.path(RESERVE), HOUR * 2);
    assert_eq!(queue.entries().len(), 1);
    assert!(queue.path(RESERVE).exists());
}

#[test]
fn a_mark_that_others_could_have_made_is_put_aside() {
    let queue = queue(Flavour::Ours);
    let name = overflow_name(7);
    queue.write(&name, "");
    std::fs::set_permissions(queue.path(&name), Permissions::from_mode(0o666)).unwrap();
    assert_eq!(queue.directory.mark().unwrap(), None);
    queue.directory.set_aside(&queue.broken()).unwrap();
    assert!(!queue.path(&name).exists());
}

#[test]
fn what_is_no_entry_is_told_with_the_reason_and_never_run() {
    let whole = serde_json::to_string(&release("c1", 7)).unwrap();
    let escaping = whole.replace("c1", "../c1");
    let cases: [(&str, Vec<u8>, &str); 13] = [
        ("c1:eth0", Vec::new(), "empty"),
        ("c1:eth0", vec![b' '; (64 << 10) + 1], "longer than"),
        ("c1:eth0", vec![b'{', 0xff, b'}'], "not UTF-8"),
        ("c1:eth0", whole.as_bytes()[..whole.len() - 1].to_vec(), "not a release"),
        ("c1:eth0", b"null".to_vec(), "not a release"),
        ("c1:eth0", [whole.as_bytes(), b"{}"].concat(), "not a release"),
        ("c1:eth0", "[".repeat(60_000).into_bytes(), "not a release"),
        ("c2:eth0", whole.clone().into_bytes(), "another attachment"),
        ("c1:eth1", whole.clone().into_bytes(), "another attachment"),
        ("c1:eth0", escaping.into_bytes(), "another attachment"),
        ("c1", whole.clone().into_bytes(), "its name"),
        ("c1:eth0:", whole.clone().into_bytes(), "its name"),
        ("a b:eth0", whole.into_bytes(), "its name"),
    ];
    for (name, content, named) in cases {
        let queue = queue(Flavour::Ours);
        queue.write(name, content);
        let broken = queue.broken();
        assert!(broken.why.to_string().contains(named), "{name}: {}", broken.why);
        queue.directory.set_aside(&broken).unwrap();
        assert!(queue.all().is_empty() && queue.path("broken").join(name).exists());
    }
}

#[test]
fn a_name_that_is_not_utf_8_is_set_aside() {
    use std::os::unix::ffi::OsStrExt;
    let queue = queue(Flavour::Ours);
    let name = OsStr::from_bytes(b"c1\xff:eth0");
    std::fs::write(queue.directory.path().join(name), "x").unwrap();
    let broken = queue.broken();
    assert_eq!((broken.name.as_os_str(), &broken.why), (name, &Why::Name));
    queue.directory.set_aside(&broken).unwrap();
    assert!(queue.all().is_empty());
}

#[test]
fn links_directories_pipes_and_sockets_are_set_aside_unopened() {
    let queue = queue(Flavour::Ours);
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(elsewhere.path(), serde_json::to_string(&release("c1", 7)).unwrap()).unwrap();
    symlink(elsewhere.path(), queue.path("c1:eth0")).unwrap();
    std::fs::create_dir(queue.path("c2:eth0")).unwrap();
    std::fs::write(queue.path("c2:eth0/file"), "").unwrap();
    let pipe = queue.path("c3:eth0");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listener = UnixListener::bind(queue.path("c4:eth0")).unwrap();
    let all = queue.all();
    assert_eq!(all.len(), 4);
    for found in all {
        let Found::Broken(broken) = found else {
            panic!("{found:?} is obeyed");
        };
        assert!(matches!(broken.why, Why::Link | Why::NoFile), "{broken:?}");
        queue.directory.set_aside(&broken).unwrap();
    }
    assert!(queue.all().is_empty());
    assert!(elsewhere.path().exists());
    assert!(queue.path("broken/c2:eth0/file").exists());
}

/// Where a file system does not tell the kind of a file with its name, opening must find it out.
#[test]
fn what_is_opened_is_not_waited_for_nor_followed() {
    let queue = queue(Flavour::Ours);
    symlink("/etc/passwd", queue.path("c1:eth0")).unwrap();
    rustix::fs::mknodat(CWD, queue.path("c2:eth0"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listener = UnixListener::bind(queue.path("c3:eth0")).unwrap();
    std::fs::create_dir(queue.path("c4:eth0")).unwrap();
    let handle = queue.directory.handle().unwrap();
    for (name, why) in [
        ("c1:eth0", Why::Link),
        ("c2:eth0", Why::NoFile),
        ("c3:eth0", Why::NoFile),
        ("c4:eth0", Why::NoFile),
    ] {
        let found = entry::read(handle.as_fd(), OsStr::new(name), Flavour::Ours, SystemTime::now())
            .unwrap();
        let Some(Found::Broken(broken)) = found else {
            panic!("{name}: {found:?}");
        };
        assert_eq!(broken.why, why, "{name}");
    }
    let gone = entry::read(handle.as_fd(), OsStr::new("c5:eth0"), Flavour::Ours, SystemTime::now());
    assert_eq!(gone.unwrap(), None);
}

#[test]
fn files_set_aside_are_not_overwritten_and_limited_in_number() {
    let queue = queue(Flavour::Ours);
    // Something has the name of the directory itself.
    queue.write("broken", "I was first");
    queue.directory.set_aside(&queue.broken()).unwrap();
    assert_eq!(
        std::fs::read_to_string(queue.path("broken/broken")).unwrap(),
        "I was first"
    );
    for n in 0..3 {
        queue.write("same", n.to_string());
        queue.directory.set_aside(&queue.broken()).unwrap();
    }
    let kept = ["same", "same.1", "same.2"]
        .map(|name| std::fs::read_to_string(queue.path("broken").join(name)).unwrap());
    assert_eq!(kept, ["0", "1", "2"]);
    for n in 0..2 * KEPT {
        queue.write(&format!("other-{n}"), "");
        queue.directory.set_aside(&queue.broken()).unwrap();
    }
    assert_eq!(std::fs::read_dir(queue.path("broken")).unwrap().count(), KEPT);
    assert!(queue.path("broken").join(format!("other-{}", 2 * KEPT - 1)).exists());
}

#[test]
fn unfinished_files_are_left_alone_until_they_are_old() {
    let queue = queue(Flavour::Ours);
    for name in [".young", ".old"] {
        queue.write(name, "{");
    }
    age(&queue.path(".old"), HOUR * 2);
    assert!(queue.all().is_empty());
    assert!(queue.path(".young").exists() && !queue.path(".old").exists());
}

#[test]
fn a_hundred_thousand_entries_are_read_in_batches_once_each() {
    const ENTRIES: usize = 100_000;
    let queue = queue(Flavour::Ours);
    for n in 0..ENTRIES {
        queue.put(&release(&format!("c{n}"), 1));
    }
    let mut pass = queue.directory.pass().unwrap();
    let mut seen = vec![false; ENTRIES];
    loop {
        let batch = pass.batch(500).unwrap();
        assert!(batch.len() <= 500);
        if batch.is_empty() {
            break;
        }
        for found in batch {
            let Found::Entry(entry) = found else {
                panic!("{found:?}");
            };
            let number = entry.name.trim_start_matches('c').trim_end_matches(":eth0");
            assert!(!std::mem::replace(&mut seen[number.parse::<usize>().unwrap()], true));
            // Removed while the rest is still to be read.
            queue.directory.done(&entry).unwrap();
        }
    }
    assert!(seen.into_iter().all(|seen| seen));
    assert_eq!(queue.directory.survey().unwrap(), Survey::default());
}

#[test]
fn a_survey_counts_what_waits_and_knows_the_oldest() {
    let queue = queue(Flavour::Ours);
    assert_eq!(queue.directory.survey().unwrap(), Survey::default());
    for container in ["c1", "c2", "c3"] {
        queue.put(&release(container, 1));
    }
    queue.write(".unfinished", "");
    std::fs::create_dir(queue.path("broken")).unwrap();
    age(&queue.path("c2:eth0"), HOUR);
    let survey = queue.directory.survey().unwrap();
    assert_eq!(survey.depth, 3);
    assert!(survey.oldest.unwrap() <= SystemTime::now() - HOUR);
}

#[test]
fn a_directory_is_its_owners_alone_and_no_link() {
    let queue = queue(Flavour::Ours);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(queue.directory.path()), 0o700);
    std::fs::set_permissions(queue.directory.path(), Permissions::from_mode(0o777)).unwrap();
    Directory::open(queue.directory.path(), Flavour::Ours).unwrap();
    assert_eq!(mode(queue.directory.path()), 0o755);

    let base = tempfile::tempdir().unwrap();
    let link = base.path().join("link");
    symlink(queue.directory.path(), &link).unwrap();
    let error = Directory::open(&link, Flavour::Compat).unwrap_err().to_string();
    assert!(
        error.starts_with("--compat-queue-dir") && error.contains("no link"),
        "{error}"
    );
    let file = base.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Directory::open(&file, Flavour::Ours).unwrap_err().to_string();
    assert!(error.starts_with("--queue-dir") && error.contains("/file"), "{error}");
}

#[test]
fn a_directory_that_was_removed_is_made_again() {
    let queue = queue(Flavour::Ours);
    std::fs::remove_dir_all(queue.directory.path()).unwrap();
    assert!(queue.all().is_empty());
    queue.put(&release("c1", 1));
    assert_eq!(queue.entries().len(), 1);
}

#[test]
fn a_compat_file_names_a_container_with_or_without_newline() {
    let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    for (content, container) in [
        (id.to_owned(), id),
        (format!("{id}\n"), id),
        (format!("{id}\r\n"), id),
        ("01234567-eth0\n".to_owned(), "01234567-eth0"),
    ] {
        let queue = queue(Flavour::Compat);
        queue.write(id, content);
        assert_eq!(queue.entries()[0].queued, Queued::Container(container.to_owned()));
    }
    for (content, named) in [
        ("../../etc", "names no pod's interface"),
        ("a b", "names no pod's interface"),
        ("\n", "names no pod's interface"),
        ("another", "another attachment"),
        ("01234567-", "another attachment"),
        ("0123456", "another attachment"),
    ] {
        let queue = queue(Flavour::Compat);
        queue.write(id, content);
        let why = queue.broken().why.to_string();
        assert!(why.contains(named), "{content}: {why}");
    }
    let queue = queue(Flavour::Compat);
    queue.write("c1:eth0", "c1:eth0");
    assert_eq!(queue.broken().why, Why::Name);
}

#[test]
fn a_compat_file_that_has_no_content_yet_is_waited_for() {
    let queue = queue(Flavour::Compat);
    queue.write("c1", "");
    queue.write(".theirs", "");
    age(&queue.path(".theirs"), HOUR * 2);
    assert!(queue.all().is_empty());
    assert!(queue.path(".theirs").exists());
    age(&queue.path("c1"), HOUR);
    assert_eq!(queue.broken().why, Why::Empty);
}

#[tokio::test]
async fn a_watch_sees_what_comes_and_that_the_directory_went() {
    use watch::Seen;
    let queue = queue(Flavour::Ours);
    let mut watch = Watch::new(queue.directory.path()).unwrap();
    queue.put(&release("c1", 1));
    assert_eq!(watch.seen().await, Seen::Something);
    queue.write(".new", "x");
    std::fs::rename(queue.path(".new"), queue.path("c2:eth0")).unwrap();
    assert_eq!(watch.seen().await, Seen::Something);
    let elsewhere = queue.directory.path().with_extension("old");
    std::fs::rename(queue.directory.path(), elsewhere).unwrap();
    // What came before is told by one word or by two.
    while watch.seen().await != Seen::Gone {}
}

#[tokio::test]
async fn one_inotify_instance_watches_any_number_of_directories() {
    use watch::Seen;
    let queues: Vec<Queue> = (0..300).map(|_| queue(Flavour::Ours)).collect();
    let mut watches: Vec<Watch> = queues
        .iter()
        .map(|queue| Watch::new(queue.directory.path()).unwrap())
        .collect();
    // Two of one directory: the one that ends leaves the other in place.
    let second = Watch::new(queues[7].directory.path()).unwrap();
    drop(second);
    for at in [7, 0, 299] {
        queues[at].put(&release("c1", 1));
        assert_eq!(watches[at].seen().await, Seen::Something);
    }
    std::fs::remove_dir_all(queues[1].directory.path()).unwrap();
    assert_eq!(watches[1].seen().await, Seen::Gone);
    // A directory that has gone can be watched again once it is there.
    std::fs::create_dir(queues[1].directory.path()).unwrap();
    watches[1] = Watch::new(queues[1].directory.path()).unwrap();
    queues[1].put(&release("c1", 1));
    assert_eq!(watches[1].seen().await, Seen::Something);
}

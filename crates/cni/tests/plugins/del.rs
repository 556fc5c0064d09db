//! DEL of `berth-ipam`: with nobody there to answer it succeeds, and what it would have said is in
//! the queue.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;

use berth_api::agent::{MAX_QUEUE_BYTES, MAX_QUEUE_ENTRIES, RESERVE, overflow_of};
use serde_json::{Value, json};

use crate::call::{CNI, Call, Done, IPAM, cni_conf, ipam_conf};
use crate::server::{Manner, Server};

fn del() -> Call {
    Call::new(IPAM, "DEL").unset("CNI_NETNS")
}

fn impatient(directory: &Path) -> Value {
    let mut conf = ipam_conf(directory);
    conf["ipam"]["timeout"] = json!("300ms");
    conf
}

/// All names in the queue, hidden ones too, but for the file that is kept for a mark.
fn queued(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory.join("queue")) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != RESERVE)
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn an_agent_that_acknowledges_is_all_there_is_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[Manner::answers(200, &json!({"released": 1}))]);
    del().run(&ipam_conf(directory.path())).silent();
    let asked = server.asked();
    assert_eq!((asked.len(), asked[0].line.as_str()), (1, "POST /v1/release HTTP/1.1"));
    assert_eq!(
        asked[0].body["attachment"],
        json!({"container": "c1", "interface": "eth0"})
    );
    assert!(asked[0].body["started"].as_u64().unwrap() > 0);
    assert!(!directory.path().join("queue").exists());
}

#[test]
fn an_agent_that_does_not_answer_finds_it_in_the_queue() {
    let says = |text: &str| Some(Manner::Says(text.as_bytes().to_vec()));
    let manners = [
        None,
        Some(Manner::Silent),
        Some(Manner::Resets),
        Some(Manner::Closes),
        says("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"released\""),
        says("HTTP/1.1 200 OK\r\ncontent-le"),
        says("HTTP/1.1 200 OK\r\n\r\n{\"rel"),
        says("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnull"),
        says("220 mail.example ESMTP\r\n"),
        says("\0\0\0\0"),
        Some(Manner::Babbles(b"x: y\r\n".to_vec())),
        Some(Manner::Babbles(b"HTTP/1.1 200 OK\r\n".to_vec())),
    ];
    for manner in manners {
        let directory = tempfile::tempdir().unwrap();
        let server = manner.clone().map(|manner| Server::start(directory.path(), &[manner]));
        del().run(&impatient(directory.path())).silent();
        drop(server);
        assert_eq!(queued(directory.path()), ["c1:eth0"], "{manner:?}");
        let entry = directory.path().join("queue/c1:eth0");
        let content: Value = serde_json::from_slice(&std::fs::read(&entry).unwrap()).unwrap();
        assert_eq!(content["attachment"], json!({"container": "c1", "interface": "eth0"}));
        assert!(content["started"].as_u64().unwrap() > 0);
        assert_eq!((mode(&entry), mode(&directory.path().join("queue"))), (0o600, 0o700));
    }
}

#[test]
fn a_socket_that_nobody_listens_at_is_an_agent_that_is_away() {
    let directory = tempfile::tempdir().unwrap();
    // Closed, its file stays.
    drop(UnixListener::bind(directory.path().join("agent.sock")).unwrap());
    del().run(&ipam_conf(directory.path())).silent();
    assert_eq!(queued(directory.path()), ["c1:eth0"]);
}

#[test]
fn a_del_with_the_agents_backlog_full_times_out_and_is_queued() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    // Nobody accepts: connections are made until no more fit, then connecting itself waits.
    let mut connections = Vec::new();
    loop {
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::NONBLOCK,
            None,
        )
        .unwrap();
        let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
        match rustix::net::connect(&socket, &address) {
            Ok(()) => connections.push(socket),
            Err(_) => break,
        }
    }
    del().run(&impatient(directory.path())).silent();
    assert_eq!(queued(directory.path()), ["c1:eth0"]);
}

#[test]
fn a_plugin_that_is_uninstalled_meanwhile_makes_no_new_queue() {
    for has_queue in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("berth-ipam");
        std::fs::copy(IPAM, &program).unwrap();
        let call = Call::new(program.to_str().unwrap(), "DEL").unset("CNI_NETNS");
        let mut child = call.command().stdin(Stdio::piped()).spawn().unwrap();
        // It has begun, and waits for its conf.
        std::fs::remove_file(&program).unwrap();
        if has_queue {
            std::fs::create_dir(directory.path().join("queue")).unwrap();
        }
        let conf = ipam_conf(directory.path()).to_string();
        child.stdin.take().unwrap().write_all(conf.as_bytes()).unwrap();
        let done = Done::new(&child.wait_with_output().unwrap());
        if has_queue {
            // One that was replaced, by an update.
            done.silent();
            assert_eq!(queued(directory.path()), ["c1:eth0"]);
        } else {
            let (code, text) = done.failure();
            assert_eq!(code, 11);
            assert!(text.contains("this plugin was uninstalled meanwhile"), "{text}");
            assert!(!directory.path().join("queue").exists());
        }
    }
}

#[test]
fn an_answer_that_says_no_is_an_error_and_nothing_is_queued() {
    for (status, reason, expected) in
        [(507, "Storage", 104), (503, "PoolEmpty", 11), (403, "Forbidden", 100)]
    {
        let directory = tempfile::tempdir().unwrap();
        let body = json!({"reason": reason, "message": "this is why"});
        let _server = Server::start(directory.path(), &[Manner::answers(status, &body)]);
        let (code, text) = del().run(&ipam_conf(directory.path())).failure();
        assert!(code == expected && text.contains("this is why"), "{text}");
        assert!(queued(directory.path()).is_empty());
    }
    let directory = tempfile::tempdir().unwrap();
    let _server = Server::start(directory.path(), &[Manner::Answers(500, "oops".to_owned())]);
    assert_eq!(del().run(&ipam_conf(directory.path())).code(), 100);
    assert!(queued(directory.path()).is_empty());
}

/// Confs that no ADD takes, in what a DEL does not need.
fn broken_elsewhere(program: &str, directory: &Path) -> Vec<Value> {
    let right = if program == IPAM {
        ipam_conf(directory)
    } else {
        cni_conf(directory)
    };
    let own = if program == IPAM { "/ipam" } else { "" };
    let with = |place: &str, field: &str, value: Value| {
        let mut conf = right.clone();
        conf.pointer_mut(place).unwrap()[field] = value;
        conf
    };
    vec![
        with("", "runtimeConfig", json!({"ips": "10.64.0.9"})),
        with("", "args", json!({"cni": {"ips": 7}})),
        with("", "name", json!("../x")),
        with("", "cni.dev/valid-attachments", json!(7)),
        with(own, "wait", json!("soon")),
        match program {
            IPAM => with(own, "routes", json!({})),
            _ => with(own, "mtu", json!("1450")),
        },
    ]
}

#[test]
fn a_conf_that_is_wrong_where_a_del_does_not_look_releases() {
    for program in [IPAM, CNI] {
        let directory = tempfile::tempdir().unwrap();
        for conf in broken_elsewhere(program, directory.path()) {
            let add = Call::new(program, "ADD").run(&conf);
            assert_eq!(add.code(), 7, "{conf}");
            let del = Call::new(program, "DEL").unset("CNI_NETNS").set("CNI_ARGS", "nonsense");
            // With the agent away it is in the queue, and with the agent there it is told.
            del.run(&conf).silent();
            assert_eq!(queued(directory.path()), ["c1:eth0"], "{conf}");
            std::fs::remove_file(directory.path().join("queue/c1:eth0")).unwrap();
            let done = Manner::answers(200, &json!({"released": 1}));
            let server = Server::start(directory.path(), &[done]);
            del.run(&conf).silent();
            assert_eq!(server.asked()[0].line, "POST /v1/release HTTP/1.1", "{conf}");
        }
    }
}

#[test]
fn an_unwritable_queue_is_an_error_that_names_both_causes() {
    let directory = tempfile::tempdir().unwrap();
    let mut conf = ipam_conf(directory.path());
    std::fs::write(directory.path().join("file"), "").unwrap();
    let full = "/dev/full";
    for place in ["file", "file/queue", full] {
        conf["ipam"]["queueDir"] = json!(directory.path().join(place));
        let (code, text) = del().run(&conf).failure();
        assert_eq!(code, 11, "{text}");
        assert!(text.contains("agent.sock") && text.contains(place), "{text}");
    }
}

#[test]
fn the_queue_keeps_the_latest_release_of_each_attachment() {
    let directory = tempfile::tempdir().unwrap();
    let conf = ipam_conf(directory.path());
    let started = |name: &str| {
        let content = std::fs::read(directory.path().join("queue").join(name)).unwrap();
        let content: Value = serde_json::from_slice(&content).unwrap();
        content["started"].as_u64().unwrap()
    };
    del().run(&conf).silent();
    let first = started("c1:eth0");
    del().run(&conf).silent();
    del().set("CNI_IFNAME", "net1").run(&conf).silent();
    del().set("CNI_CONTAINERID", "c2").run(&conf).silent();
    assert!(started("c1:eth0") > first);
    assert_eq!(queued(directory.path()), ["c1:eth0", "c1:net1", "c2:eth0"]);
}

/// The times of the marks that are there.
fn marks(directory: &Path) -> Vec<u64> {
    let queued = queued(directory);
    queued.iter().filter_map(|name| overflow_of(name)).collect()
}

#[test]
fn a_del_past_the_entry_limit_succeeds_and_leaves_one_mark() {
    let directory = tempfile::tempdir().unwrap();
    let conf = ipam_conf(directory.path());
    let queue = directory.path().join("queue");
    std::fs::create_dir(&queue).unwrap();
    for n in 1..MAX_QUEUE_ENTRIES {
        std::fs::write(queue.join(format!("x{n}:eth0")), "{}").unwrap();
    }
    let of = |container: &str| del().set("CNI_CONTAINERID", container).run(&conf);
    // There is room for one.
    of("c1").silent();
    assert!(queue.join("c1:eth0").exists() && marks(directory.path()).is_empty());
    let mut last = 0;
    for container in ["c2", "c3", "c4"] {
        of(container).silent();
        let [mark] = marks(directory.path())[..] else {
            panic!("{:?}", marks(directory.path()));
        };
        assert!(
            mark > last,
            "a mark that an agent has seen must not stand for a later DEL"
        );
        last = mark;
        assert_eq!(queued(directory.path()).len(), MAX_QUEUE_ENTRIES + 1);
    }
    // One that is there already is renewed: it needs no more room.
    of("x7").silent();
    assert_ne!(std::fs::read(queue.join("x7:eth0")).unwrap(), b"{}");
    assert_eq!(marks(directory.path()), [last]);
}

#[test]
fn past_so_many_bytes_one_mark_is_left_instead() {
    let directory = tempfile::tempdir().unwrap();
    let queue = directory.path().join("queue");
    std::fs::create_dir(&queue).unwrap();
    let bytes = usize::try_from(MAX_QUEUE_BYTES).unwrap();
    std::fs::write(queue.join(".unfinished"), vec![1; bytes]).unwrap();
    // Some file systems find room for it later, and count it then.
    std::fs::File::open(queue.join(".unfinished"))
        .unwrap()
        .sync_all()
        .unwrap();
    del().run(&ipam_conf(directory.path())).silent();
    assert_eq!(
        (marks(directory.path()).len(), queue.join("c1:eth0").exists()),
        (1, false)
    );
}

#[test]
fn a_del_merges_the_marks_that_concurrent_dels_left() {
    let directory = tempfile::tempdir().unwrap();
    let queue = directory.path().join("queue");
    std::fs::create_dir(&queue).unwrap();
    for n in 0..MAX_QUEUE_ENTRIES {
        std::fs::write(queue.join(format!("x{n}:eth0")), "").unwrap();
    }
    let conf = ipam_conf(directory.path());
    std::thread::scope(|scope| {
        for n in 0..16 {
            let conf = &conf;
            scope.spawn(move || del().set("CNI_CONTAINERID", &format!("c{n}")).run(conf).silent());
        }
    });
    let left = marks(directory.path());
    assert!((1..=16).contains(&left.len()), "{left:?}");
    assert_eq!(queued(directory.path()).len(), MAX_QUEUE_ENTRIES + left.len());
    del().run(&conf).silent();
    let [mark] = marks(directory.path())[..] else {
        panic!("{:?}", marks(directory.path()));
    };
    assert!(left.iter().all(|older| *older < mark));
}

#[test]
fn the_longest_names_fit_into_the_queue() {
    let directory = tempfile::tempdir().unwrap();
    let (container, interface) = ("c".repeat(200), "i".repeat(15));
    let call = del().set("CNI_CONTAINERID", &container).set("CNI_IFNAME", &interface);
    call.run(&ipam_conf(directory.path())).silent();
    assert_eq!(queued(directory.path()), [format!("{container}:{interface}")]);
}

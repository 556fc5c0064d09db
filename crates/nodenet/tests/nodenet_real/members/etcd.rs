//! An etcd with three members, each in a network namespace of its own, all plugged into one bridge.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;

use berth_ledger::store::{EtcdDocument, EtcdFiles, EtcdTls};
use berth_testbed::{Programs, logs_of};
use berth_testkit::certificates::{Authority, Pair};
use berth_testkit::{Namespace, until, until_ok};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const COUNT: usize = 3;

/// How a member is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// By SIGKILL.
    Killed,
    /// By SIGSTOP: its connections stay, and nobody answers.
    Paused,
    /// Its link is down.
    CutOff,
    /// The other members can't be reached from it; its clients still reach it.
    CutOffFromMembers,
}

pub struct Etcd {
    /// First, so that they end before what they use goes.
    members: Vec<Member>,
    program: PathBuf,
    directory: TempDir,
    logs: PathBuf,
    authority: Authority,
    server: Pair,
    hub: Arc<Namespace>,
}

struct Member {
    namespace: Namespace,
    process: Child,
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn address(number: usize) -> String {
    format!("192.0.2.{}", number + 1)
}

impl Etcd {
    pub fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::make(directory.path(), "etcd");
        let mut params =
            CertificateParams::new((0..COUNT).map(address).collect::<Vec<_>>()).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let server = authority.sign("member", &params);
        let hub = Namespace::new();
        for words in [
            "link set lo up",
            "link add wire type bridge",
            "address add 192.0.2.254/24 dev wire",
            "link set wire up",
        ] {
            hub.ip(words);
        }
        let logs = logs_of("nodenet_real_members").unwrap();
        std::fs::create_dir_all(&logs).unwrap();
        let mut etcd = Self {
            program: Programs::find().unwrap().path("etcd"),
            directory,
            logs,
            authority,
            server,
            hub: hub.into(),
            members: Vec::new(),
        };
        for number in 0..COUNT {
            let namespace = Namespace::new();
            let other = namespace.name();
            etcd.hub
                .ip(&format!("link add m{number} type veth peer name eth0 netns {other}"));
            etcd.hub.ip(&format!("link set m{number} master wire up"));
            namespace.ip("link set lo up");
            namespace.ip(&format!("address add {}/24 dev eth0", address(number)));
            namespace.ip("link set eth0 up");
            let process = etcd.run(number, &namespace);
            etcd.members.push(Member { namespace, process });
        }
        etcd
    }

    /// On what it has written, if it ran before.
    fn run(&self, number: usize, namespace: &Namespace) -> Child {
        let own = address(number);
        let peer = |number: usize| format!("m{number}=http://{}:2380", address(number));
        let all: Vec<String> = (0..COUNT).map(peer).collect();
        let log = self.logs.join(format!("m{number}.log"));
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace.name()]).arg(&self.program);
        command.arg(format!("--name=m{number}"));
        command
            .arg("--data-dir")
            .arg(self.directory.path().join(format!("m{number}")));
        command.arg(format!("--initial-cluster={}", all.join(",")));
        command.arg(format!("--listen-peer-urls=http://{own}:2380"));
        command.arg(format!("--initial-advertise-peer-urls=http://{own}:2380"));
        command.arg(format!("--listen-client-urls=https://{own}:2379"));
        command.arg(format!("--advertise-client-urls=https://{own}:2379"));
        command.arg(format!("--listen-metrics-urls=http://{own}:2381"));
        command.arg("--cert-file").arg(&self.server.certificate);
        command.arg("--key-file").arg(&self.server.key);
        command.arg("--trusted-ca-file").arg(self.authority.file());
        // No machine loses its power here: what a killed process wrote is there.
        command.args(["--client-cert-auth", "--unsafe-no-fsync", "--log-level=warn"]);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        command.spawn().unwrap()
    }

    /// Where clients are.
    pub fn hub(&self) -> Arc<Namespace> {
        Arc::clone(&self.hub)
    }

    pub fn urls(&self) -> Vec<String> {
        (0..COUNT)
            .map(|number| format!("https://{}:2379", address(number)))
            .collect()
    }

    pub fn tls(&self) -> EtcdTls {
        let client = self.authority.client("allocator");
        let files = EtcdFiles {
            ca: self.authority.file(),
            identity: Some((client.certificate, client.key)),
        };
        EtcdTls::from_files(files).unwrap()
    }

    /// Returns when every member answers for all of them.
    pub async fn is_whole(&self) {
        for url in self.urls() {
            let document = EtcdDocument::new(&[url], "/whole", "a", Some(&self.tls())).unwrap();
            until_ok("a member answers", async || document.read().await).await;
        }
    }

    /// The leader, or one that is not.
    pub async fn member_that(&self, leads: bool) -> usize {
        let look = async || {
            let mut leaders = Vec::new();
            for number in 0..COUNT {
                leaders.push(is_leader(number).await.unwrap_or_default());
            }
            // While they elect one, there is none.
            let is_one = leaders.iter().filter(|leads| **leads).count() == 1;
            leaders.iter().position(|found| *found == leads).filter(|_| is_one)
        };
        until("there is a leader", look).await
    }

    pub fn lose(&mut self, number: usize, fault: Fault) {
        let member = &mut self.members[number];
        match fault {
            Fault::Killed => {
                member.process.kill().unwrap();
                member.process.wait().unwrap();
            }
            Fault::Paused => signal("-STOP", &member.process),
            Fault::CutOff => drop(self.hub.ip(&format!("link set m{number} down"))),
            Fault::CutOffFromMembers => {
                for other in (0..COUNT).filter(|other| *other != number) {
                    member
                        .namespace
                        .ip(&format!("route add blackhole {}/32", address(other)));
                }
            }
        }
    }

    pub fn bring_back(&mut self, number: usize, fault: Fault) {
        match fault {
            Fault::Killed => {
                let process = self.run(number, &self.members[number].namespace);
                self.members[number].process = process;
            }
            Fault::Paused => signal("-CONT", &self.members[number].process),
            Fault::CutOff => drop(self.hub.ip(&format!("link set m{number} up"))),
            Fault::CutOffFromMembers => {
                for other in (0..COUNT).filter(|other| *other != number) {
                    let route = format!("route delete blackhole {}/32", address(other));
                    self.members[number].namespace.ip(&route);
                }
            }
        }
    }
}

fn signal(which: &str, process: &Child) {
    let sent = Command::new("kill").arg(which).arg(process.id().to_string()).status();
    assert!(sent.unwrap().success());
}

/// As its metrics say.
async fn is_leader(number: usize) -> std::io::Result<bool> {
    let own = address(number);
    let mut stream = TcpStream::connect((own.as_str(), 2381)).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text.contains("\netcd_server_is_leader 1\n"))
}

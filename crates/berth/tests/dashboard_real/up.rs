//! `berth up` for a browser to look at.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use berth_testkit::Browser;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// A `berth up` that has said that it is up.
pub struct Berth {
    child: Child,
    kubeconfig: PathBuf,
    pub dashboard: String,
    /// What changes need.
    pub token: String,
    _directory: tempfile::TempDir,
}

impl Berth {
    pub fn start(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(["up", "--api-listen", "127.0.0.1:0", "--dashboard-listen", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(directory.path()).args(arguments);
        let token = directory.path().join("token");
        command.arg("--dashboard-token-file").arg(&token);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let lines: Vec<String> = out.lines().take(4).map(Result::unwrap).collect();
        let after = |line: usize, word: &str| lines[line].split_once(word).unwrap().1.to_owned();
        Self {
            child,
            kubeconfig: after(0, "KUBECONFIG=").into(),
            dashboard: format!("http://{}", after(2, "http://")),
            token: std::fs::read_to_string(&token).unwrap().trim().to_owned(),
            _directory: directory,
        }
    }

    /// One that looks at its page.
    pub fn browser(&self) -> Browser {
        let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboard/web");
        let browser = Browser::start_apart(&web, &self.dashboard);
        browser.allow(self.port());
        browser
    }

    /// Of the page.
    pub fn port(&self) -> u16 {
        let address = self.dashboard.trim_end_matches('/');
        address.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    pub async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        Client::try_from(config).unwrap()
    }
}

/// A test that fails must not leave a server behind.
impl Drop for Berth {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Where pictures of the page are left.
pub fn screenshots() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../e2e/dashboard");
    std::fs::create_dir_all(&path).unwrap();
    path
}

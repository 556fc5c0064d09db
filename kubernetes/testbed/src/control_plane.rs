//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::authority::{self, Authority, Pair};
use crate::component::Component;
use crate::https::HttpsClient;
use crate::ports::{free_port, free_ports};
use crate::process::Process;
use crate::programs::{Programs, WITHOUT_COLLECTOR};
use crate::{init, kubeconfig, shell};

/// Where a write is when etcd answers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// In the page cache: etcd does not call fsync. For tests.
    #[default]
    Quick,
    /// On disk, as in production. For benchmarks.
    Durable,
}

/// The settings of a control plane.
#[derive(Debug)]
pub struct Plan {
    pub storage: Storage,
    /// Whether controllers and a scheduler run. Without them there is only an API.
    pub controllers: bool,
    /// Additional flags for kube-apiserver.
    pub api_flags: Vec<String>,
    /// Additional flags for kube-controller-manager.
    pub manager_flags: Vec<String>,
    /// Additional environment variables for every process.
    pub environment: Vec<(String, String)>,
    /// The address of the API: loopback, or the host's end of the wire.
    pub address: Ipv4Addr,
    pub directory: PathBuf,
    pub logs: PathBuf,
}

/// A running control plane.
#[derive(Debug)]
pub struct ControlPlane {
    plan: Plan,
    server: String,
    etcd: String,
    ca: String,
    /// The tokens, by user.
    tokens: BTreeMap<String, String>,
    components: BTreeMap<&'static str, Component>,
    programs: Programs,
}

const ADMIN: &str = "admin";
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";
/// The CIDR of Services. Its first address is that of the Service `kubernetes`.
const SERVICES: &str = "10.96.0.0/16";
const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

impl ControlPlane {
    /// Returns when the API answers and pods can be created.
    pub fn start(
        programs: &Programs,
        init: &Process,
        nodes: &[String],
        plan: Plan,
    ) -> Result<Self> {
        let mut needed = vec!["etcd", "kube-apiserver", "kubectl"];
        if plan.controllers {
            needed.extend(["kube-controller-manager", "kube-scheduler"]);
        }
        programs.need(&needed)?;
        let [client, peer, api, manager, scheduler] = free_ports()?;
        let address = SocketAddr::from((plan.address, api));
        let users = [ADMIN, CONTROLLER_MANAGER, SCHEDULER].into_iter().map(str::to_owned);
        let users = users.chain(nodes.iter().map(|node| node_user(node)));
        let authority = Authority::make()?;
        let mut plane = Self {
            server: format!("https://{address}"),
            etcd: format!("http://127.0.0.1:{client}"),
            ca: authority.pem().to_owned(),
            tokens: users.map(|user| (user, authority::token())).collect(),
            components: BTreeMap::new(),
            programs: programs.clone(),
            plan,
        };
        plane.write_credentials(&authority)?;
        plane.run(init, "etcd", &plane.etcd_flags(peer))?;
        plane.run(init, "kube-apiserver", &plane.api_flags(api))?;
        let https = HttpsClient::new(address, &plane.ca)?;
        plane.wait("kube-apiserver", || https.is_ok("/readyz"))?;
        if plane.plan.controllers {
            plane.run(init, "kube-controller-manager", &plane.manager_flags(manager))?;
            plane.run(init, "kube-scheduler", &plane.scheduler_flags(scheduler))?;
            // Pods can be created once the namespace has its ServiceAccount.
            let wait =
                "wait --for=create serviceaccount/default --namespace=default --timeout=120s";
            let made = shell::run(plane.kubectl().args(wait.split_whitespace()));
            made.with_context(|| {
                format!("kube-controller-manager: see {}", plane.plan.logs.display())
            })?;
        }
        Ok(plane)
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.file("kubeconfig")
    }

    /// The kubeconfig of a node's kubelet.
    pub fn kubeconfig_of(&self, node: &str) -> String {
        self.kubeconfig_text(&node_user(node))
    }

    /// Writes or replaces the file `NAME.kubeconfig`, with this token.
    pub fn write_kubeconfig(&self, name: &str, token: &str) -> Result<PathBuf> {
        let path = self.file(&format!("{name}.kubeconfig"));
        let next = path.with_extension("next");
        let text = kubeconfig::text(&self.server, &self.ca, name, token);
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&next);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| std::fs::rename(&next, &path))
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    /// The kubeconfig of a kube-scheduler.
    pub fn kubeconfig_of_scheduler(&self) -> PathBuf {
        self.file("scheduler.kubeconfig")
    }

    /// Starts another process beside the control plane's own, on the host's network. It ends with
    /// the cluster.
    pub(crate) fn start_component(
        &self,
        init: &Process,
        name: &str,
        program: &Path,
        flags: &[String],
    ) -> Result<Component> {
        let mut command = init::enter(init);
        command.arg(program).args(flags);
        Component::start(name, command, &self.plan.logs)
    }

    /// Starts another kube-scheduler, with its own configuration.
    pub(crate) fn start_scheduler(
        &self,
        init: &Process,
        name: &str,
        configuration: &str,
    ) -> Result<Component> {
        self.programs.need(&["kube-scheduler"])?;
        let file = self.file(&format!("{name}.yaml"));
        std::fs::write(&file, configuration)
            .with_context(|| format!("writing {}", file.display()))?;
        let port = free_port()?;
        let flags = [
            format!("--config={}", file.display()),
            self.flag("cert-dir", "certificates"),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
        ];
        self.start_component(init, name, &self.programs.path("kube-scheduler"), &flags)
    }

    /// The address of the API.
    pub fn address(&self) -> Ipv4Addr {
        self.plan.address
    }

    /// The URL of kube-apiserver.
    pub fn server(&self) -> &str {
        &self.server
    }

    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// The URL of etcd for clients.
    pub fn etcd(&self) -> &str {
        &self.etcd
    }

    /// A kubectl that talks to this cluster.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(self.programs.path("kubectl"));
        command.env("KUBECONFIG", self.kubeconfig());
        command.env(WITHOUT_COLLECTOR.0, WITHOUT_COLLECTOR.1);
        command
    }

    /// The process of a component, by the component's name.
    pub fn process(&self, name: &str) -> Result<Process> {
        let component = self.components.get(name);
        component
            .with_context(|| format!("{name} is not part of this control plane"))?
            .process()
    }

    pub fn logs(&self) -> &Path {
        &self.plan.logs
    }

    fn run(&mut self, init: &Process, name: &'static str, flags: &[String]) -> Result<()> {
        let mut command = init::enter(init);
        command.arg(self.programs.path(name)).args(flags);
        command.envs(self.plan.environment.iter().map(|(name, value)| (name, value)));
        let component = Component::start(name, command, &self.plan.logs)?;
        self.components.insert(name, component);
        Ok(())
    }

    fn wait(&mut self, name: &str, there: impl Fn() -> bool) -> Result<()> {
        let component = self.components.get_mut(name);
        component
            .with_context(|| format!("{name} was not started"))?
            .wait_until(there)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.plan.directory.join(name)
    }

    fn flag(&self, name: &str, file: &str) -> String {
        format!("--{name}={}", self.file(file).display())
    }

    fn kubeconfig_text(&self, user: &str) -> String {
        let token = self.tokens.get(user).map_or("", String::as_str);
        kubeconfig::text(&self.server, &self.ca, user, token)
    }

    fn write_credentials(&self, authority: &Authority) -> Result<()> {
        let addresses = [self.plan.address, Ipv4Addr::LOCALHOST, API_SERVICE].map(IpAddr::V4);
        let server = authority.server(&addresses)?;
        // kube-apiserver shows this client certificate to kubelets, for logs and exec.
        let kubelet_client = authority.client("kube-apiserver-kubelet-client", "system:masters")?;
        for (name, Pair { certificate, key }) in
            [("server", server), ("kubelet-client", kubelet_client)]
        {
            self.write(&format!("{name}.crt"), &certificate)?;
            self.write(&format!("{name}.key"), &key)?;
        }
        self.write("ca.crt", &self.ca)?;
        let (private, public) = authority::signing_keys()?;
        self.write("service-accounts.key", &private)?;
        self.write("service-accounts.pub", &public)?;
        let tokens: Vec<String> = self
            .tokens
            .iter()
            .map(|(user, token)| token_line(user, token))
            .collect();
        self.write("tokens.csv", &tokens.join("\n"))?;
        self.write("kubeconfig", &self.kubeconfig_text(ADMIN))?;
        self.write(
            "controller-manager.kubeconfig",
            &self.kubeconfig_text(CONTROLLER_MANAGER),
        )?;
        self.write("scheduler.kubeconfig", &self.kubeconfig_text(SCHEDULER))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.file(name);
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("writing {}", path.display()))
    }

    fn etcd_flags(&self, peer: u16) -> Vec<String> {
        let peer = format!("http://127.0.0.1:{peer}");
        let mut flags = vec![
            "--name=testbed".to_owned(),
            "--log-level=warn".to_owned(),
            self.flag("data-dir", "etcd"),
            format!("--listen-client-urls={}", self.etcd),
            format!("--advertise-client-urls={}", self.etcd),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=testbed={peer}"),
        ];
        if self.plan.storage == Storage::Quick {
            flags.push("--unsafe-no-fsync".to_owned());
        }
        flags
    }

    fn api_flags(&self, port: u16) -> Vec<String> {
        let address = self.plan.address;
        let mut flags = vec![
            format!("--etcd-servers={}", self.etcd),
            format!("--bind-address={address}"),
            format!("--advertise-address={address}"),
            format!("--secure-port={port}"),
            format!("--service-cluster-ip-range={SERVICES}"),
            self.flag("cert-dir", "certificates"),
            self.flag("tls-cert-file", "server.crt"),
            self.flag("tls-private-key-file", "server.key"),
            self.flag("client-ca-file", "ca.crt"),
            self.flag("token-auth-file", "tokens.csv"),
            self.flag("kubelet-client-certificate", "kubelet-client.crt"),
            self.flag("kubelet-client-key", "kubelet-client.key"),
            self.flag("service-account-key-file", "service-accounts.pub"),
            self.flag("service-account-signing-key-file", "service-accounts.key"),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--allow-privileged".to_owned(),
        ];
        if address.is_loopback() {
            // Endpoints cannot be on loopback, and no pod would reach them there.
            flags.push("--endpoint-reconciler-type=none".to_owned());
        }
        flags.extend(self.plan.api_flags.iter().cloned());
        flags
    }

    fn manager_flags(&self, port: u16) -> Vec<String> {
        let mut flags = vec![
            self.flag("kubeconfig", "controller-manager.kubeconfig"),
            self.flag("cert-dir", "certificates"),
            self.flag("root-ca-file", "ca.crt"),
            self.flag("service-account-private-key-file", "service-accounts.key"),
            // The default is a directory of the system, and kube-controller-manager would create
            // it.
            self.flag("flex-volume-plugin-dir", "volume-plugins"),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--leader-elect=false".to_owned(),
            // Each controller's own account has a role; the manager's account has few rights.
            "--use-service-account-credentials".to_owned(),
            // The default of 20 requests a second would slow tests down.
            "--kube-api-qps=200".to_owned(),
            "--kube-api-burst=400".to_owned(),
        ];
        flags.extend(self.plan.manager_flags.iter().cloned());
        flags
    }

    fn scheduler_flags(&self, port: u16) -> Vec<String> {
        vec![
            self.flag("kubeconfig", "scheduler.kubeconfig"),
            self.flag("cert-dir", "certificates"),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--leader-elect=false".to_owned(),
        ]
    }
}

fn node_user(node: &str) -> String {
    format!("system:node:{node}")
}

/// Token, user, user id, groups.
fn token_line(user: &str, token: &str) -> String {
    let group = match user {
        ADMIN => "system:masters",
        CONTROLLER_MANAGER | SCHEDULER => "system:authenticated",
        _ => "system:nodes",
    };
    format!("{token},{user},{user},\"{group}\"")
}

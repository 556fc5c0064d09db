//! A cluster with our program beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use berth_api::AddressBlock;
use berth_e2e::Scene;
use berth_testbed::Component;
use kube::Api;
use kube::api::ListParams;

pub struct Site {
    pub scene: Scene,
    pub berth: PathBuf,
}

impl Site {
    pub fn new(scene: Scene) -> Result<Self> {
        let berth = berth_e2e::berth()?;
        Ok(Self { scene, berth })
    }

    /// Applies the objects that a `berth` command prints.
    pub fn apply_printed(&self, arguments: &[&str]) -> Result<()> {
        let output = Command::new(&self.berth).args(arguments).output()?;
        ensure!(output.status.success(), "{output:?}");
        let path = self.scene.cluster.logs().join(format!("{}.yaml", arguments.join("-")));
        std::fs::write(&path, output.stdout)?;
        self.scene.cluster.apply(&path)
    }

    /// As an administrator; arguments are separated by spaces.
    pub fn kubectl(&self, arguments: &str) -> Result<String> {
        let mut command = self.scene.cluster.kubectl();
        let output = command.args(arguments.split_whitespace()).output()?;
        ensure!(
            output.status.success(),
            "{arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// A process of ours. It ends with the cluster.
    pub fn start(&self, name: &str, command: &str, kubeconfig: &Path, flags: &[&str]) -> Component {
        let kubeconfig = kubeconfig.display().to_string();
        let mut all = vec![command.to_owned(), "--kubeconfig".to_owned(), kubeconfig];
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self.scene.cluster.start_component(name, &self.berth, &all).unwrap()
    }

    /// How many addresses of a Subnet have an owner.
    pub async fn owned(&self, subnet: &str) -> Result<usize> {
        let blocks: Api<AddressBlock> = Api::all(self.scene.client.clone());
        let blocks = blocks.list(&ListParams::default()).await.context("listing blocks")?;
        let of_subnet = blocks.items.iter().filter(|block| block.spec.subnet == subnet);
        Ok(of_subnet.map(|block| block.spec.owned.len()).sum())
    }
}

/// With SIGKILL, as when the machine's memory has run out.
pub fn kill(component: &Component) {
    let process = component.process().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
}

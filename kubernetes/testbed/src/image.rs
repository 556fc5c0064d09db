//! The image of every pod: a static busybox, and a server that answers with the pod's name. And the
//! same as an image that does nothing, for the container that holds a pod's namespaces. Any other
//! program gets an image of its own, see [`write_program`].

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use crate::digest::sha256;
use crate::shell;

/// For pods, with `imagePullPolicy: Never`. Without a command it serves HTTP on port 8080.
pub const POD_IMAGE: &str = "berth.test/pod:1";

/// For the container that every pod has beside its own.
pub const SANDBOX_IMAGE: &str = "berth.test/sandbox:1";

/// Ends at once when told to; process 1 of a container ignores what it does not ask for.
const SERVE: &str = "#!/bin/sh
trap 'exit 0' TERM
hostname >/www/index.html
httpd -f -p 8080 -h /www &
wait
";

const APPLETS: &[&str] = &[
    "cat", "echo", "env", "grep", "hostname", "httpd", "ip", "ls", "nc", "nslookup", "ping", "ps",
    "sh", "sleep", "wget",
];

/// Writes both images as one archive that containerd can import.
pub fn write(folder: &Path) -> Result<PathBuf> {
    let made = || -> Result<PathBuf> {
        let root = folder.join("root");
        for folder in ["bin", "dev", "etc", "proc", "sys", "tmp", "www"] {
            std::fs::create_dir_all(root.join(folder))?;
        }
        let busybox =
            shell::find("busybox").context("busybox is not on the PATH: install busybox-static")?;
        std::fs::copy(busybox, root.join("bin/busybox"))?;
        for applet in APPLETS {
            symlink("busybox", root.join("bin").join(applet))?;
        }
        let serve = root.join("bin/serve");
        std::fs::write(&serve, SERVE)?;
        std::fs::set_permissions(&serve, std::fs::Permissions::from_mode(0o755))?;

        let images: [(&str, &[&str]); 2] = [
            (POD_IMAGE, &["/bin/serve"]),
            (SANDBOX_IMAGE, &["/bin/sleep", "infinity"]),
        ];
        archive(folder, &root, &images)
    };
    made().context("making the images of pods")
}

/// An image of that name with a program and the libraries it is linked with, and nothing else, as
/// an archive for [`crate::Node::import`].
pub fn write_program(folder: &Path, name: &str, program: &Path) -> Result<PathBuf> {
    let made = || -> Result<PathBuf> {
        let root = folder.join("root");
        let inside = Path::new("/bin").join(program.file_name().context("it has no name")?);
        let target = root.join("bin").join(program.file_name().context("it has no name")?);
        std::fs::create_dir_all(root.join("bin"))?;
        // What is only for debuggers is most of it.
        let mut strip = Command::new("strip");
        strip.arg("--strip-debug").arg("-o").arg(&target).arg(program);
        shell::run(&mut strip)?;
        let linked = shell::run(Command::new("ldd").arg(program))?;
        for library in linked.split_whitespace().filter(|word| word.starts_with('/')) {
            let target = root.join(library.trim_start_matches('/'));
            std::fs::create_dir_all(target.parent().context("a library without a folder")?)?;
            std::fs::copy(library, target)?;
        }
        let entrypoint = inside.to_string_lossy().into_owned();
        let images: [(&str, &[&str]); 1] = [(name, &[&entrypoint])];
        archive(folder, &root, &images)
    };
    made().with_context(|| format!("making the image {name} of {}", program.display()))
}

/// What is in `root`, under each name with what it starts.
fn archive(folder: &Path, root: &Path, images: &[(&str, &[&str])]) -> Result<PathBuf> {
    let archive = folder.join("archive");
    std::fs::create_dir(&archive)?;
    let layer = archive.join("layer.tar");
    tar(root, &layer)?;
    let layer_sum = sha256([std::fs::read(&layer)?.as_slice()]);
    let mut manifest = Vec::new();
    for (name, entrypoint) in images {
        let config = config(&layer_sum, entrypoint).to_string();
        let config_name = format!("{}.json", sha256([config.as_bytes()]));
        std::fs::write(archive.join(&config_name), config)?;
        manifest.push(json!({"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}));
    }
    std::fs::write(archive.join("manifest.json"), json!(manifest).to_string())?;
    let image = folder.join("image.tar");
    tar(&archive, &image)?;
    Ok(image)
}

fn config(layer: &str, entrypoint: &[&str]) -> serde_json::Value {
    json!({
        "architecture": match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        },
        "os": "linux",
        "config": {"Entrypoint": entrypoint, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
    })
}

fn tar(folder: &Path, file: &Path) -> Result<()> {
    let mut command = Command::new("tar");
    // The same content gives the same bytes.
    command.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]);
    command
        .arg("--create")
        .arg("--file")
        .arg(file)
        .arg("--directory")
        .arg(folder)
        .arg(".");
    shell::run(&mut command).map(drop)
}

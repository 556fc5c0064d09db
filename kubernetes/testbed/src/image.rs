//! The image of every pod: a static busybox, and a server that answers with the pod's name. The
//! sandbox image has the same files and does nothing. Any other program gets its own image, see
//! [`of_program`].

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use crate::digest::sha256;
use crate::shell;

/// For pods, with `imagePullPolicy: Never`. Without a command it serves HTTP on port 8080.
pub const POD_IMAGE: &str = "berth.test/pod:1";

/// For the sandbox container of every pod.
pub const SANDBOX_IMAGE: &str = "berth.test/sandbox:1";

/// The trap is needed because process 1 of a container ignores signals that it has no handler for.
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
pub fn write(directory: &Path) -> Result<PathBuf> {
    let made = || -> Result<PathBuf> {
        let root = directory.join("root");
        for directory in ["bin", "dev", "etc", "proc", "sys", "tmp", "www"] {
            std::fs::create_dir_all(root.join(directory))?;
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
        archive(directory, &root, &images)
    };
    made().context("making the images of pods")
}

/// Writes an image of that name with one stripped program and the libraries that it is linked with.
/// For [`crate::Node::import`].
pub fn of_program(directory: &Path, name: &str, program: &Path) -> Result<PathBuf> {
    let made = || -> Result<PathBuf> {
        let root = directory.join("root");
        let file = Path::new(program.file_name().context("it has no name")?);
        std::fs::create_dir_all(root.join("bin"))?;
        let mut strip = Command::new("strip");
        shell::run(strip.arg("-o").arg(root.join("bin").join(file)).arg(program))?;
        let libraries = shell::run(Command::new("ldd").arg(program))?;
        for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
            let place = root.join(library.trim_start_matches('/'));
            std::fs::create_dir_all(place.parent().context("a library without a directory")?)?;
            std::fs::copy(library, place)?;
        }
        let entrypoint = format!("/bin/{}", file.display());
        archive(directory, &root, &[(name, &[&entrypoint])])
    };
    made().with_context(|| format!("making an image of {}", program.display()))
}

/// Writes the content of `root` as images, each a name and its command.
fn archive(directory: &Path, root: &Path, images: &[(&str, &[&str])]) -> Result<PathBuf> {
    let archive = directory.join("archive");
    std::fs::create_dir_all(&archive)?;
    let layer = archive.join("layer.tar");
    tar(root, &layer)?;
    // sha256sum reads the file in pieces: a layer may have many megabytes.
    let sum = shell::run(Command::new("sha256sum").arg(&layer))?;
    let sum = sum.split_whitespace().next().context("sha256sum says nothing")?;
    let mut manifest = Vec::new();
    for (name, entrypoint) in images {
        let config = config(sum, entrypoint).to_string();
        let config_name = format!("{}.json", sha256([config.as_bytes()]));
        std::fs::write(archive.join(&config_name), config)?;
        manifest.push(json!({"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}));
    }
    std::fs::write(archive.join("manifest.json"), json!(manifest).to_string())?;
    let image = directory.join("image.tar");
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

fn tar(directory: &Path, file: &Path) -> Result<()> {
    let mut command = Command::new("tar");
    // The same content gives the same bytes.
    command.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]);
    command
        .arg("--create")
        .arg("--file")
        .arg(file)
        .arg("--directory")
        .arg(directory)
        .arg(".");
    shell::run(&mut command).map(drop)
}

//! Control groups: one directory for the cluster in each hierarchy of this machine, and in it one
//! for each node, which is the root that the node sees. Supports cgroup v1, v2 and both together.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::component::POLL_INTERVAL;
use crate::shell;

/// A mounted hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    mount: PathBuf,
    /// `cgroup` or `cgroup2`.
    kind: String,
    /// The mount options, such as `cpu` or `none,name=systemd`.
    options: String,
    /// The parent of new directories.
    parent: PathBuf,
}

/// The paths of the cluster's groups, one in each hierarchy. Creates nothing.
pub fn of_cluster(name: &str) -> Result<Vec<PathBuf>> {
    let directories = hierarchies()?;
    let directories = directories
        .iter()
        .map(|hierarchy| hierarchy.parent.join(format!("berth-{name}")));
    Ok(directories.collect())
}

/// The groups of one node, inside those of its cluster.
#[derive(Clone, Debug)]
pub struct Groups {
    directories: Vec<PathBuf>,
}

impl Groups {
    pub fn make(cluster: &[PathBuf], node: &str) -> Result<Self> {
        let mut directories = Vec::new();
        for cluster in cluster {
            let directory = cluster.join(node);
            for made in [cluster, &directory] {
                std::fs::create_dir_all(made)
                    .with_context(|| format!("making {}", made.display()))?;
                inherit_cpuset(made)?;
            }
            directories.push(directory);
        }
        Ok(Self { directories })
    }

    /// A command that joins the groups, and then executes what is appended to it.
    pub fn command(&self) -> Command {
        const JOIN: &str =
            r#"while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs"; shift; done; shift; exec "$@""#;
        let mut command = Command::new("sh");
        command.args(["-ec", JOIN, "join"]);
        for directory in &self.directories {
            let leaf = directory.join("init");
            command.arg(if leaf.is_dir() { &leaf } else { directory });
        }
        command.arg("--");
        command
    }

    /// In cgroup v2 a group has either processes or child groups with controllers, so the node's
    /// own processes move to a leaf. Call this once the node's cgroup namespace exists; its root
    /// stays where it is.
    pub fn move_processes_to_leaf(&self) -> Result<()> {
        for directory in &self.directories {
            let controllers =
                std::fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
            if controllers.trim().is_empty() {
                continue;
            }
            let leaf = directory.join("init");
            std::fs::create_dir_all(&leaf).with_context(|| format!("making {}", leaf.display()))?;
            for pid in std::fs::read_to_string(directory.join("cgroup.procs"))?.lines() {
                // A process that has just ended cannot be moved, and need not be.
                drop(std::fs::write(leaf.join("cgroup.procs"), pid));
            }
            enable(directory, &controllers)?;
        }
        Ok(())
    }
}

/// Shell lines that mount each hierarchy again inside a cgroup namespace. The root of each mount is
/// then the root of the namespace.
pub fn remounts() -> Result<String> {
    let mut script = String::new();
    for Hierarchy {
        mount, kind, options, ..
    } in hierarchies()?
    {
        let mount = shell::quoted(&mount.to_string_lossy());
        let options = if options.is_empty() {
            String::new()
        } else {
            format!("-o {options} ")
        };
        script += &format!("umount {mount}\nmount -t {kind} {options}{kind} {mount}\n");
    }
    Ok(script)
}

/// Removes a group and all in it. A group is busy until its last process is gone.
pub fn remove(directory: &Path) -> Result<()> {
    for _ in 0..100 {
        if !directory.exists() || remove_tree(directory).is_ok() {
            return Ok(());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    bail!("{} is still in use", directory.display())
}

fn remove_tree(directory: &Path) -> std::io::Result<()> {
    for item in std::fs::read_dir(directory)? {
        let item = item?;
        if item.file_type()?.is_dir() {
            remove_tree(&item.path())?;
        }
    }
    std::fs::remove_dir(directory)
}

/// A new cpuset group of cgroup v1 has no CPUs and no memory nodes until they are set.
fn inherit_cpuset(directory: &Path) -> Result<()> {
    for name in ["cpuset.cpus", "cpuset.mems"] {
        let own = directory.join(name);
        if directory.join("cgroup.controllers").exists() || !own.exists() {
            continue;
        }
        let parent = directory.parent().context("a group without a parent")?;
        let value = std::fs::read(parent.join(name))?;
        std::fs::write(&own, value).with_context(|| format!("writing {}", own.display()))?;
    }
    Ok(())
}

fn enable(directory: &Path, controllers: &str) -> Result<()> {
    let words: Vec<String> =
        controllers.split_whitespace().map(|name| format!("+{name}")).collect();
    let file = directory.join("cgroup.subtree_control");
    std::fs::write(&file, words.join(" ")).with_context(|| format!("writing {}", file.display()))
}

fn hierarchies() -> Result<Vec<Hierarchy>> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").context("reading the mounts")?;
    let own = std::fs::read_to_string("/proc/self/cgroup").context("reading our control groups")?;
    parse(&mounts, &own)
}

/// `own` names our group in each hierarchy: `number:controllers:path`, without controllers for
/// cgroup v2.
fn parse(mounts: &str, own: &str) -> Result<Vec<Hierarchy>> {
    let mut found = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            bail!("/proc/self/cgroup: {line} is not understood");
        };
        // Skips hierarchies that are not mounted.
        let Some(mount) = mounts.lines().find_map(|mount| mount_of(mount, controllers)) else {
            continue;
        };
        let (kind, options, parent) = if controllers.is_empty() {
            // At the root: our own group has processes, and so cannot have child groups with
            // controllers.
            ("cgroup2", String::new(), mount.clone())
        } else {
            let options = match controllers.strip_prefix("name=") {
                Some(_) => format!("none,{controllers}"),
                None => controllers.to_owned(),
            };
            ("cgroup", options, mount.join(path.trim_start_matches('/')))
        };
        found.push(Hierarchy {
            mount,
            kind: kind.to_owned(),
            options,
            parent,
        });
    }
    Ok(found)
}

/// The mount point of the hierarchy with `controllers`, if this line of mountinfo describes it.
fn mount_of(line: &str, controllers: &str) -> Option<PathBuf> {
    let (place, source) = line.split_once(" - ")?;
    let mut source = source.split_whitespace();
    let kind = source.next()?;
    let options = source.nth(1)?;
    let matches = if controllers.is_empty() {
        kind == "cgroup2"
    } else {
        let has = |name| options.split(',').any(|option| option == name);
        kind == "cgroup" && controllers.split(',').all(has)
    };
    matches.then(|| place.split_whitespace().nth(4).map(PathBuf::from))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_generation_hierarchies_are_joined_below_our_own_group() {
        let mounts = "36 25 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup \
                      rw,cpu,cpuacct\n37 25 0:32 / /sys/fs/cgroup/systemd rw - cgroup cgroup \
                      rw,name=systemd\n38 25 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 \
                      rw\n";
        let own = "3:cpu,cpuacct:/ours\n2:name=systemd:/\n1:rdma:/\n0::/ours\n";
        let found = parse(mounts, own).unwrap();
        let options: Vec<&str> = found.iter().map(|hierarchy| hierarchy.options.as_str()).collect();
        assert_eq!(options, ["cpu,cpuacct", "none,name=systemd", ""]);
        let parents: Vec<&Path> =
            found.iter().map(|hierarchy| hierarchy.parent.as_path()).collect();
        let expected = [
            "/sys/fs/cgroup/cpu,cpuacct/ours",
            "/sys/fs/cgroup/systemd",
            "/sys/fs/cgroup/unified",
        ];
        assert_eq!(parents, expected.map(Path::new));
    }

    #[test]
    fn the_second_generation_is_joined_at_its_root() {
        let mounts =
            "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = parse(mounts, "0::/user.slice/session-1.scope\n").unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].kind, "cgroup2");
        assert_eq!(found[0].parent, Path::new("/sys/fs/cgroup"));
    }
}

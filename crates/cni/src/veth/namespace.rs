//! A pod's network namespace.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use berth_api::cni::{CniError, Code};
use berth_netlink::Socket;
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::kernel;

/// A network namespace other than that of this process.
#[derive(Debug)]
pub struct Namespace {
    path: String,
    file: File,
    own: File,
}

impl Namespace {
    pub fn open(path: &str) -> Result<Self, CniError> {
        const OWN: &str = "/proc/self/ns/net";
        let open = |path: &str| {
            File::open(path).and_then(|file| file.metadata().map(|metadata| (file, metadata)))
        };
        let failed =
            |error| invalid(format!("CNI_NETNS is {path:?}, which can't be opened: {error}"));
        let (file, metadata) = open(path).map_err(failed)?;
        let failed =
            |error| CniError::new(Code::InputOutput, format!("{OWN} can't be opened: {error}"));
        let (own, own_metadata) = open(OWN).map_err(failed)?;
        if (metadata.dev(), metadata.ino()) == (own_metadata.dev(), own_metadata.ino()) {
            return Err(invalid(format!(
                "CNI_NETNS is {path:?}, the plugin's own network namespace"
            )));
        }
        let path = path.to_owned();
        Ok(Self { path, file, own })
    }

    /// A netlink socket of this namespace.
    pub fn socket(&self) -> Result<Socket, CniError> {
        let opened = self.inside(Socket::open)?;
        opened.map_err(|error| kernel(format!("opening a socket in {}", self.path), error))
    }

    /// Enters the namespace, calls `act`, and comes back. This thread is the only one.
    pub fn inside<T>(&self, act: impl FnOnce() -> T) -> Result<T, CniError> {
        let enter =
            |file: &File| move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
        enter(&self.file).map_err(|error| match error {
            Errno::INVAL => invalid(format!(
                "CNI_NETNS is {:?}, which is not a network namespace",
                self.path
            )),
            error => kernel(format!("entering {}", self.path), error),
        })?;
        let result = act();
        enter(&self.own)
            .map_err(|error| kernel("coming back from the pod's network namespace", error))?;
        Ok(result)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn invalid(msg: String) -> CniError {
    CniError::new(Code::InvalidEnvironment, msg)
}

//! What can go wrong between us and the kernel.

use std::io;

use rustix::io::Errno;

/// A request that the kernel refused, or a socket that failed.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The socket failed, so it is not known which requests were done.
    #[error("netlink: {doing}")]
    Socket {
        /// What was tried.
        doing: &'static str,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// The kernel refused this request. It still tried those after it.
    #[error("{request}{}", in_brackets(.explanation.as_deref()))]
    Refused {
        /// What was asked, with the name of the link, address or route.
        request: String,
        /// The kernel's own words, where it has some.
        explanation: Option<String>,
        /// The kernel's code.
        #[source]
        source: io::Error,
    },
    /// Something changed during every attempt to read a list, so no list is consistent.
    #[error("{request}: it changed during each of {attempts} attempts; try again later")]
    Inconsistent {
        /// What was asked.
        request: String,
        /// How often.
        attempts: u32,
    },
}

fn in_brackets(text: Option<&str>) -> String {
    text.map(|text| format!(" ({text})")).unwrap_or_default()
}

impl NetlinkError {
    /// Whether the link, address or route is missing: a caller that deletes it has nothing left to
    /// do.
    pub fn is_gone(&self) -> bool {
        [Errno::NODEV, Errno::SRCH, Errno::NOENT, Errno::ADDRNOTAVAIL]
            .iter()
            .any(|errno| self.is(*errno))
    }

    /// Whether the link, address or route is there already.
    pub fn is_taken(&self) -> bool {
        self.is(Errno::EXIST)
    }

    /// Whether the kernel dropped messages because the socket's buffer was full.
    pub fn is_overrun(&self) -> bool {
        self.is(Errno::NOBUFS)
    }

    /// Whether no route leads there.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.is(Errno::NETUNREACH) || self.is(Errno::HOSTUNREACH)
    }

    /// Whether no message was waiting.
    pub(crate) fn is_empty(&self) -> bool {
        self.is(Errno::AGAIN)
    }

    pub(crate) fn is(&self, errno: Errno) -> bool {
        match self {
            Self::Socket { source, .. } | Self::Refused { source, .. } => {
                source.raw_os_error() == Some(errno.raw_os_error())
            }
            Self::Inconsistent { .. } => false,
        }
    }

    pub(crate) fn socket(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Socket { doing, source }
    }
}

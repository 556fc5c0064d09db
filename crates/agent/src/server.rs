//! The agent's API on its Unix socket.
//!
//! For root and for the agent's own user: the file is 0600, and the kernel is asked for the
//! caller's user. Bodies, connections and the time that a connection may take are bounded, so that
//! no caller can hold up the others.

mod routes;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use berth_api::agent::{Reason, Refusal};
use berth_kit::serve::{Door, Limits};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

pub use routes::router;

/// A connection may take the longest wait for an address, and some.
const LIMITS: Limits = Limits {
    connections: 512,
    handshake: Duration::from_secs(10),
    connection: Some(Duration::from_secs(90)),
    keep_alive: true,
    http2: None,
    buffer: Limits::HEADERS,
    drain: Duration::ZERO,
};
/// The kernel's limit for the path of a socket.
pub const MAX_PATH: usize = 107;

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error(
        "the socket {path} can't be created: {error}; give --socket a path in a directory \
         that the agent can write to"
    )]
    Io { path: String, error: io::Error },
    #[error("the socket {path} is longer than {MAX_PATH} bytes: give --socket a shorter path")]
    TooLong { path: String },
    #[error("another agent answers at {path}: stop it, or give --socket another path")]
    InUse { path: String },
}

#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Replaces a socket that no process serves any more. The new socket is never open to others:
    /// it is bound under another name, made 0600 and then renamed.
    pub async fn bind(path: &Path) -> Result<Self, ListenError> {
        let named = || path.display().to_string();
        let unfinished = path.with_extension("new");
        if unfinished.as_os_str().len() > MAX_PATH {
            return Err(ListenError::TooLong { path: named() });
        }
        if UnixStream::connect(path).await.is_ok() {
            return Err(ListenError::InUse { path: named() });
        }
        let bound = || -> io::Result<UnixListener> {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            match fs::remove_file(&unfinished) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let listener = UnixListener::bind(&unfinished)?;
            fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o600))?;
            fs::rename(&unfinished, path)?;
            Ok(listener)
        };
        let listener = bound().map_err(|error| ListenError::Io { path: named(), error })?;
        let path = path.to_owned();
        Ok(Self { listener, path })
    }

    /// Serves until it is told to stop.
    pub async fn serve(self, router: Router, stopping: CancellationToken) {
        let door = Guarded {
            listener: self,
            router,
        };
        LIMITS.serve(door, stopping).await;
    }
}

struct Guarded {
    listener: Listener,
    router: Router,
}

impl Door for Guarded {
    type Accepted = UnixStream;
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.listener.accept().await.map(|(stream, _)| stream)
    }

    async fn open(&self, stream: UnixStream) -> Option<(UnixStream, Router)> {
        let router = match is_allowed(&stream) {
            true => self.router.clone(),
            false => refusing(),
        };
        Some((stream, router))
    }
}

/// Later callers fail at once, because the socket is gone.
impl Drop for Listener {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            debug!(%error, "cannot remove the agent's socket");
        }
    }
}

fn is_allowed(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) => peer.uid() == 0 || peer.uid() == own,
        Err(error) => {
            warn!(%error, "cannot read a caller's user id; refusing its calls");
            false
        }
    }
}

fn refusing() -> Router {
    let refusal = || async {
        let message = "only root and the agent's own user may call: run it as root";
        routes::ErrorResponse(Refusal::new(Reason::Forbidden, message)).into_response()
    };
    Router::new().fallback(refusal)
}

//! Calls to the agent: one request on its socket, and one answer.

mod http;

use std::time::{Duration, Instant};

use berth_api::agent::{
    CHECK, Check, Done, GC, Gc, Granted, REQUEST, Reason, Refusal, Release, Request, STATUS, Status,
};
use berth_api::cni::{CniError, Code, Settings};
use serde::Serialize;
use serde::de::DeserializeOwned;

use http::{Answer, NoAnswer};

/// The pause between two attempts to reach an agent that is away.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(50);

/// How to reach the agent of this node.
#[derive(Debug)]
pub struct Agent<'a> {
    settings: &'a Settings,
}

/// Why a call was not served.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// There was no usable answer, so it is not known whether the agent served the call.
    #[error("the agent at {socket} does not answer: {cause}")]
    NoAnswer { socket: String, cause: NoAnswer },
    #[error("the agent refuses: {0}")]
    Refused(Refusal),
    #[error(
        "the agent at {socket} answers with status {status} and a body that can't be \
         decoded"
    )]
    Status { socket: String, status: u16 },
}

impl AgentError {
    /// Whether no agent listens, or it has just ended. Silence and unreadable answers do not count.
    fn is_away(&self) -> bool {
        matches!(
            self,
            Self::NoAnswer {
                cause: NoAnswer::Failed(_) | NoAnswer::Cut,
                ..
            }
        )
    }

    /// The error for the runtime. It says so if the same call may be served later.
    pub fn failure(&self) -> CniError {
        let code = match self {
            Self::NoAnswer { .. } => Code::TryAgainLater,
            Self::Status { .. } => Code::Refused,
            Self::Refused(refusal) => match refusal.reason {
                Reason::PoolEmpty => Code::TryAgainLater,
                Reason::Invalid | Reason::Forbidden | Reason::NotFound => Code::Refused,
                Reason::Detached => Code::Detached,
                Reason::Taken => Code::Taken,
                Reason::Mismatch => Code::Mismatch,
                Reason::Storage => Code::Storage,
            },
        };
        CniError::new(code, self.to_string())
    }
}

impl<'a> Agent<'a> {
    pub fn new(settings: &'a Settings) -> Self {
        Self { settings }
    }

    /// Sends an ADD. If the agent is away, for example during an update, the request is sent again
    /// for as long as the conf says. If the agent did serve the first one, the attachment gets the
    /// same addresses; if it was detached meanwhile, the later DEL counts.
    pub fn request(&self, request: &Request) -> Result<Granted, AgentError> {
        // The agent itself may hold the call for the `wait` time.
        let limit = self.settings.timeout.saturating_add(self.settings.wait);
        let deadline = Instant::now() + self.settings.reconnect;
        loop {
            match self.call(REQUEST, request, limit) {
                Err(error) if error.is_away() && Instant::now() < deadline => {
                    std::thread::sleep(RECONNECT_INTERVAL);
                }
                answer => return answer,
            }
        }
    }

    pub fn release(&self, release: &Release) -> Result<Done, AgentError> {
        self.call(berth_api::agent::RELEASE, release, self.settings.timeout)
    }

    pub fn check(&self, check: &Check) -> Result<Done, AgentError> {
        self.call(CHECK, check, self.settings.timeout)
    }

    pub fn gc(&self, gc: &Gc) -> Result<Done, AgentError> {
        self.call(GC, gc, self.settings.timeout)
    }

    /// Whether an ADD can be served now, and why not.
    pub fn status(&self) -> Result<Status, AgentError> {
        let answer = self.exchange("GET", STATUS, &[], self.settings.timeout)?;
        // A 503 has the same body: the code is for probes that do not read the body.
        match serde_json::from_slice(&answer.body) {
            Ok(status) if matches!(answer.status, 200 | 503) => Ok(status),
            _ => self.parse_answer(&answer),
        }
    }

    fn call<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<A, AgentError> {
        // Plain types always serialize. Should they fail, the agent refuses the empty body.
        let body = serde_json::to_vec(body).unwrap_or_default();
        self.parse_answer(&self.exchange("POST", path, &body, limit)?)
    }

    fn exchange(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
        limit: Duration,
    ) -> Result<Answer, AgentError> {
        let socket = &self.settings.socket;
        let no_answer = |cause| AgentError::NoAnswer {
            socket: socket.clone(),
            cause,
        };
        http::exchange(socket, method, path, body, limit).map_err(no_answer)
    }

    fn parse_answer<A: DeserializeOwned>(&self, answer: &Answer) -> Result<A, AgentError> {
        let socket = self.settings.socket.clone();
        if answer.status == 200 {
            let unreadable = |error| AgentError::NoAnswer {
                socket,
                cause: NoAnswer::Unreadable(error),
            };
            return serde_json::from_slice(&answer.body).map_err(unreadable);
        }
        match serde_json::from_slice(&answer.body) {
            Ok(refusal) => Err(AgentError::Refused(refusal)),
            Err(_) => Err(AgentError::Status {
                socket,
                status: answer.status,
            }),
        }
    }
}

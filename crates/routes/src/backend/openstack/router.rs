//! A router's extra routes.

use berth_addr::Prefix;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::client::Client;
use crate::backend::{BackendError, ErrorKind};
use crate::core::{Hop, Mark, Route, parse_cidr};

/// How many times the list is written again after a conflict.
const MAX_CONFLICTS: u32 = 10;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extra {
    pub destination: String,
    pub nexthop: String,
}

impl Extra {
    pub fn new(destination: Prefix, hop: &Hop) -> Self {
        Self {
            destination: destination.to_string(),
            nexthop: hop.to_string(),
        }
    }

    pub fn route(&self) -> Option<Route> {
        Some(Route {
            destination: parse_cidr(&self.destination)?,
            hop: match self.nexthop.parse() {
                Ok(address) => Hop::Address(address),
                Err(_) => Hop::Other(self.nexthop.clone()),
            },
            mark: Mark::Unmarked,
            usable: true,
        })
    }

    /// Compares values: Neutron may write an address in another form.
    fn is(&self, other: &Self) -> bool {
        self.route() == other.route()
    }
}

#[derive(Deserialize)]
struct Answer {
    router: Router,
}

#[derive(Deserialize)]
struct Router {
    #[serde(default)]
    routes: Vec<Extra>,
    revision_number: Option<u64>,
}

/// The routes, and the revision of the router where Neutron has one.
pub async fn read(
    client: &Client,
    router: &str,
) -> Result<(Vec<Extra>, Option<u64>), BackendError> {
    let path = format!("/v2.0/routers/{router}");
    let answer: Answer = client
        .ask("GET router", Method::GET, &path, None, None)
        .await?;
    Ok((answer.router.routes, answer.router.revision_number))
}

/// A route that exists already is not an error.
pub async fn add(client: &Client, router: &str, extras: &[Extra]) -> Result<(), BackendError> {
    change(client, router, "add_extraroutes", extras).await
}

/// A route that is gone already is not an error.
pub async fn remove(client: &Client, router: &str, extras: &[Extra]) -> Result<(), BackendError> {
    change(client, router, "remove_extraroutes", extras).await
}

async fn change(
    client: &Client,
    router: &str,
    verb: &str,
    extras: &[Extra],
) -> Result<(), BackendError> {
    if extras.is_empty() {
        return Ok(());
    }
    let path = format!("/v2.0/routers/{router}/{verb}");
    let body = json!({"router": {"routes": extras}});
    let _: Answer = client
        .ask(verb, Method::PUT, &path, Some(&body), None)
        .await?;
    Ok(())
}

/// Writes the whole list, only if the router has not changed since it was read: routes that others
/// added meanwhile must not be lost.
pub async fn rewrite(
    client: &Client,
    router: &str,
    remove: &[Extra],
    add: &[Extra],
    guarded: bool,
) -> Result<(), BackendError> {
    let path = format!("/v2.0/routers/{router}");
    for _ in 0..MAX_CONFLICTS {
        let (mut extras, revision) = read(client, router).await?;
        let before = extras.clone();
        extras.retain(|extra| !remove.iter().any(|gone| gone.is(extra)));
        for new in add {
            if !extras.iter().any(|extra| extra.is(new)) {
                extras.push(new.clone());
            }
        }
        if extras == before {
            return Ok(());
        }
        let body = json!({"router": {"routes": extras}});
        let revision = revision.filter(|_| guarded);
        let written: Result<Answer, _> = client
            .ask("PUT router", Method::PUT, &path, Some(&body), revision)
            .await;
        match written {
            Err(BackendError {
                kind: ErrorKind::Conflict,
                ..
            }) => {}
            written => return written.map(drop),
        }
    }
    let message = "PUT router: others change it all the time";
    Err(BackendError::new(ErrorKind::Conflict, message))
}

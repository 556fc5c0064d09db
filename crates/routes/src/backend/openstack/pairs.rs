//! Allowed address pairs: without one, a port drops packets that are not for its own addresses.

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::Client;
use super::router::Extra;
use crate::backend::{BackendError, ErrorKind};
use crate::core::parse_cidr;

/// How often a port is written anew because somebody else was faster.
const MAX_CONFLICTS: u32 = 5;

#[derive(Deserialize)]
struct Ports {
    ports: Vec<Port>,
}

#[derive(Deserialize)]
struct Port {
    id: String,
    #[serde(default)]
    allowed_address_pairs: Vec<Value>,
    port_security_enabled: Option<bool>,
    revision_number: Option<u64>,
}

/// The port of the next hop takes packets to the destination.
pub async fn allow(client: &Client, extra: &Extra) -> Result<(), BackendError> {
    change(client, extra, |pairs| {
        let there = pairs.iter().any(|pair| is_for(pair, extra));
        if !there {
            pairs.push(json!({"ip_address": extra.destination}));
        }
        !there
    })
    .await
}

pub async fn disallow(client: &Client, extra: &Extra) -> Result<(), BackendError> {
    change(client, extra, |pairs| {
        let before = pairs.len();
        pairs.retain(|pair| !is_for(pair, extra));
        pairs.len() < before
    })
    .await
}

fn is_for(pair: &Value, extra: &Extra) -> bool {
    let address = pair.get("ip_address").and_then(Value::as_str);
    address.is_some_and(|address| parse_cidr(address) == parse_cidr(&extra.destination))
}

/// A next hop without a port is no machine of this cloud, and a port without security takes
/// everything: nothing is to be done for either.
async fn change(
    client: &Client,
    extra: &Extra,
    edit: impl Fn(&mut Vec<Value>) -> bool,
) -> Result<(), BackendError> {
    let address = utf8_percent_encode(&extra.nexthop, NON_ALPHANUMERIC);
    let list = format!("/v2.0/ports?fixed_ips=ip_address%3D{address}");
    for _ in 0..MAX_CONFLICTS {
        let found: Ports = client
            .ask("GET ports", Method::GET, &list, None, None)
            .await?;
        let mut conflict = false;
        for mut port in found.ports {
            if port.port_security_enabled == Some(false) || !edit(&mut port.allowed_address_pairs) {
                continue;
            }
            let path = format!("/v2.0/ports/{}", port.id);
            let body = json!({"port": {"allowed_address_pairs": port.allowed_address_pairs}});
            let revision = port.revision_number;
            let written: Result<Value, _> = client
                .ask("PUT port", Method::PUT, &path, Some(&body), revision)
                .await;
            match written {
                Err(BackendError {
                    kind: ErrorKind::Conflict,
                    ..
                }) => conflict = true,
                written => drop(written?),
            }
        }
        if !conflict {
            return Ok(());
        }
    }
    let message = format!(
        "PUT port of {}: others change it all the time",
        extra.nexthop
    );
    Err(BackendError::new(ErrorKind::Conflict, message))
}

//! Allowed address pairs: without one, a port drops packets that are not for its own addresses.

use std::collections::BTreeSet;

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::Client;
use super::router::Extra;
use crate::backend::{BackendError, ErrorKind};
use crate::core::parse_cidr;

/// How many times a port is written again after a conflict.
const MAX_CONFLICTS: u32 = 5;
/// The owner of a router's port to external networks: no machines are there.
const GATEWAY: &str = "network:router_gateway";

#[derive(Deserialize)]
struct List {
    ports: Vec<Port>,
}

#[derive(Deserialize)]
struct Port {
    id: String,
    network_id: String,
    #[serde(default)]
    device_owner: String,
    #[serde(default)]
    allowed_address_pairs: Vec<Value>,
    port_security_enabled: Option<bool>,
    revision_number: Option<u64>,
}

/// The ports of the networks behind one router. Another network may use the same addresses: its
/// ports are not touched.
pub struct Ports<'a> {
    client: &'a Client,
    networks: BTreeSet<String>,
}

impl<'a> Ports<'a> {
    pub async fn behind(client: &'a Client, router: &str) -> Result<Self, BackendError> {
        let id = utf8_percent_encode(router, NON_ALPHANUMERIC);
        let list = format!("/v2.0/ports?device_id={id}");
        let found: List = client
            .ask("GET ports", Method::GET, &list, None, None)
            .await?;
        let inside = found
            .ports
            .into_iter()
            .filter(|port| port.device_owner != GATEWAY);
        Ok(Self {
            client,
            networks: inside.map(|port| port.network_id).collect(),
        })
    }

    /// Lets the port of the next hop take packets to the destination.
    pub async fn allow(&self, extra: &Extra) -> Result<(), BackendError> {
        self.change(extra, |pairs| {
            let there = pairs.iter().any(|pair| is_for(pair, extra));
            if !there {
                pairs.push(json!({"ip_address": extra.destination}));
            }
            !there
        })
        .await
    }

    pub async fn disallow(&self, extra: &Extra) -> Result<(), BackendError> {
        self.change(extra, |pairs| {
            let before = pairs.len();
            pairs.retain(|pair| !is_for(pair, extra));
            pairs.len() < before
        })
        .await
    }

    /// Skips a next hop without a port (no machine of this cloud) and a port without security (it
    /// takes everything).
    async fn change(
        &self,
        extra: &Extra,
        edit: impl Fn(&mut Vec<Value>) -> bool,
    ) -> Result<(), BackendError> {
        for _ in 0..MAX_CONFLICTS {
            let mut conflict = false;
            for mut port in self.with_address(&extra.nexthop).await? {
                let secured = port.port_security_enabled != Some(false);
                if !secured || !edit(&mut port.allowed_address_pairs) {
                    continue;
                }
                match self.write(&port).await {
                    Err(BackendError {
                        kind: ErrorKind::Conflict,
                        ..
                    }) => conflict = true,
                    written => written?,
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

    async fn with_address(&self, address: &str) -> Result<Vec<Port>, BackendError> {
        let address = utf8_percent_encode(address, NON_ALPHANUMERIC);
        let list = format!("/v2.0/ports?fixed_ips=ip_address%3D{address}");
        let mut found: List = self
            .client
            .ask("GET ports", Method::GET, &list, None, None)
            .await?;
        found
            .ports
            .retain(|port| self.networks.contains(&port.network_id));
        Ok(found.ports)
    }

    async fn write(&self, port: &Port) -> Result<(), BackendError> {
        let path = format!("/v2.0/ports/{}", port.id);
        let body = json!({"port": {"allowed_address_pairs": port.allowed_address_pairs}});
        let revision = port.revision_number;
        let written: Result<Value, _> = self
            .client
            .ask("PUT port", Method::PUT, &path, Some(&body), revision)
            .await;
        written.map(drop)
    }
}

fn is_for(pair: &Value, extra: &Extra) -> bool {
    let address = pair.get("ip_address").and_then(Value::as_str);
    address.is_some_and(|address| parse_cidr(address) == parse_cidr(&extra.destination))
}

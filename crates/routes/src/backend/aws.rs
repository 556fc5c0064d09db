//! AWS: routes to instances in the route tables of a VPC. A small client of our own for the six
//! calls that it takes, signed as AWS wants it.

mod client;
mod credentials;
mod query;
mod settings;
mod sign;
mod xml;

use std::collections::{BTreeMap, BTreeSet};

use berth_addr::{Family, Prefix};
use futures::future::{BoxFuture, join_all};
use parking_lot::Mutex;

use super::{Backend, BackendError, ErrorKind, Limits};
use crate::core::{Change, Hop, HopError, Mark, Node, Route, parse_cidr};
use client::Client;
use xml::Element;

pub use settings::{AwsSettings, SettingsError, Tables};

/// The same number as upstream: AWS itself throttles.
const MAX_CALLS: usize = 200;

#[derive(Debug)]
pub struct Aws {
    client: Client,
    tables: Tables,
    /// The destinations that each table (by id) has routes to: from the last list, with our changes
    /// since.
    found: Mutex<BTreeMap<String, BTreeSet<Prefix>>>,
    /// Instances that were told to forward packets that are not their own.
    forwarding: Mutex<BTreeSet<String>>,
}

/// One route in one table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    hop: Hop,
    active: bool,
}

impl Aws {
    pub fn new(settings: AwsSettings) -> Result<Self, BackendError> {
        Ok(Self {
            tables: settings.tables.clone(),
            client: Client::new(settings)?,
            found: Mutex::default(),
            forwarding: Mutex::default(),
        })
    }

    async fn list_now(&self) -> Result<Vec<Route>, BackendError> {
        let mut entries: BTreeMap<Prefix, Vec<Entry>> = BTreeMap::new();
        let mut tables: BTreeMap<String, BTreeSet<Prefix>> = BTreeMap::new();
        let mut next = None;
        loop {
            let answer = self.describe(next.as_deref()).await?;
            for table in answer.items("routeTableSet") {
                let there = tables
                    .entry(table.text("routeTableId").to_owned())
                    .or_default();
                for route in table.items("routeSet") {
                    if let Some((destination, entry)) = entry(route) {
                        there.insert(destination);
                        entries.entry(destination).or_default().push(entry);
                    }
                }
            }
            match answer.text("nextToken") {
                "" => break,
                token => next = Some(token.to_owned()),
            }
        }
        if tables.is_empty() {
            let message = format!(
                "DescribeRouteTables: there is no route table {}",
                self.tables
            );
            return Err(BackendError::new(ErrorKind::Refused, message));
        }
        let count = tables.len();
        *self.found.lock() = tables;
        let merged = entries.into_iter();
        Ok(merged
            .map(|(destination, entries)| merge(destination, entries, count))
            .collect())
    }

    async fn describe(&self, next: Option<&str>) -> Result<Element, BackendError> {
        let mut parameters = Vec::new();
        match &self.tables {
            Tables::Ids(ids) => {
                for (at, id) in ids.iter().enumerate() {
                    parameters.push((format!("RouteTableId.{}", at + 1), id.clone()));
                }
            }
            Tables::OfCluster(name) => {
                parameters.push(("Filter.1.Name".to_owned(), "tag-key".to_owned()));
                let key = format!("kubernetes.io/cluster/{name}");
                parameters.push(("Filter.1.Value.1".to_owned(), key));
            }
        }
        parameters.extend(next.map(|token| ("NextToken".to_owned(), token.to_owned())));
        self.client.call("DescribeRouteTables", &parameters).await
    }

    async fn change(&self, change: &Change) -> Result<(), BackendError> {
        let tables: Vec<String> = self.found.lock().keys().cloned().collect();
        if let Some(creation) = &change.create {
            self.forward(&creation.hop).await?;
        }
        for table in &tables {
            match &change.create {
                Some(creation) => self.make(table, change, &creation.hop).await?,
                None => self.delete(table, change.destination).await?,
            }
        }
        Ok(())
    }

    fn has(&self, table: &str, destination: Prefix) -> bool {
        let found = self.found.lock();
        found
            .get(table)
            .is_some_and(|there| there.contains(&destination))
    }

    fn set(&self, table: &str, destination: Prefix, there: bool) {
        if let Some(found) = self.found.lock().get_mut(table) {
            if there {
                found.insert(destination);
            } else {
                found.remove(&destination);
            }
        }
    }

    /// A next hop must accept packets that are not addressed to it.
    async fn forward(&self, hop: &Hop) -> Result<(), BackendError> {
        let instance = hop.to_string();
        if self.forwarding.lock().contains(&instance) {
            return Ok(());
        }
        let parameters = [
            ("InstanceId".to_owned(), instance.clone()),
            ("SourceDestCheck.Value".to_owned(), "false".to_owned()),
        ];
        self.client
            .call("ModifyInstanceAttribute", &parameters)
            .await?;
        self.forwarding.lock().insert(instance);
        Ok(())
    }

    /// Replaces a route of ours in one step. With several tables, only some may have the route.
    async fn make(&self, table: &str, change: &Change, hop: &Hop) -> Result<(), BackendError> {
        let destination = change.destination;
        let mut parameters = place(table, destination);
        parameters.push(("InstanceId".to_owned(), hop.to_string()));
        let replaces = !change.delete.is_empty() && self.has(table, destination);
        let action = if replaces {
            "ReplaceRoute"
        } else {
            "CreateRoute"
        };
        self.client.call(action, &parameters).await?;
        self.set(table, destination, true);
        Ok(())
    }

    async fn delete(&self, table: &str, destination: Prefix) -> Result<(), BackendError> {
        match self
            .client
            .call("DeleteRoute", &place(table, destination))
            .await
        {
            Err(error) if query::is_not_there(&error) => {}
            deleted => drop(deleted?),
        }
        self.set(table, destination, false);
        Ok(())
    }
}

fn place(table: &str, destination: Prefix) -> Vec<(String, String)> {
    let key = match destination.family() {
        Family::V4 => "DestinationCidrBlock",
        Family::V6 => "DestinationIpv6CidrBlock",
    };
    vec![
        ("RouteTableId".to_owned(), table.to_owned()),
        (key.to_owned(), destination.to_string()),
    ]
}

/// `None` if the entry is not a route to a CIDR.
fn entry(route: &Element) -> Option<(Prefix, Entry)> {
    let cidr = match route.text("destinationCidrBlock") {
        "" => route.text("destinationIpv6CidrBlock"),
        cidr => cidr,
    };
    let hop = match route.text("instanceId") {
        "" => {
            let other = [
                "networkInterfaceId",
                "gatewayId",
                "natGatewayId",
                "transitGatewayId",
            ];
            let found = other
                .iter()
                .map(|name| route.text(name))
                .find(|id| !id.is_empty());
            Hop::Other(found.unwrap_or("elsewhere").to_owned())
        }
        instance => Hop::Instance(instance.to_owned()),
    };
    let active = route.text("state") != "blackhole";
    Some((parse_cidr(cidr)?, Entry { hop, active }))
}

/// A route is usable only if it is the same in every table.
fn merge(destination: Prefix, entries: Vec<Entry>, tables: usize) -> Route {
    let everywhere =
        entries.len() == tables && entries.windows(2).all(|two| two.first() == two.last());
    let active = entries.iter().all(|entry| entry.active);
    let hop = entries.into_iter().next().map(|entry| entry.hop);
    Route {
        destination,
        hop: hop.unwrap_or_else(|| Hop::Other("elsewhere".to_owned())),
        mark: Mark::Unmarked,
        usable: everywhere && active,
    }
}

impl Backend for Aws {
    fn name(&self) -> &'static str {
        "aws"
    }

    fn limits(&self) -> Limits {
        Limits {
            calls: MAX_CALLS,
            batch: 1,
        }
    }

    /// AWS marks tables, not routes.
    fn mark(&self) -> Mark {
        Mark::Unmarked
    }

    fn hop(&self, node: &Node, _: Prefix) -> Result<Hop, HopError> {
        let instance = node.instance().filter(|name| name.starts_with("i-"));
        let instance = instance.map(|name| Hop::Instance(name.to_owned()));
        instance.ok_or_else(|| HopError::NoInstance {
            node: node.name.clone(),
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Route>, BackendError>> {
        Box::pin(self.list_now())
    }

    fn apply<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Vec<Result<(), BackendError>>> {
        Box::pin(join_all(changes.iter().map(|change| self.change(change))))
    }
}

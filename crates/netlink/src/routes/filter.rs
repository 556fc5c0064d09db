//! Which routes to list.

use std::fmt;

use berth_addr::{Family, Prefix};
use netlink_packet_route::route::{RouteAttribute, RouteMessage};

use super::{Protocol, set_table};
use crate::addresses::address_family;

/// Which routes to list: those that match all fields that are set. The kernel leaves out the
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteFilter {
    /// Those of one family; otherwise of both.
    pub family: Option<Family>,
    /// Those in one table.
    pub table: Option<u32>,
    /// Those of one protocol.
    pub protocol: Option<Protocol>,
    /// Those through one link, by its index.
    pub link: Option<u32>,
}

impl RouteFilter {
    pub(super) fn families(&self) -> impl Iterator<Item = Family> + use<> {
        let wanted = self.family;
        [Family::V4, Family::V6]
            .into_iter()
            .filter(move |family| wanted.is_none_or(|wanted| wanted == *family))
    }

    pub(super) fn message(&self, family: Family) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header.address_family = address_family(Prefix::all(family).first());
        if let Some(protocol) = self.protocol {
            message.header.protocol = protocol.0.into();
        }
        if let Some(table) = self.table {
            set_table(&mut message, table);
        }
        message
            .attributes
            .extend(self.link.map(RouteAttribute::Oif));
        message
    }
}

impl fmt::Display for RouteFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.family {
            None => write!(f, "both families")?,
            Some(family) => write!(f, "{family}")?,
        }
        for (name, value) in [
            ("table", self.table),
            ("protocol", self.protocol.map(|protocol| protocol.0.into())),
            ("link", self.link),
        ] {
            if let Some(value) = value {
                write!(f, ", {name} {value}")?;
            }
        }
        Ok(())
    }
}

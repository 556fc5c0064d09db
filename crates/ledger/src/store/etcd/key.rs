//! Where blocks are in etcd: `<prefix>/blocks/<subnet>/<name>`. A subnet's name is a DNS name, so
//! it has no slash.

use std::sync::Arc;

use super::wire::KeyValue;
use crate::record::BlockKey;
use crate::store::codec::{self, Unreadable};
use crate::store::{Stored, Version, name};

/// The keys from `start` up to, but not including, `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: Vec<u8>,
    pub end: Vec<u8>,
}

impl Span {
    /// All keys that begin with `directory`. It ends with a slash, so its last byte can be counted
    /// up.
    fn below(directory: &str) -> Self {
        let start = directory.as_bytes().to_vec();
        let mut end = start.clone();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Self { start, end }
    }

    /// The rest of the span behind a key.
    pub fn after(mut self, mut key: Vec<u8>) -> Self {
        key.push(0);
        self.start = key;
        self
    }

    /// The rest of the span behind another span.
    pub fn beyond(mut self, passed: Self) -> Self {
        self.start = passed.end;
        self
    }
}

/// Something under the ledger's prefix that is not a block.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the key {key} is not a block's: remove it, or use another prefix")]
    Key { key: String },
    #[error("the block {key} can't be read: {why}; {}", why.fix())]
    Value { key: String, why: Unreadable },
}

/// The keys of one ledger.
#[derive(Clone, Debug)]
pub struct Keys {
    /// `<prefix>/blocks/`
    blocks: String,
}

impl Keys {
    pub fn new(prefix: &str) -> Self {
        let blocks = format!("{}/blocks/", prefix.trim_end_matches('/'));
        Self { blocks }
    }

    pub fn of(&self, key: &BlockKey) -> Vec<u8> {
        format!("{}{}/{}", self.blocks, key.subnet, name::of_block(key.first)).into_bytes()
    }

    pub fn all(&self) -> Span {
        Span::below(&self.blocks)
    }

    pub fn of_subnet(&self, subnet: &str) -> Span {
        Span::below(&format!("{}{subnet}/", self.blocks))
    }

    /// The subnet of a block's key, and the block's name.
    pub fn parts<'a>(&self, key: &'a [u8]) -> Result<(&'a str, &'a str), KeyError> {
        let path = std::str::from_utf8(key)
            .ok()
            .and_then(|key| key.strip_prefix(&self.blocks));
        path.and_then(|path| path.split_once('/'))
            .ok_or_else(|| KeyError::Key { key: shown(key) })
    }

    pub fn read(&self, entry: &KeyValue) -> Result<Stored, KeyError> {
        let fault = |why| KeyError::Value {
            key: shown(&entry.key),
            why,
        };
        let (subnet, name) = self.parts(&entry.key)?;
        let (first, record) = codec::decode(&entry.value).map_err(fault)?;
        if name::of_block(first) != name {
            return Err(fault(Unreadable::Content {
                what: "the first unit",
            }));
        }
        Ok(Stored {
            key: BlockKey {
                subnet: subnet.to_owned(),
                first,
            },
            version: Version(entry.mod_revision.unsigned_abs()),
            record: Arc::new(record),
        })
    }
}

fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_is_not_mixed_up_with_one_whose_name_goes_on() {
        let keys = Keys::new("/berth/");
        let key = |subnet: &str| BlockKey {
            subnet: subnet.to_owned(),
            first: "10.64.1.0/32".parse().unwrap(),
        };
        assert_eq!(keys.of(&key("pods")), b"/berth/blocks/pods/10.64.1.0");
        let Span { start, end } = keys.of_subnet("pods");
        let holds = |subnet: &str| (&start..&end).contains(&&keys.of(&key(subnet)));
        assert!(holds("pods"));
        assert!(!holds("pods-2") && !holds("pod") && !holds("pods.a"));
        assert_eq!(keys.parts(&keys.of(&key("pods-2"))).unwrap(), ("pods-2", "10.64.1.0"));
    }

    #[test]
    fn what_is_no_block_is_named() {
        let keys = Keys::new("berth");
        assert_eq!(
            keys.parts(b"berth/blocks/pods").unwrap_err().to_string(),
            "the key berth/blocks/pods is not a block's: remove it, or use another prefix"
        );
        let entry = KeyValue {
            key: b"berth/blocks/pods/10.64.1.0".to_vec(),
            mod_revision: 5,
            value: Vec::new(),
        };
        let error = keys.read(&entry).unwrap_err().to_string();
        assert!(error.contains("the block berth/blocks/pods/10.64.1.0"), "{error}");
    }
}

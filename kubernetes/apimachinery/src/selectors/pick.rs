//! Reads a few values out of a JSON object without parsing the rest into memory.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A tree of paths to read. Each path has a slot for its value.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    root: Node,
    slots: usize,
}

#[derive(Clone, Debug, Default)]
struct Node {
    slot: Option<usize>,
    children: Vec<(String, Node)>,
}

impl Wanted {
    /// The slot of this path. A path that is added again keeps its slot.
    pub fn add(&mut self, path: &[impl AsRef<str>]) -> usize {
        let mut node = &mut self.root;
        for step in path {
            let step = step.as_ref();
            let index =
                node.children
                    .iter()
                    .position(|(name, _)| name == step)
                    .unwrap_or_else(|| {
                        node.children.push((step.to_owned(), Node::default()));
                        node.children.len() - 1
                    });
            node = &mut node.children[index].1;
        }
        *node.slot.get_or_insert_with(|| {
            self.slots += 1;
            self.slots - 1
        })
    }

    /// The values at the wanted paths.
    pub fn find<'a>(&self, json: &'a [u8]) -> Found<'a> {
        let mut found = Found(vec![None; self.slots]);
        let mut text = serde_json::Deserializer::from_slice(json);
        // An error only ends the reading early. The values read before it stay.
        let walk = Walk {
            node: &self.root,
            found: &mut found,
            last: true,
        };
        let _ = walk.deserialize(&mut text);
        found
    }
}

/// Values by slot. Numbers and booleans are text; lists, objects and null count as no value.
#[derive(Debug)]
pub struct Found<'a>(Vec<Option<Cow<'a, str>>>);

impl Found<'_> {
    pub fn get(&self, slot: usize) -> Option<&str> {
        self.0.get(slot)?.as_deref()
    }
}

struct Walk<'n, 'f, 'a> {
    node: &'n Node,
    found: &'f mut Found<'a>,
    /// Whether nothing after this node is wanted.
    last: bool,
}

impl<'a> Walk<'_, '_, 'a> {
    fn put<E: Error>(self, value: Cow<'a, str>) -> Result<(), E> {
        if let Some(place) = self.node.slot.and_then(|slot| self.found.0.get_mut(slot)) {
            *place = Some(value);
        }
        Ok(())
    }
}

impl<'a> DeserializeSeed<'a> for Walk<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, text: D) -> Result<(), D::Error> {
        text.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Walk<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let mut left = self.node.children.len();
        while let Some(key) = map.next_key::<Key<'a>>()? {
            let Some((_, node)) = self.node.children.iter().find(|(name, _)| *name == key.0) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            left = left.saturating_sub(1);
            let last = self.last && left == 0;
            map.next_value_seed(Walk {
                node,
                found: self.found,
                last,
            })?;
            if last {
                return Err(A::Error::custom("the rest is not wanted"));
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_borrowed_str<E: Error>(self, value: &'a str) -> Result<(), E> {
        self.put(Cow::Borrowed(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.put(Cow::Owned(value.to_owned()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.put(Cow::Borrowed(if value { "true" } else { "false" }))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.put(Cow::Owned(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.put(Cow::Owned(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.put(Cow::Owned(value.to_string()))
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_at_their_paths_and_read_as_text() {
        let mut wanted = Wanted::default();
        let name = wanted.add(&["metadata", "name"]);
        let phase = wanted.add(&["status", "phase"]);
        let count = wanted.add(&["status", "count"]);
        let flag = wanted.add(&["spec", "on"]);
        let list = wanted.add(&["spec", "list"]);
        let found = wanted.find(
            br#"{"metadata":{"x":[1,{"name":"no"}],"name":"a\"b"},"spec":{"on":true,"list":[1]},"status":{"count":-3}}"#,
        );
        assert_eq!(found.get(name), Some("a\"b"));
        assert_eq!(found.get(phase), None);
        assert_eq!(found.get(count), Some("-3"));
        assert_eq!(found.get(flag), Some("true"));
        assert_eq!(found.get(list), None);
    }

    #[test]
    fn reading_stops_once_all_is_found() {
        let mut wanted = Wanted::default();
        let name = wanted.add(&["metadata", "name"]);
        let found = wanted.find(br#"{"metadata":{"name":"a"},this is never read"#);
        assert_eq!(found.get(name), Some("a"));
    }

    #[test]
    fn reading_stops_once_what_is_missing_cannot_come_any_more() {
        let mut wanted = Wanted::default();
        let label = wanted.add(&["metadata", "labels", "app"]);
        let name = wanted.add(&["metadata", "name"]);
        let found =
            wanted.find(br#"{"metadata":{"labels":{"x":"y"},"name":"a"},this is never read"#);
        assert_eq!((found.get(label), found.get(name)), (None, Some("a")));
    }

    #[test]
    fn one_path_has_one_slot() {
        let mut wanted = Wanted::default();
        assert_eq!(wanted.add(&["a", "b"]), wanted.add(&["a", "b"]));
        assert_ne!(wanted.add(&["a"]), wanted.add(&["a", "b"]));
    }
}

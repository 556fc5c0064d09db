//! Parses JSON and reports duplicate fields. The last one counts, as in Go.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::trail::Trail;

/// The value, and the paths of duplicate fields.
pub fn parse_json(bytes: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let seed = Seed {
        at: Trail::Root,
        duplicates: &mut duplicates,
    };
    let value = seed.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, duplicates))
}

struct Seed<'a> {
    at: Trail<'a>,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Value, E> {
        let number = Number::from_f64(number).ok_or_else(|| E::custom("number out of range"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let at = Trail::Index(&self.at, list.len());
            let seed = Seed {
                at,
                duplicates: &mut *self.duplicates,
            };
            match items.next_element_seed(seed)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let at = Trail::Field(&self.at, &name);
            if map.contains_key(&name) {
                self.duplicates.push(at.to_string());
            }
            let seed = Seed {
                at,
                duplicates: &mut *self.duplicates,
            };
            let value = entries.next_value_seed(seed)?;
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

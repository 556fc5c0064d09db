//! Counts of addresses. An IPv6 subnet can have more than a JSON number holds exactly.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// On the wire it is a number up to 53 bits, which every JSON reader can hold, and beyond that a
/// string of digits. Either form is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(pub u128);

const LARGEST_NUMBER: u64 = (1 << 53) - 1;

impl From<u128> for Count {
    fn from(count: u128) -> Self {
        Self(count)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match u64::try_from(self.0) {
            Ok(number) if number <= LARGEST_NUMBER => serializer.serialize_u64(number),
            _ => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrDigits)
    }
}

struct NumberOrDigits;

impl Visitor<'_> for NumberOrDigits {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number from 0 to 2^128 - 1, as a number or as a string")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Count, E> {
        Ok(Count(number.into()))
    }

    fn visit_str<E: Error>(self, digits: &str) -> Result<Count, E> {
        digits
            .parse()
            .map(Count)
            .map_err(|_| E::custom(format_args!("{digits:?} is not a number from 0 to 2^128 - 1")))
    }
}

impl JsonSchema for Count {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-int-or-string": true})
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn is_a_number_up_to_53_bits_and_a_string_beyond() {
        for (count, wire) in [
            (0, json!(0)),
            (65_533, json!(65_533)),
            ((1 << 53) - 1, json!(9_007_199_254_740_991_u64)),
            (1 << 53, json!("9007199254740992")),
            (1 << 64, json!("18446744073709551616")),
            (u128::MAX, json!("340282366920938463463374607431768211455")),
        ] {
            assert_eq!(serde_json::to_value(Count(count)).unwrap(), wire);
            assert_eq!(serde_json::from_value::<Count>(wire).unwrap(), Count(count));
        }
    }

    #[test]
    fn what_is_no_count_is_refused() {
        for wire in [json!(-1), json!(1.5), json!("many"), json!("-1"), json!(null)] {
            assert!(serde_json::from_value::<Count>(wire.clone()).is_err(), "{wire}");
        }
    }
}

//! Scalars: type, range, and the canonical form of a value.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Number, Value};

use super::{go, quantity};
use crate::shape::Scalar;

pub(super) fn decode(
    value: &mut Value,
    kind: Scalar,
    mismatch: impl Fn(&Value, &str) -> String,
) -> Result<(), String> {
    let name = go::scalar_name(kind);
    match (kind, &mut *value) {
        (Scalar::Raw, _) => Ok(()),
        (Scalar::Quantity, _) => {
            let text = match &*value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            *value = quantity::canonical(&text)?.into();
            Ok(())
        }
        (Scalar::String | Scalar::IntOrString, Value::String(_))
        | (Scalar::Bool, Value::Bool(_)) => Ok(()),
        (Scalar::Int32 | Scalar::IntOrString, Value::Number(number)) if fits_i32(number) => Ok(()),
        (Scalar::Int64, Value::Number(number)) if number.is_i64() => Ok(()),
        (Scalar::Float, Value::Number(_)) => Ok(()),
        (Scalar::Bytes, Value::String(text)) => bytes(text),
        (Scalar::Time, Value::String(text)) => time(text),
        (Scalar::MicroTime, Value::String(text)) => micro_time(text),
        (Scalar::Duration, Value::String(text)) if !crate::duration::is_go(text) => {
            Err(format!("time: invalid duration {text:?}"))
        }
        (Scalar::Duration, Value::String(_)) => Ok(()),
        _ => Err(mismatch(value, name)),
    }
}

fn fits_i32(number: &Number) -> bool {
    number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

/// Line breaks are allowed, and removed.
fn bytes(text: &mut String) -> Result<(), String> {
    text.retain(|c| c != '\n' && c != '\r');
    match STANDARD.decode(text.as_bytes()) {
        Ok(_) => Ok(()),
        Err(base64::DecodeError::InvalidByte(at, _)) => {
            Err(format!("illegal base64 data at input byte {at}"))
        }
        Err(_) => Err(format!("illegal base64 data at input byte {}", text.len() / 4 * 4)),
    }
}

/// In UTC, to the second.
fn time(text: &mut String) -> Result<(), String> {
    let layout = "2006-01-02T15:04:05Z07:00";
    let parsed = parse_time(text).ok_or_else(|| bad_time(text, layout, text, "2006"))?;
    *text = parsed.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Ok(())
}

/// In UTC, with exactly six digits of a second.
fn micro_time(text: &mut String) -> Result<(), String> {
    let layout = "2006-01-02T15:04:05.000000Z07:00";
    let parsed = parse_time(text).ok_or_else(|| bad_time(text, layout, text, "2006"))?;
    // In RFC 3339, a fraction comes after 19 characters.
    let rest = text.get(19..).unwrap_or_default();
    let digits = rest.bytes().skip(1).take_while(u8::is_ascii_digit).count();
    if !rest.starts_with('.') || digits < 6 {
        return Err(bad_time(text, layout, rest, ".000000"));
    }
    if digits > 6 {
        return Err(bad_time(text, layout, &rest[7..], "Z07:00"));
    }
    *text = parsed.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    Ok(())
}

fn parse_time(text: &str) -> Option<Timestamp> {
    // The parser accepts more forms than RFC 3339.
    let plain = text.as_bytes().get(10) == Some(&b'T') && !text.contains('[');
    text.parse().ok().filter(|_| plain)
}

fn bad_time(text: &str, layout: &str, rest: &str, part: &str) -> String {
    format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {part:?}")
}

//! Values that are scalars in JSON: plain numbers and strings, and messages that Kubernetes writes
//! as a string or number.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::error::{DecodeError, ProtobufErrorKind};
use super::wire::{Reader, Wire};
use crate::shape::Scalar;

/// The JSON of a scalar. `Null` for a time or raw JSON that was never set.
pub fn decode(scalar: Scalar, wire: Wire<'_>) -> Result<Value, DecodeError> {
    match scalar {
        Scalar::String => Ok(text(wire)?.into()),
        Scalar::Bool => Ok((varint(wire)? != 0).into()),
        Scalar::Int32 => Ok(int32(wire)?.into()),
        Scalar::Int64 => Ok(varint(wire)?.cast_signed().into()),
        Scalar::Float => float(wire),
        Scalar::Bytes => Ok(STANDARD.encode(bytes(wire)?).into()),
        Scalar::Time => time(bytes(wire)?, "%Y-%m-%dT%H:%M:%SZ"),
        Scalar::MicroTime => time(bytes(wire)?, "%Y-%m-%dT%H:%M:%S%.6fZ"),
        Scalar::Duration => duration(bytes(wire)?),
        Scalar::Quantity => quantity(bytes(wire)?),
        Scalar::IntOrString => int_or_string(bytes(wire)?),
        Scalar::Raw => raw(bytes(wire)?),
    }
}

/// The value of a field that is not on the wire.
pub fn zero(scalar: Scalar) -> Value {
    match scalar {
        Scalar::String | Scalar::Bytes => "".into(),
        Scalar::Bool => false.into(),
        Scalar::Int32 | Scalar::Int64 | Scalar::Float | Scalar::IntOrString => 0.into(),
        Scalar::Time | Scalar::MicroTime | Scalar::Raw => Value::Null,
        Scalar::Duration => "0s".into(),
        Scalar::Quantity => "0".into(),
    }
}

/// Whether a list of these scalars may be packed: many in one value.
pub fn is_packable(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::Bool | Scalar::Int32 | Scalar::Int64)
}

pub fn bytes(wire: Wire<'_>) -> Result<&[u8], ProtobufErrorKind> {
    match wire {
        Wire::Bytes(bytes) => Ok(bytes),
        _ => Err(ProtobufErrorKind::Unexpected),
    }
}

pub fn text(wire: Wire<'_>) -> Result<&str, ProtobufErrorKind> {
    str::from_utf8(bytes(wire)?).map_err(|_| ProtobufErrorKind::Utf8)
}

fn varint(wire: Wire<'_>) -> Result<u64, ProtobufErrorKind> {
    match wire {
        Wire::Varint(value) => Ok(value),
        _ => Err(ProtobufErrorKind::Unexpected),
    }
}

fn int32(wire: Wire<'_>) -> Result<i32, ProtobufErrorKind> {
    i32::try_from(varint(wire)?.cast_signed()).map_err(|_| ProtobufErrorKind::Range)
}

fn float(wire: Wire<'_>) -> Result<Value, DecodeError> {
    let Wire::Fixed64(bits) = wire else {
        return Err(ProtobufErrorKind::Unexpected.into());
    };
    let number = serde_json::Number::from_f64(f64::from_bits(bits));
    Ok(Value::Number(number.ok_or(ProtobufErrorKind::Range)?))
}

fn time(message: &[u8], format: &str) -> Result<Value, DecodeError> {
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(message);
    while let Some((number, wire)) = reader.field()? {
        match number {
            1 => seconds = varint(wire)?.cast_signed(),
            2 => nanos = int32(wire)?,
            _ => {}
        }
    }
    let time = jiff::Timestamp::new(seconds, nanos).map_err(|_| ProtobufErrorKind::Range)?;
    Ok(time.strftime(format).to_string().into())
}

fn duration(message: &[u8]) -> Result<Value, DecodeError> {
    let mut nanos = 0;
    let mut reader = Reader::new(message);
    while let Some((number, wire)) = reader.field()? {
        if number == 1 {
            nanos = varint(wire)?.cast_signed();
        }
    }
    Ok(print_duration(nanos).into())
}

/// As Go prints it: `1h0m0.5s`, but `1.5ms` under a second.
fn print_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let rest = nanos.unsigned_abs();
    let (unit, name) = match rest {
        0 => (1, "s"),
        1..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let (whole, part) = (rest / unit, rest % unit);
    let larger = match (whole, name) {
        (3600.., "s") => format!("{}h{}m", whole / 3600, whole / 60 % 60),
        (60.., "s") => format!("{}m", whole / 60),
        _ => String::new(),
    };
    let whole = if larger.is_empty() { whole } else { whole % 60 };
    let fraction = if part == 0 {
        String::new()
    } else {
        let width = unit.ilog10() as usize;
        let digits = format!(".{part:0width$}");
        digits.trim_end_matches('0').to_owned()
    };
    format!("{sign}{larger}{whole}{fraction}{name}")
}

fn quantity(message: &[u8]) -> Result<Value, DecodeError> {
    let mut quantity = "0";
    let mut reader = Reader::new(message);
    while let Some((number, wire)) = reader.field()? {
        if number == 1 {
            quantity = text(wire)?;
        }
    }
    Ok(quantity.into())
}

fn int_or_string(message: &[u8]) -> Result<Value, DecodeError> {
    let (mut is_string, mut number, mut string) = (false, 0, "");
    let mut reader = Reader::new(message);
    while let Some((field, wire)) = reader.field()? {
        match field {
            1 => is_string = varint(wire)? != 0,
            2 => number = int32(wire)?,
            3 => string = text(wire)?,
            _ => {}
        }
    }
    Ok(if is_string { string.into() } else { number.into() })
}

fn raw(message: &[u8]) -> Result<Value, DecodeError> {
    let mut json: &[u8] = b"null";
    let mut reader = Reader::new(message);
    while let Some((number, wire)) = reader.field()? {
        if number == 1 {
            json = bytes(wire)?;
        }
    }
    Ok(serde_json::from_slice(json).map_err(ProtobufErrorKind::Json)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_duration_is_printed_as_go_does() {
        for (nanos, printed) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (60_000_000_000, "1m0s"),
            (245_000_000_000, "4m5s"),
            (245_001_000_000, "4m5.001s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (3_600_000_000_000, "1h0m0s"),
            (-1_500_000, "-1.5ms"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(print_duration(nanos), printed);
        }
    }

    #[test]
    fn times_are_rfc_3339_and_an_empty_one_is_null() {
        let at = Wire::Bytes(&[0x08, 0x80, 0xe2, 0xcf, 0xaa, 0x06, 0x10, 0xb9, 0x60]);
        let time = |scalar, wire| decode(scalar, wire).unwrap();
        assert_eq!(time(Scalar::Time, at), json!("2023-11-14T22:13:20Z"));
        assert_eq!(time(Scalar::MicroTime, at), json!("2023-11-14T22:13:20.000012Z"));
        assert_eq!(time(Scalar::Time, Wire::Bytes(&[])), Value::Null);
    }

    #[test]
    fn a_time_beyond_the_calendar_is_refused() {
        let mut message = vec![0x08];
        message.extend([0xff; 8]);
        message.push(0x7f);
        let error = decode(Scalar::Time, Wire::Bytes(&message)).unwrap_err();
        assert!(matches!(error.problem, ProtobufErrorKind::Range));
    }

    #[test]
    fn negative_numbers_keep_their_sign() {
        assert_eq!(decode(Scalar::Int32, Wire::Varint(u64::MAX)).unwrap(), json!(-1));
        assert_eq!(decode(Scalar::Int64, Wire::Varint(1 << 63)).unwrap(), json!(i64::MIN));
        let error = decode(Scalar::Int32, Wire::Varint(1 << 31)).unwrap_err();
        assert!(matches!(error.problem, ProtobufErrorKind::Range));
    }

    #[test]
    fn a_float_that_json_can_not_show_is_refused() {
        let float = |value: f64| decode(Scalar::Float, Wire::Fixed64(value.to_bits()));
        assert_eq!(float(1.5).unwrap(), json!(1.5));
        assert!(float(f64::NAN).is_err());
    }
}

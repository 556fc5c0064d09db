//! The string formats that definitions use. An unknown format is ignored. Number formats are
//! ranges, see `number`.

use std::net::{IpAddr, Ipv6Addr};

use super::types::Type;
use crate::duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// The name in the schema, for messages.
    pub(super) name: String,
    pub(super) kind: Known,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Date,
    DateTime,
    Duration,
    Byte,
    Ipv4,
    Ipv6,
    Cidr,
    Uri,
    Uuid,
    Int32,
    Int64,
    Float,
    Double,
}

impl Format {
    pub(super) fn new(name: &str, kind: Type) -> Option<Self> {
        let known = match kind {
            Type::Integer => match name {
                "int32" => Known::Int32,
                "int64" => Known::Int64,
                _ => return None,
            },
            Type::Number => match name {
                "float" => Known::Float,
                "double" => Known::Double,
                _ => return None,
            },
            Type::String | Type::Any | Type::IntOrString => text_format(name)?,
            _ => return None,
        };
        Some(Self {
            name: name.to_owned(),
            kind: known,
        })
    }

    pub(super) fn accepts(&self, text: &str) -> bool {
        match self.kind {
            Known::Date => is_date(text),
            Known::DateTime => is_date_time(text),
            Known::Duration => duration::is_go(text),
            Known::Byte => is_base64(text),
            Known::Ipv4 => lenient_ip(text).is_some() && text.contains('.'),
            Known::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Known::Cidr => is_cidr(text),
            Known::Uri => is_uri(text),
            Known::Uuid => is_uuid(text),
            Known::Int32 | Known::Int64 | Known::Float | Known::Double => true,
        }
    }
}

fn text_format(name: &str) -> Option<Known> {
    Some(match name.replace('-', "").as_str() {
        "date" => Known::Date,
        "datetime" => Known::DateTime,
        "duration" => Known::Duration,
        "byte" => Known::Byte,
        "ipv4" => Known::Ipv4,
        "ipv6" => Known::Ipv6,
        "cidr" => Known::Cidr,
        "uri" => Known::Uri,
        "uuid" => Known::Uuid,
        _ => return None,
    })
}

fn digits(text: &str, count: usize) -> bool {
    text.len() == count && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else {
        return false;
    };
    let (Ok(y), Ok(m), Ok(d)) = (year.parse(), month.parse(), day.parse()) else {
        return false;
    };
    digits(year, 4) && digits(month, 2) && digits(day, 2) && jiff::civil::Date::new(y, m, d).is_ok()
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else {
        return false;
    };
    let (clock, zone) = match time.strip_suffix(['Z', 'z']) {
        Some(clock) => (clock, None),
        None => match time.rfind(['+', '-']) {
            Some(at) => (&time[..at], Some(&time[at + 1..])),
            None => return false,
        },
    };
    let (clock, fraction) = clock.split_once('.').map_or((clock, "0"), |(c, f)| (c, f));
    let parts: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = parts.as_slice() else {
        return false;
    };
    let zone_ok = zone
        .is_none_or(|zone| zone.split_once(':').is_some_and(|(h, m)| digits(h, 2) && digits(m, 2)));
    is_date(date)
        && zone_ok
        && !fraction.is_empty()
        && digits(fraction, fraction.len())
        && [(hours, "23"), (minutes, "59"), (seconds, "59")]
            .into_iter()
            .all(|(part, limit)| digits(part, 2) && *part <= limit)
}

fn is_base64(text: &str) -> bool {
    use base64::Engine as _;
    !text.is_empty() && base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

/// Accepts leading zeroes in IPv4, as these formats have always done.
fn lenient_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let trimmed: Vec<&str> = text
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            rest => rest,
        })
        .collect();
    trimmed.join(".").parse().ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let limit = match lenient_ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    (1..=3).contains(&length.len())
        && digits(length, length.len())
        && length.parse::<u8>().is_ok_and(|length| length <= limit)
}

/// The target of an HTTP request line: an absolute path or an absolute URI.
fn is_uri(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let absolute = text.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme));
    let printable = !text.chars().any(|c| c.is_ascii_control() || c == ' ');
    printable && (absolute || text.starts_with('/'))
}

fn is_uuid(text: &str) -> bool {
    let mut groups = text.split('-').map(str::len);
    let widths = [8, 4, 4, 4, 12];
    widths.iter().all(|width| groups.next() == Some(*width))
        && groups.next().is_none()
        && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse_as_kube_apiserver_does() {
        let table = [
            ("date", "2026-02-28", "2026-02-30"),
            ("date-time", "2026-02-28T23:59:59.5+02:00", "2026-02-28 23:59:59Z"),
            ("date-time", "2026-02-28t00:00:00z", "2026-02-28T24:00:00Z"),
            ("duration", "1h30m", "1x"),
            ("duration", "-1.5s", ""),
            ("byte", "YWJj", "YWJ"),
            ("ipv4", "010.0.0.1", "::1"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.1/8", "10.0.0.0/33"),
            ("cidr", "fd00::/64", "fd00::"),
            ("uri", "https://example.com/a%20b", "example.com"),
            ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99"),
        ];
        for (name, good, bad) in table {
            let format = Format::new(name, Type::String).unwrap();
            assert!(format.accepts(good), "{name} refuses {good:?}");
            assert!(!format.accepts(bad), "{name} accepts {bad:?}");
        }
    }

    #[test]
    fn a_format_that_does_not_fit_the_type_is_no_format() {
        assert_eq!(Format::new("int32", Type::String), None);
        assert_eq!(Format::new("date", Type::Integer), None);
        assert_eq!(Format::new("semver", Type::String), None);
    }
}

//! The string formats that kube-apiserver checks. An unknown format is no format; number formats are ranges, see `number`.
//!
//! Of the formats it knows, bank cards, book numbers, colours, social security and BSON ids are taken as they are.

use std::net::{IpAddr, Ipv6Addr};

use super::types::Type;
use crate::duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// As the schema writes it, for messages.
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
    Mac,
    Email,
    Hostname,
    Uri,
    Uuid(Option<char>),
    ShortName,
    LongName,
    /// Known by name; every string is one.
    Opaque,
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
            Known::Duration => is_duration(text),
            Known::Byte => is_base64(text),
            Known::Ipv4 => sloppy_ip(text).is_some() && text.contains('.'),
            Known::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Known::Cidr => is_cidr(text),
            Known::Mac => is_mac(text),
            Known::Email => is_email(text),
            Known::Hostname => is_hostname(text),
            Known::Uri => is_request_uri(text),
            Known::Uuid(version) => is_uuid(text, version),
            Known::ShortName => is_name(text, 63) && !text.contains('.'),
            Known::LongName => is_name(text, 253),
            Known::Opaque | Known::Int32 | Known::Int64 | Known::Float | Known::Double => true,
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
        "mac" => Known::Mac,
        "email" => Known::Email,
        "hostname" => Known::Hostname,
        "uri" => Known::Uri,
        "uuid" => Known::Uuid(None),
        "uuid3" => Known::Uuid(Some('3')),
        "uuid4" => Known::Uuid(Some('4')),
        "uuid5" => Known::Uuid(Some('5')),
        "k8sshortname" => Known::ShortName,
        "k8slongname" => Known::LongName,
        "password" | "bsonobjectid" | "isbn" | "isbn10" | "isbn13" | "creditcard" | "ssn" | "hexcolor" | "rgbcolor" => {
            Known::Opaque
        }
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
    let zone_ok = zone.is_none_or(|zone| zone.split_once(':').is_some_and(|(h, m)| digits(h, 2) && digits(m, 2)));
    is_date(date)
        && zone_ok
        && !fraction.is_empty()
        && digits(fraction, fraction.len())
        && [(hours, "23"), (minutes, "59"), (seconds, "59")]
            .into_iter()
            .all(|(part, most)| digits(part, 2) && *part <= most)
}

/// Go's notation (`1h30m`, `-1.5s`), or words (`3 days`).
fn is_duration(text: &str) -> bool {
    duration::is_go(text) || worded_duration(text)
}

fn worded_duration(text: &str) -> bool {
    const EXACT: [&str; 14] = [
        "ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk", "sec", "min", "day",
    ];
    const STEMS: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    let Some(at) = text.find(|c: char| c.is_ascii_digit()) else {
        return false;
    };
    let after = text[at..].trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let unit: String = after.chars().take_while(|c| c.is_alphabetic()).collect();
    let unit = unit.to_lowercase();
    EXACT.contains(&unit.as_str()) || STEMS.iter().any(|stem| unit.starts_with(stem))
}

fn is_base64(text: &str) -> bool {
    use base64::Engine as _;
    !text.is_empty() && base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

/// Leading zeroes in IPv4 are tolerated, as they were when these formats were introduced.
fn sloppy_ip(text: &str) -> Option<IpAddr> {
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
    let most = match sloppy_ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    (1..=3).contains(&length.len())
        && digits(length, length.len())
        && length.parse::<u8>().is_ok_and(|length| length <= most)
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, width: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len())
            && parts
                .iter()
                .all(|part| part.len() == width && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}

/// `user@host`, or a name before it in angle brackets.
fn is_email(text: &str) -> bool {
    let address = match text.rsplit_once('<') {
        Some((_, rest)) => match rest.strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text,
    };
    let word = |text: &str| {
        !text.is_empty()
            && text.split('.').all(|atom| {
                !atom.is_empty()
                    && atom
                        .chars()
                        .all(|c| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c))
            })
    };
    address
        .rsplit_once('@')
        .is_some_and(|(user, host)| word(user) && word(host))
}

fn is_hostname(text: &str) -> bool {
    let labels: Vec<&str> = text.split('.').collect();
    let inner = |c: char| c.is_alphanumeric() || (!c.is_ascii() && !c.is_whitespace());
    let label_ok = |label: &&str| {
        (1..=63).contains(&label.len())
            && label.starts_with(inner)
            && label.ends_with(inner)
            && label.chars().all(|c| inner(c) || c == '-')
    };
    let top_ok = match labels.as_slice() {
        [_] => true,
        [.., top] => top.chars().count() >= 2 && top.chars().all(char::is_alphabetic),
        [] => false,
    };
    text.len() <= 255 && top_ok && labels.iter().all(label_ok)
}

/// What an HTTP request line may carry: an absolute path or an absolute URI.
pub(crate) fn is_request_uri(text: &str) -> bool {
    let escapes_ok = text
        .split('%')
        .skip(1)
        .all(|after| after.len() >= 2 && after.bytes().take(2).all(|b| b.is_ascii_hexdigit()));
    if text.is_empty() || text.chars().any(|c| c.is_ascii_control() || c == ' ') || !escapes_ok {
        return false;
    }
    match scheme(text) {
        Some((_, rest)) => rest.strip_prefix("//").is_none_or(is_authority),
        None => text.starts_with('/') || text == "*",
    }
}

/// What stands between `//` and the path: a host, and a port in digits.
fn is_authority(text: &str) -> bool {
    let authority = text.split(['/', '?']).next().unwrap_or_default();
    let after_address = authority.rsplit(']').next().unwrap_or_default();
    let port = after_address.rsplit_once(':').map_or("", |(_, port)| port);
    !authority.contains('#') && digits(port, port.len())
}

/// The scheme and what follows its colon.
pub(crate) fn scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let letters = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    letters.then_some((scheme, rest))
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    let mut groups = [""; 5];
    for (group, width) in groups.iter_mut().zip([8, 4, 4, 4, 12]) {
        let after_dash = if width == 8 {
            rest
        } else {
            rest.strip_prefix('-').unwrap_or(rest)
        };
        let Some((taken, after)) = after_dash.split_at_checked(width) else {
            return false;
        };
        if !taken.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        *group = taken;
        rest = after;
    }
    let variant_ok = groups[3].starts_with(['8', '9', 'a', 'b', 'A', 'B']);
    rest.is_empty() && version.is_none_or(|version| groups[2].starts_with(version) && (version == '3' || variant_ok))
}

/// Segments of lower-case letters, digits and dashes, parted by dots.
fn is_name(text: &str, most: usize) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= most
        && text.split('.').all(|segment| {
            segment.starts_with(edge) && segment.ends_with(edge) && segment.chars().all(|c| edge(c) || c == '-')
        })
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
            ("duration", "3 days", "h"),
            ("byte", "YWJj", "YWJ"),
            ("ipv4", "010.0.0.1", "::1"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.1/8", "10.0.0.0/33"),
            ("cidr", "fd00::/64", "fd00::"),
            ("mac", "00:00:5e:00:53:01", "00:00:5e:00:53"),
            ("email", "a.b@example.com", "a.b"),
            ("hostname", "a-1.example.com", "-a.example.com"),
            ("uri", "https://example.com/a%20b", "example.com"),
            ("uri", "http://[::1]:80/x", "http://a:port/"),
            ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99"),
            (
                "uuid4",
                "a0eebc999c0b4ef8bb6d6bb9bd380a11",
                "a0eebc999c0b3ef8bb6d6bb9bd380a11",
            ),
            ("k8s-short-name", "a-b", "a.b"),
            ("k8s-long-name", "a-b.c", "A.b"),
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

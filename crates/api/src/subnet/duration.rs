//! Durations as Kubernetes writes them: `30s`, `1m30s`, `1.5h`.

use std::time::Duration;

/// The pattern in the CRD. Nine digits are enough: 24 hours are 86,400,000 ms.
pub const PATTERN: &str = r"^([0-9]{1,9}(\.[0-9]{1,9})?(ms|s|m|h))+$";
pub const MAX_LENGTH: usize = 32;
/// An address that should cool down for longer is better excluded.
pub const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// `None` if the CRD would refuse it.
pub fn parse(text: &str) -> Option<Duration> {
    if text.is_empty() || text.len() > MAX_LENGTH {
        return None;
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| !c.is_ascii_digit() && c != '.');
        let (unit, after) = split(after, |c| c.is_ascii_digit());
        total = total.checked_add(scaled(number, unit)?)?;
        rest = after;
    }
    (total <= MAX_DURATION).then_some(total)
}

fn split(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}

fn scaled(number: &str, unit: &str) -> Option<Duration> {
    let nanoseconds: u128 = match unit {
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits =
        |text: &str| (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole = whole.parse::<u128>().ok()? * nanoseconds;
    // A fraction has at most nine digits: padded with zeros, it is a number of billionths.
    let fraction = format!("{fraction:0<9}").parse::<u128>().ok()? * nanoseconds / 1_000_000_000;
    let nanoseconds = u64::try_from(whole + fraction).ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_kubernetes_writes() {
        for (text, milliseconds) in [
            ("0s", 0),
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("250ms", 250),
            ("0.25s", 250),
            ("24h", 86_400_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_duration_or_too_long() {
        for text in [
            "",
            "30",
            "s",
            "-30s",
            "30 s",
            "1d",
            ".5s",
            "5.s",
            "1..5s",
            "30s1",
            "1e3s",
            "24h1ms",
            "999999999h",
            "1234567890s",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}

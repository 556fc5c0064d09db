//! Ages in the form of kubectl: two units at most, and only where both matter.

use jiff::Timestamp;
use serde_json::Value;

const UNKNOWN: &str = "<unknown>";

/// The age of a time in an object; `pointer` is a JSON pointer to it.
pub fn since(object: &Value, pointer: &str, now: Timestamp) -> String {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .map_or_else(|| UNKNOWN.to_owned(), |text| since_text(text, now))
}

pub fn since_text(text: &str, now: Timestamp) -> String {
    match text.parse::<Timestamp>() {
        Ok(then) => human(now.as_millisecond() - then.as_millisecond()),
        Err(_) => "<invalid>".to_owned(),
    }
}

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The unit, the next smaller one, the age up to which both are shown, the age up to which the unit
/// is used.
const SCALE: &[(i64, &str, i64, &str, i64, i64)] = &[
    (MINUTE, "m", 1, "s", 10 * MINUTE, 3 * HOUR),
    (HOUR, "h", MINUTE, "m", 8 * HOUR, 2 * DAY),
    (DAY, "d", HOUR, "h", 8 * DAY, 2 * YEAR),
    (YEAR, "y", DAY, "d", 8 * YEAR, i64::MAX),
];

fn human(milliseconds: i64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        // Two clocks may differ a little.
        ..-1 => return "<invalid>".to_owned(),
        -1..0 => return "0s".to_owned(),
        0..120 => return format!("{seconds}s"),
        _ => {}
    }
    for &(unit, name, below, below_name, both, end) in SCALE {
        if seconds < end {
            let rest = seconds % unit / below;
            return if seconds < both && rest > 0 {
                format!("{}{name}{rest}{below_name}", seconds / unit)
            } else {
                format!("{}{name}", seconds / unit)
            };
        }
    }
    UNKNOWN.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_as_kubectl_writes_them() {
        for (seconds, expected) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (303, "5m3s"),
            (600, "10m"),
            (659, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (7 * HOUR + 5 * MINUTE, "7h5m"),
            (8 * HOUR + 5 * MINUTE, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY + 3 * HOUR, "2d3h"),
            (8 * DAY + 3 * HOUR, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR + 40 * DAY, "2y40d"),
            (9 * YEAR + 40 * DAY, "9y"),
        ] {
            assert_eq!(human(seconds * 1000), expected, "{seconds}");
        }
    }

    #[test]
    fn what_is_missing_is_unknown_and_what_is_no_time_is_invalid() {
        let object = serde_json::json!({"a": "yesterday", "b": "2026-01-01T00:00:00Z"});
        let now: Timestamp = "2026-01-01T00:05:03.9Z".parse().unwrap();
        assert_eq!(since(&object, "/a", now), "<invalid>");
        assert_eq!(since(&object, "/b", now), "5m3s");
        assert_eq!(since(&object, "/c", now), "<unknown>");
    }
}

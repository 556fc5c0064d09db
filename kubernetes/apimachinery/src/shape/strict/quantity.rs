//! Quantities such as `100m`, `1.5Gi`, `1e3`, brought into their shortest form without a fraction.

const PATTERN: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const BEYOND: &str = "unable to parse quantity's suffix";

/// Powers of ten, from the smallest.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Powers of 1024, from one.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Notation {
    Decimal,
    Binary,
    Exponent,
}

/// The amount in canonical form. Amounts below a nano are rounded up to one. Those too large for an
/// integer stay as they are.
pub(super) fn canonical(text: &str) -> Result<String, String> {
    let text = text.trim();
    let (nano, notation) = read(text)?;
    Ok(nano
        .map(|nano| write(nano, notation))
        .unwrap_or_else(|| text.to_owned()))
}

/// The amount in nano, if it is valid and not too large.
pub fn nano(text: &str) -> Option<i128> {
    read(text.trim()).ok()?.0
}

fn read(text: &str) -> Result<(Option<i128>, Notation), String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if digits.is_empty() || digits == "." || !plain(whole) || !plain(fraction) {
        return Err(PATTERN.to_owned());
    }
    let (notation, power) = read_suffix(suffix)?;
    let nano = amount(whole, fraction, notation, power);
    Ok((
        nano.map(|nano| if number.starts_with('-') { -nano } else { nano }),
        notation,
    ))
}

/// The power is of ten, or of 1024 for binary suffixes.
fn read_suffix(suffix: &str) -> Result<(Notation, i32), String> {
    let index = |list: &[&str]| {
        list.iter()
            .position(|known| *known == suffix)
            .and_then(|at| i32::try_from(at).ok())
    };
    if let Some(at) = index(&DECIMAL) {
        return Ok((Notation::Decimal, (at - 3) * 3));
    }
    if let Some(at) = index(&BINARY) {
        return Ok((Notation::Binary, at));
    }
    if let Some(power) = suffix.strip_prefix(['e', 'E']).and_then(|power| power.parse().ok()) {
        return Ok((Notation::Exponent, power));
    }
    let known = |c: char| c.is_ascii_digit() || "eEinumkKMGTP+-".contains(c);
    Err(if suffix.chars().all(known) { BEYOND } else { PATTERN }.to_owned())
}

/// In nano, without sign.
fn amount(whole: &str, fraction: &str, notation: Notation, power: i32) -> Option<i128> {
    let fraction = fraction.trim_end_matches('0');
    let mantissa: i128 = match format!("{whole}{fraction}").trim_start_matches('0') {
        "" => return Some(0),
        digits => digits.parse().ok()?,
    };
    let tens = 9 - i32::try_from(fraction.len()).ok()?;
    let (scaled, tens) = match notation {
        Notation::Binary => (
            mantissa.checked_mul(1024_i128.checked_pow(power.try_into().ok()?)?)?,
            tens,
        ),
        Notation::Decimal | Notation::Exponent => (mantissa, tens.checked_add(power)?),
    };
    let factor = 10_i128.checked_pow(tens.unsigned_abs())?;
    if tens >= 0 {
        scaled.checked_mul(factor)
    } else {
        Some(scaled / factor + i128::from(scaled % factor != 0))
    }
}

fn write(nano: i128, notation: Notation) -> String {
    const ONE: i128 = 1_000_000_000;
    let whole = nano % ONE == 0;
    if notation == Notation::Binary && whole && (nano / ONE).abs() >= 1024 {
        let (number, times) = divide(nano / ONE, 1024, BINARY.len() - 1);
        return format!("{number}{}", BINARY[times]);
    }
    if nano == 0 {
        return "0".to_owned();
    }
    let (number, times) = divide(nano, 1000, DECIMAL.len() - 1);
    if notation == Notation::Exponent && times != 3 {
        let power = i32::try_from(times).map_or(0, |times| (times - 3) * 3);
        return format!("{number}e{power}");
    }
    format!("{number}{}", DECIMAL[times])
}

/// Divides by the factor as often as possible, up to a limit.
fn divide(mut number: i128, factor: i128, most: usize) -> (i128, usize) {
    let mut times = 0;
    while times < most && number % factor == 0 {
        number /= factor;
        times += 1;
    }
    (number, times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_has_one_written_form() {
        let table = [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1024Mi", "1Gi"),
            ("0.5Gi", "512Mi"),
            ("1.5Gi", "1536Mi"),
            ("100", "100"),
            ("1000", "1k"),
            ("512Ki", "512Ki"),
            ("0", "0"),
            ("0Mi", "0"),
            ("1e3", "1e3"),
            ("1e2", "100"),
            ("-2500m", "-2500m"),
            ("0.1Ki", "102400m"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            (
                "999999999999999999999999999999999999",
                "999999999999999999999999999999999999",
            ),
        ];
        for (given, expected) in table {
            assert_eq!(canonical(given).as_deref(), Ok(expected), "{given}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for bad in ["", "abc", "1.2.3", "1 Gi", "true", ".", "+"] {
            assert_eq!(canonical(bad), Err(PATTERN.to_owned()), "{bad:?}");
        }
        assert_eq!(canonical("1Kim"), Err(BEYOND.to_owned()));
    }
}

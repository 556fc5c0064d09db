//! Numbers: ranges, multiples, and their form in kube-apiserver.

use serde_json::{Number, Value};

use super::format::Known;
use super::subschema::{Limits, Subschema};
use super::types::Type;
use crate::status::{FieldError, Path};
use crate::trail::Trail;

pub(super) fn check(
    node: &Subschema,
    number: &Number,
    at: &Trail<'_>,
    errors: &mut Vec<FieldError>,
) {
    check_format(node, number, at, errors);
    let Limits {
        minimum,
        exclusive_minimum,
        maximum,
        exclusive_maximum,
        multiple_of,
        ..
    } = &node.limits;
    let Some(value) = number.as_f64() else {
        return;
    };
    let mut fail = |what: &str, bound: f64| {
        let detail = format!("{at} in body should be {what} {}", shown(bound));
        errors.push(FieldError::invalid(at.path(), plain(number), detail));
    };
    if let Some(factor) = *multiple_of
        && !is_multiple(number, value, factor)
    {
        fail("a multiple of", factor);
    }
    if let Some(least) = *minimum {
        if *exclusive_minimum && value <= least {
            fail("greater than", least);
        } else if !exclusive_minimum && value < least {
            fail("greater than or equal to", least);
        }
    }
    if let Some(most) = *maximum {
        if *exclusive_maximum && value >= most {
            fail("less than", most);
        } else if !exclusive_maximum && value > most {
            fail("less than or equal to", most);
        }
    }
}

fn check_format(node: &Subschema, number: &Number, at: &Trail<'_>, errors: &mut Vec<FieldError>) {
    let known = node.limits.format.as_ref();
    let fits = match (node.kind, known.map(|format| format.kind)) {
        (Type::Integer, Some(Known::Int32)) => {
            integer(number).is_some_and(|n| i32::try_from(n).is_ok())
        }
        (Type::Integer, _) => integer(number).is_some(),
        (Type::Number, Some(Known::Float)) => {
            number.as_f64().is_some_and(|n| n.abs() <= f64::from(f32::MAX))
        }
        _ => true,
    };
    if !fits {
        let format = known.map_or("(default format)".to_owned(), |format| {
            format!("with format {}", format.name)
        });
        let detail = format!("Checked value must be of type {} {format} in {at}", node.kind.name());
        errors.push(FieldError::invalid(Path::root(), "".into(), detail));
    }
}

fn is_multiple(number: &Number, value: f64, factor: f64) -> bool {
    if factor <= 0.0 {
        return true;
    }
    match (number.as_i64(), whole(factor)) {
        (Some(value), Some(factor)) => value % factor == 0,
        _ => {
            let quotient = value / factor;
            (quotient - quotient.round()).abs() < 1e-9 * quotient.abs().max(1.0)
        }
    }
}

/// The number as an integer. `1.0` is one too.
pub(super) fn integer(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| number.as_f64().and_then(whole))
}

fn whole(value: f64) -> Option<i64> {
    // Within these bounds every integer has its own f64.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() != 0.0 || value.abs() > EXACT {
        return None;
    }
    format!("{value:.0}").parse().ok()
}

/// Without a fraction of zero: `1.0` is shown as `1`.
pub(super) fn plain(number: &Number) -> Value {
    integer(number).map_or_else(|| Value::Number(number.clone()), Value::from)
}

fn shown(value: f64) -> String {
    whole(value).map_or_else(|| value.to_string(), |whole| whole.to_string())
}

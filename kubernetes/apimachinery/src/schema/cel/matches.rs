//! `matches` of CEL, with patterns that are compiled once: compiling one takes far longer than to
//! look whether it matches, and a rule asks with the same one on every write.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use kube_cel::cel::extractors::This;
use kube_cel::cel::{ExecutionError, FunctionContext};
use parking_lot::Mutex;
use regex::Regex;

/// More than the CRDs of a cluster have, mostly. A rule may also take its pattern from an object:
/// of these, too, no more are kept.
const MAX_KEPT: usize = 128;

static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);

pub(super) fn matches(
    call: &FunctionContext<'_, '_>,
    This(text): This<Arc<String>>,
    pattern: Arc<String>,
) -> Result<bool, ExecutionError> {
    match compiled(&KEPT, &pattern) {
        Ok(compiled) => Ok(compiled.is_match(&text)),
        Err(error) => Err(call.error(format!("'{pattern}' not a valid regex:\n{error}"))),
    }
}

/// Nothing is locked while a pattern is compiled: a very large one makes no other rule wait. If two
/// compile the same at once, one of the two is kept.
fn compiled(kept: &Mutex<Kept>, pattern: &str) -> Result<Regex, regex::Error> {
    if let Some(compiled) = kept.lock().0.get(pattern) {
        return Ok(compiled.clone());
    }
    let compiled = Regex::new(pattern)?;
    kept.lock().keep(pattern, compiled.clone());
    Ok(compiled)
}

#[derive(Default)]
struct Kept(HashMap<String, Regex>);

impl Kept {
    fn keep(&mut self, pattern: &str, compiled: Regex) {
        let Self(kept) = self;
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(pattern.to_owned(), compiled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_kept_and_one_that_is_none_is_not() {
        let kept = Mutex::default();
        for _ in 0..2 {
            assert!(compiled(&kept, "^a+$").unwrap().is_match("aa"));
            assert!(!compiled(&kept, "^b+$").unwrap().is_match("aa"));
            assert!(compiled(&kept, "(").is_err());
        }
        assert_eq!(kept.lock().0.len(), 2);
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for() {
        let kept = Mutex::default();
        for n in 0..=3 * MAX_KEPT {
            let pattern = format!("^{n}$");
            assert!(compiled(&kept, &pattern).unwrap().is_match(&n.to_string()));
            assert!(kept.lock().0.len() <= MAX_KEPT);
        }
    }
}

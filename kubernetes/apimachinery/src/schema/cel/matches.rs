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
    // Held while one is compiled, so that nobody compiles the same; not while it is used.
    let compiled = KEPT.lock().get(&pattern);
    match compiled {
        Ok(compiled) => Ok(compiled.is_match(&text)),
        Err(error) => Err(call.error(format!("'{pattern}' not a valid regex:\n{error}"))),
    }
}

#[derive(Default)]
struct Kept(HashMap<String, Regex>);

impl Kept {
    fn get(&mut self, pattern: &str) -> Result<Regex, regex::Error> {
        let Self(kept) = self;
        if let Some(compiled) = kept.get(pattern) {
            return Ok(compiled.clone());
        }
        let compiled = Regex::new(pattern)?;
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(pattern.to_owned(), compiled.clone());
        Ok(compiled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_kept_and_one_that_is_none_is_not() {
        let mut kept = Kept::default();
        for _ in 0..2 {
            assert!(kept.get("^a+$").unwrap().is_match("aa"));
            assert!(!kept.get("^b+$").unwrap().is_match("aa"));
            assert!(kept.get("(").is_err());
        }
        assert_eq!(kept.0.len(), 2);
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for() {
        let mut kept = Kept::default();
        for n in 0..=3 * MAX_KEPT {
            let pattern = format!("^{n}$");
            assert!(kept.get(&pattern).unwrap().is_match(&n.to_string()));
            assert!(kept.0.len() <= MAX_KEPT);
        }
    }
}

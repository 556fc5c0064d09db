//! CEL's `matches` with a cache of compiled patterns. Compiling takes far longer than matching, and
//! a rule uses the same pattern on every write.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use kube_cel::cel::extractors::This;
use kube_cel::cel::{ExecutionError, FunctionContext};
use parking_lot::Mutex;
use regex::Regex;

/// More patterns than the CRDs of most clusters have. The limit is needed because a rule may also
/// take its pattern from an object.
const MAX_PATTERNS: usize = 128;

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

pub(super) fn matches(
    call: &FunctionContext<'_, '_>,
    This(text): This<Arc<String>>,
    pattern: Arc<String>,
) -> Result<bool, ExecutionError> {
    match compiled(&CACHE, &pattern) {
        Ok(compiled) => Ok(compiled.is_match(&text)),
        Err(error) => Err(call.error(format!("'{pattern}' not a valid regex:\n{error}"))),
    }
}

/// The cache is not locked during compilation, so a very large pattern does not hold up other
/// rules. If two threads compile the same pattern, the cache keeps one.
fn compiled(cache: &Mutex<Cache>, pattern: &str) -> Result<Regex, regex::Error> {
    if let Some(compiled) = cache.lock().0.get(pattern) {
        return Ok(compiled.clone());
    }
    let compiled = Regex::new(pattern)?;
    cache.lock().insert(pattern, compiled.clone());
    Ok(compiled)
}

#[derive(Default)]
struct Cache(HashMap<String, Regex>);

impl Cache {
    fn insert(&mut self, pattern: &str, compiled: Regex) {
        let Self(cache) = self;
        if cache.len() >= MAX_PATTERNS {
            cache.clear();
        }
        cache.insert(pattern.to_owned(), compiled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_kept_and_one_that_is_none_is_not() {
        let cache = Mutex::default();
        for _ in 0..2 {
            assert!(compiled(&cache, "^a+$").unwrap().is_match("aa"));
            assert!(!compiled(&cache, "^b+$").unwrap().is_match("aa"));
            assert!(compiled(&cache, "(").is_err());
        }
        assert_eq!(cache.lock().0.len(), 2);
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for() {
        let cache = Mutex::default();
        for n in 0..=3 * MAX_PATTERNS {
            let pattern = format!("^{n}$");
            assert!(compiled(&cache, &pattern).unwrap().is_match(&n.to_string()));
            assert!(cache.lock().0.len() <= MAX_PATTERNS);
        }
    }
}

//! The order in which clients should prefer the versions of a group.

use std::cmp::{Ordering, Reverse};

/// Preferred first: v2, v1, v1beta1, v1alpha2, v1alpha1, then names of any other form in
/// alphabetical order.
pub fn compare(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => Reverse(a).cmp(&Reverse(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability, major, minor. `None` for any other form, such as `v1alpha` without a minor.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    for (stability, word) in [(1, "beta"), (0, "alpha")] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stability, number(major)?, number(minor)?));
        }
    }
    Some((2, number(rest)?, 0))
}

/// Only digits: `parse` would accept a sign too.
fn number(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_comes_before_beta_before_alpha_before_the_rest() {
        let expected = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "v+1",
            "v1alpha",
        ];
        let mut versions = expected;
        versions.reverse();
        versions.sort_by(|a, b| compare(a, b));
        assert_eq!(versions, expected);
    }
}

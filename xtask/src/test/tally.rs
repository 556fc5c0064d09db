//! The results that test programs print.

use std::fmt;
use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// As the harness counts: a test that returned early has passed.
    pub passed: u64,
    pub failed: u64,
    /// Passed tests that returned early, because the server lacks a feature.
    pub left_out: u64,
}

impl Tally {
    /// Reads a line of a test program. Only result lines count, and the lines of tests that
    /// returned early.
    pub fn count(&mut self, line: &str) {
        if line.starts_with("left out: ") {
            self.left_out += 1;
        }
        let Some(result) = line.strip_prefix("test result: ") else {
            return;
        };
        let number = |unit: &str| -> u64 {
            let before = result.split_once(unit).map_or("", |(before, _)| before);
            before
                .rsplit(' ')
                .next()
                .and_then(|digits| digits.parse().ok())
                .unwrap_or(0)
        };
        self.passed += number(" passed;");
        self.failed += number(" failed;");
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.left_out += other.left_out;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passed = self.passed.saturating_sub(self.left_out);
        write!(f, "{passed} passed, {} failed", self.failed)?;
        if self.left_out > 0 {
            write!(f, ", {} left out", self.left_out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_of_all_programs_add_up() {
        let mut tally = Tally::default();
        tally.count(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; \
             finished in 0.02s",
        );
        tally.count(
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered \
             out; finished in 0.31s",
        );
        let expected = Tally {
            passed: 15,
            failed: 2,
            left_out: 0,
        };
        assert_eq!(tally, expected);
    }

    #[test]
    fn what_a_test_prints_does_not_count() {
        let mut tally = Tally::default();
        tally.count("test parse::a_line_with_7_passed; 7 failed; ... ok");
        tally.count("it said: test result: ok. 9 passed; 9 failed;");
        assert_eq!(tally, Tally::default());
    }

    #[test]
    fn what_was_left_out_is_not_shown_as_passed() {
        let mut tally = Tally::default();
        tally.count("left out: kubectl::workloads::scale: needs Nodes");
        tally.count("test result: ok. 12 passed; 0 failed; 0 ignored");
        assert_eq!(tally.to_string(), "11 passed, 0 failed, 1 left out");
    }

    #[test]
    fn closing_line_has_both_numbers() {
        let tally = Tally {
            passed: 120,
            ..Tally::default()
        };
        assert_eq!(tally.to_string(), "120 passed, 0 failed");
    }
}

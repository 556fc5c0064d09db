//! What the test programs said of themselves.

use std::fmt;
use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
}

impl Tally {
    /// Adds a `test result:` line; any other line counts for nothing.
    pub fn count(&mut self, line: &str) {
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
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_of_all_programs_add_up() {
        let mut tally = Tally::default();
        tally.count("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s");
        tally
            .count("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.31s");
        assert_eq!(tally, Tally { passed: 15, failed: 2 });
    }

    #[test]
    fn what_a_test_prints_does_not_count() {
        let mut tally = Tally::default();
        tally.count("test parse::a_line_with_7_passed; 7 failed; ... ok");
        tally.count("it said: test result: ok. 9 passed; 9 failed;");
        assert_eq!(tally, Tally::default());
    }

    #[test]
    fn closing_line_has_both_numbers() {
        assert_eq!(Tally { passed: 120, failed: 0 }.to_string(), "120 passed, 0 failed");
    }
}

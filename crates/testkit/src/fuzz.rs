//! Runs the body of a fuzz target on a bounded number of inputs, the same in every run.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Panics with the smallest input that makes the body panic.
pub fn run_seeded(cases: u32, inputs: impl Strategy<Value = Vec<u8>>, body: fn(&[u8])) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let ran = TestRunner::new_with_rng(config, rng).run(&inputs, |input| {
        body(&input);
        Ok(())
    });
    if let Err(error) = ran {
        panic!("{error}");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    #[should_panic(expected = "minimal failing input: [\n    200,\n]")]
    fn a_body_that_panics_is_shown_its_smallest_input() {
        let inputs = prop::collection::vec(any::<u8>(), 0..8);
        run_seeded(1_000, inputs, |input| assert!(input.iter().all(|byte| *byte < 200)));
    }
}

//! ADD, then DEL, so that the number of held addresses stays the same. Programs take turns, so that
//! other work of the machine affects all of them.

use std::time::Instant;

use berth_testbed::Figures;

use crate::program::Program;
use crate::samples::Samples;
use crate::site::Site;

const HELD: usize = 1_000;
const ROUNDS: usize = 6;
const PAIRS: usize = 100;
const CALLERS: usize = 8;
const CALLERS_ROUNDS: usize = 3;
const CALLERS_PAIRS: usize = 25;

/// With 0 addresses held, then with 1,000.
pub fn measure(
    figures: &mut Figures,
    site: &Site,
    floor: &Program,
    ours: &Program,
    peers: &[Program],
) {
    for held in [0, HELD] {
        if held > 0 {
            eprintln!("giving {held} addresses to each");
            site.hold(held);
            peers.iter().for_each(|peer| hold(peer, held));
        }
        let programs: Vec<&Program> = [floor, ours].into_iter().chain(peers).collect();
        let measured = by_one_caller(&programs);
        for (program, one) in programs.iter().zip(&measured) {
            let label = format!("{}, {held} held", program.label);
            for (command, samples) in [("ADD", &one.add), ("DEL", &one.del)] {
                figures.millis(&format!("{label}: {command} p50"), samples.median());
                figures.millis(&format!("{label}: {command} p99"), samples.percentile(99));
            }
        }
        let [floor, ours, theirs @ ..] = measured.as_slice() else {
            continue;
        };
        let of =
            |ours: &Samples, other: &Samples, at: usize| ours.percentile(at) / other.percentile(at);
        figures.times(
            &format!("{held} held: ADD p50 of the floor's"),
            of(&ours.add, &floor.add, 50),
        );
        figures.times(
            &format!("{held} held: DEL p50 of the floor's"),
            of(&ours.del, &floor.del, 50),
        );
        for (peer, theirs) in peers.iter().zip(theirs) {
            for (command, ours, theirs) in
                [("ADD", &ours.add, &theirs.add), ("DEL", &ours.del, &theirs.del)]
            {
                for at in [50, 99] {
                    let name = format!("{held} held: {command} p{at} of {}'s", peer.label);
                    figures.times(&name, of(ours, theirs, at));
                }
            }
        }
        let rates = by_many_callers(&programs);
        for (program, rate) in programs.iter().zip(&rates) {
            figures.rate(
                &format!("{}, {held} held: pairs by {CALLERS} callers", program.label),
                *rate,
            );
        }
        for (peer, rate) in peers.iter().zip(&rates[2..]) {
            let name = format!("{held} held: pairs by {CALLERS} callers, times {}'s", peer.label);
            figures.times(&name, rates[1] / rate);
        }
    }
    site.let_go(HELD);
}

#[derive(Clone, Debug, Default)]
struct Pair {
    add: Samples,
    del: Samples,
}

fn by_one_caller(programs: &[&Program]) -> Vec<Pair> {
    let mut measured = vec![Pair::default(); programs.len()];
    for round in 0..ROUNDS {
        for (program, pair) in programs.iter().zip(&mut measured) {
            for n in 0..PAIRS {
                let container = format!("one-{round}-{n}");
                pair.add.add(program.call("ADD", &container));
                pair.del.add(program.call("DEL", &container));
            }
        }
    }
    measured
}

/// Pairs a second, of all callers together.
fn by_many_callers(programs: &[&Program]) -> Vec<f64> {
    let mut seconds = vec![0.0; programs.len()];
    for round in 0..CALLERS_ROUNDS {
        for (program, seconds) in programs.iter().zip(&mut seconds) {
            let start = Instant::now();
            std::thread::scope(|scope| {
                for caller in 0..CALLERS {
                    scope.spawn(move || {
                        for n in 0..CALLERS_PAIRS {
                            let container = format!("many-{round}-{caller}-{n}");
                            program.call("ADD", &container);
                            program.call("DEL", &container);
                        }
                    });
                }
            });
            *seconds += start.elapsed().as_secs_f64();
        }
    }
    let pairs = (CALLERS_ROUNDS * CALLERS * CALLERS_PAIRS) as f64;
    seconds.into_iter().map(|seconds| pairs / seconds).collect()
}

fn hold(program: &Program, count: usize) {
    for n in 0..count {
        program.call("ADD", &format!("held-{n}"));
    }
}

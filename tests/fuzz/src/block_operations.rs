//! Any sequence of operations on a block, against a list of 256 states.

use arbitrary::{Result, Unstructured};
use berth_addr::{Bitmap, Block, ClaimError, NotOwned, State};

pub fn run(data: &[u8]) {
    // Running out of input ends the sequence; there is nothing to report.
    let _ = operate(&mut Unstructured::new(data));
}

fn operate(input: &mut Unstructured<'_>) -> Result<()> {
    let set_aside: Bitmap = input
        .arbitrary::<[u8; 6]>()?
        .into_iter()
        .flat_map(|o| o / 2..=o)
        .collect();
    let mut block = Block::new(set_aside);
    let mut model = [State::Fresh; 256];
    for offset in set_aside.iter() {
        model[usize::from(offset)] = State::SetAside;
    }
    while !input.is_empty() {
        match input.int_in_range(0..=5u8)? {
            0 => take_fresh(&mut block, &mut model),
            1 => take_longest_cooled_down(&mut block, &mut model),
            2 => claim(&mut block, &mut model, input.arbitrary()?),
            3 => release(
                &mut block,
                &mut model,
                input.arbitrary()?,
                input.arbitrary::<u16>()?.into(),
            ),
            4 => {
                (0..input.int_in_range(0..=64u8)?).for_each(|_| take_fresh(&mut block, &mut model))
            }
            _ => block = Block::restore(block.set_aside(), block.owned(), block.released()),
        }
        check(
            &block,
            &model,
            input.arbitrary::<u16>()?.into(),
            input.arbitrary::<u8>()?.into(),
        );
    }
    Ok(())
}

fn take_fresh(block: &mut Block, model: &mut [State; 256]) {
    match block.take_fresh() {
        None => assert!(!model.contains(&State::Fresh)),
        Some(offset) => {
            let state = &mut model[usize::from(offset)];
            assert_eq!(*state, State::Fresh);
            *state = State::Owned;
        }
    }
}

fn take_longest_cooled_down(block: &mut Block, model: &mut [State; 256]) {
    let longest = model.iter().filter_map(|state| released_at(*state)).min();
    assert_eq!(block.longest_cooled_down(), longest);
    match block.take_longest_cooled_down() {
        None => assert_eq!(longest, None),
        Some(offset) => {
            let state = &mut model[usize::from(offset)];
            assert!(longest.is_some() && released_at(*state) == longest);
            *state = State::Owned;
        }
    }
}

fn claim(block: &mut Block, model: &mut [State; 256], offset: u8) {
    let state = &mut model[usize::from(offset)];
    let expected = match state {
        State::Owned => Err(ClaimError::Owned),
        State::SetAside => Err(ClaimError::SetAside),
        State::Fresh | State::Released { .. } => {
            *state = State::Owned;
            Ok(())
        }
    };
    assert_eq!(block.claim(offset), expected);
}

fn release(block: &mut Block, model: &mut [State; 256], offset: u8, now: u64) {
    let state = &mut model[usize::from(offset)];
    let expected = if *state == State::Owned {
        *state = State::Released { at: now };
        Ok(())
    } else {
        Err(NotOwned)
    };
    assert_eq!(block.release(offset, now), expected);
}

fn check(block: &Block, model: &[State; 256], now: u64, delay: u64) {
    for offset in 0..=u8::MAX {
        assert_eq!(block.state(offset), model[usize::from(offset)], "unit {offset}");
    }
    let cooling_down = model
        .iter()
        .filter_map(|state| released_at(*state))
        .filter(|at| at + delay > now || *at > now);
    assert_eq!(block.cooling_down(now, delay), cooling_down.count());
}

fn released_at(state: State) -> Option<u64> {
    match state {
        State::Released { at } => Some(at),
        State::Fresh | State::Owned | State::SetAside => None,
    }
}

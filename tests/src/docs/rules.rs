//! What holds for all pages.

use super::{Class, pages};

#[test]
fn every_command_block_has_a_class() {
    let mut count = 0;
    for page in pages().unwrap() {
        count += page.blocks().unwrap().len();
    }
    assert!(count > 30, "only {count} blocks were found");
}

/// Otherwise most blocks would end up as `shown`.
#[test]
fn most_command_blocks_are_run() {
    let blocks = pages().unwrap().into_iter().flat_map(|page| page.blocks().unwrap());
    let (shown, run): (Vec<_>, Vec<_>) =
        blocks.partition(|block| matches!(block.class, Class::Shown(_)));
    println!("{} are run, {} are shown", run.len(), shown.len());
    assert!(
        run.len() > shown.len(),
        "{} are run, {} are shown",
        run.len(),
        shown.len()
    );
}

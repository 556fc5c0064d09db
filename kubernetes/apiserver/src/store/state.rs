//! Tables in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::watch;

use super::history::History;
use super::record::{Place, Record};

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) objects: BTreeMap<Place, Record>,
    pub(super) history: History,
    pub(super) changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) version: u64,
    pub(super) tables: HashMap<Arc<str>, Table>,
}

/// A table's history begins when the store is opened, not when the table is first used, because
/// the table had no events in between.
pub(super) fn table_of<'a>(state: &'a mut State, name: &Arc<str>, opened_at: u64) -> &'a mut Table {
    state.tables.entry(name.clone()).or_insert_with(|| {
        let mut table = Table::default();
        table.history.start_at(opened_at);
        table
    })
}

//! Sorted, disjoint spans of numbers: what sets of addresses, of units and of blocks are made of.

use std::collections::BTreeMap;

/// Invariant: spans neither overlap nor touch, so each set has only one form, and `==` compares
/// sets. All functions take the first and the last number, both included, in that order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans {
    last_by_first: BTreeMap<u128, u128>,
}

impl Spans {
    pub fn insert(&mut self, first: u128, last: u128) {
        let (mut first, mut last) = (first, last);
        if let Some((&start, &end)) = self.last_by_first.range(..first).next_back()
            && end.saturating_add(1) >= first
        {
            first = start;
            last = last.max(end);
        }
        while let Some((&start, &end)) =
            self.last_by_first.range(first..=last.saturating_add(1)).next()
        {
            self.last_by_first.remove(&start);
            last = last.max(end);
        }
        self.last_by_first.insert(first, last);
    }

    pub fn remove(&mut self, first: u128, last: u128) {
        let touched: Vec<(u128, u128)> = self.touching(first, last).collect();
        for (start, end) in touched {
            self.last_by_first.remove(&start);
            if start < first {
                self.last_by_first.insert(start, first - 1);
            }
            if end > last {
                self.last_by_first.insert(last + 1, end);
            }
        }
    }

    /// The spans that have a number in common with `first..=last`, whole.
    fn touching(&self, first: u128, last: u128) -> impl Iterator<Item = (u128, u128)> {
        let start = match self.last_by_first.range(..=first).next_back() {
            Some((&start, &end)) if end >= first => start,
            _ => first,
        };
        self.last_by_first
            .range(start..=last)
            .map(|(&start, &end)| (start, end))
    }

    /// The spans inside `first..=last`, cut at its ends.
    pub fn within(&self, first: u128, last: u128) -> impl Iterator<Item = (u128, u128)> {
        self.touching(first, last)
            .map(move |(start, end)| (start.max(first), end.min(last)))
    }

    pub fn iter(&self) -> impl Iterator<Item = (u128, u128)> {
        self.last_by_first.iter().map(|(&first, &last)| (first, last))
    }

    pub fn is_empty(&self) -> bool {
        self.last_by_first.is_empty()
    }

    pub fn contains(&self, number: u128) -> bool {
        self.covers(number, number)
    }

    pub fn covers(&self, first: u128, last: u128) -> bool {
        self.touching(first, last)
            .next()
            .is_some_and(|(start, end)| start <= first && last <= end)
    }

    /// The lowest number from `from` on.
    pub fn first_from(&self, from: u128) -> Option<u128> {
        self.within(from, u128::MAX).next().map(|(first, _)| first)
    }

    /// Saturates: all 2^128 numbers count as `u128::MAX`.
    pub fn count(&self) -> u128 {
        self.iter().fold(0, |sum, (first, last)| {
            sum.saturating_add(last - first).saturating_add(1)
        })
    }

    pub fn union(&self, other: &Self) -> Self {
        let (mut union, smaller) = if self.last_by_first.len() >= other.last_by_first.len() {
            (self.clone(), other)
        } else {
            (other.clone(), self)
        };
        for (first, last) in smaller.iter() {
            union.insert(first, last);
        }
        union
    }

    pub fn intersect(&self, other: &Self) -> Self {
        Self {
            last_by_first: self.common(other).collect(),
        }
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        self.common(other).next().is_some()
    }

    fn common(&self, other: &Self) -> impl Iterator<Item = (u128, u128)> {
        self.iter().flat_map(|(first, last)| other.within(first, last))
    }
}

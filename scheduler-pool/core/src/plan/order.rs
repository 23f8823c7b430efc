//! The order of a class's groups. With thousands of failure domains it would cost more to ask each group at every
//! choice than everything else together.
//!
//! A heap holds each group under an upper bound of its score. Everything that may improve a group is reported
//! ([`GroupOrder::noted`], [`GroupOrder::noted_all`]). A score that got worse is found out when the group comes to the
//! top. So the top is the best group once its score equals its bound.

use std::collections::BinaryHeap;

use super::score::Score;

/// The groups of a class, by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupOrder {
    heap: BinaryHeap<(Score, u32)>,
    places: Vec<QueuePosition>,
    /// Groups that may be better than their bound.
    noted: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct QueuePosition {
    /// The bound of the group. Heap entries with another score are outdated.
    under: Option<Score>,
    noted: bool,
}

impl GroupOrder {
    /// Reports that a group may have become better.
    pub(super) fn noted(&mut self, group: u32) {
        let index = group as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, QueuePosition::default());
        }
        if let Some(place) = self.places.get_mut(index).filter(|place| !place.noted) {
            place.noted = true;
            self.noted.push(group);
        }
    }

    /// Reports that each of the first groups may have become better.
    pub(super) fn noted_all(&mut self, groups: usize) {
        (0..u32::try_from(groups).unwrap_or(u32::MAX)).for_each(|group| self.noted(group));
    }

    /// The next reported group. The caller updates all of them before it asks for the top.
    pub(super) fn noted_next(&mut self) -> Option<u32> {
        let group = self.noted.pop()?;
        if let Some(place) = self.places.get_mut(group as usize) {
            place.noted = false;
        }
        Some(group)
    }

    /// Sets the score of a group; `None` if it has no candidate.
    pub(super) fn put(&mut self, group: u32, score: Option<Score>) {
        let Some(place) = self.places.get_mut(group as usize) else { return };
        if place.under != score {
            place.under = score;
            self.heap.extend(score.map(|score| (score, group)));
        }
    }

    /// The first group, with its bound.
    pub(super) fn top(&mut self) -> Option<(Score, u32)> {
        loop {
            let &(score, group) = self.heap.peek()?;
            if self.places.get(group as usize).is_some_and(|place| place.under == Some(score)) {
                return Some((score, group));
            }
            self.heap.pop();
        }
    }
}

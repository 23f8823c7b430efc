//! In which order the groups of a class come. With thousands of failure domains it would cost more to ask each of them
//! at every choice than all else together.
//!
//! A group stands in a heap under the best score that it may have. What makes a group better is told
//! ([`GroupOrder::noted`], [`GroupOrder::noted_all`]), what makes it worse is found out when it comes to the top. So
//! the top, once its score is known to be what it is under, is the best of all.

use std::collections::BinaryHeap;

use super::score::Score;

/// The groups of a class, by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupOrder {
    heap: BinaryHeap<(Score, u32)>,
    places: Vec<QueuePosition>,
    /// Groups whose best may be better than what they stand under.
    noted: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct QueuePosition {
    /// What the group stands under; entries of the heap with another score are of the past.
    under: Option<Score>,
    noted: bool,
}

impl GroupOrder {
    /// Something of a group may have become better.
    pub fn noted(&mut self, group: u32) {
        let index = group as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, QueuePosition::default());
        }
        if let Some(place) = self.places.get_mut(index).filter(|place| !place.noted) {
            place.noted = true;
            self.noted.push(group);
        }
    }

    /// Something of each of so many groups may have become better.
    pub fn noted_all(&mut self, groups: usize) {
        (0..u32::try_from(groups).unwrap_or(u32::MAX)).for_each(|group| self.noted(group));
    }

    /// A group that is to be looked at before the top is asked for.
    pub fn noted_next(&mut self) -> Option<u32> {
        let group = self.noted.pop()?;
        if let Some(place) = self.places.get_mut(group as usize) {
            place.noted = false;
        }
        Some(group)
    }

    /// The best of a group as it is now; `None`: it has nothing to offer.
    pub fn put(&mut self, group: u32, score: Option<Score>) {
        let Some(place) = self.places.get_mut(group as usize) else { return };
        if place.under != score {
            place.under = score;
            self.heap.extend(score.map(|score| (score, group)));
        }
    }

    /// The group that stands first, and what it stands under.
    pub fn top(&mut self) -> Option<(Score, u32)> {
        loop {
            let &(score, group) = self.heap.peek()?;
            if self.places.get(group as usize).is_some_and(|place| place.under == Some(score)) {
                return Some((score, group));
            }
            self.heap.pop();
        }
    }
}

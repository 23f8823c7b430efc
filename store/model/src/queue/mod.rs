//! Queues: a hierarchy that shares out a cell's resources. Each queue has a guarantee, a limit, and a weight for what
//! exceeds guarantees.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::field_error::FieldError;
use crate::id::Name;

/// All of a cell, in thousandths.
pub const SHARE_WHOLE: u32 = 1000;
/// The most queues of a cell.
pub const QUEUES_MAX: usize = 500;
/// The most levels of queues.
pub const LEVELS_MAX: usize = 6;
/// The highest weight of a queue.
pub const WEIGHT_MAX: u32 = 1000;

/// One queue of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct QueueSpec {
    /// The names of its ancestors and its own, separated by slashes: `research/vision`.
    #[n(0)]
    pub path: String,
    /// Its share, among its siblings, of what exceeds guarantees: 1 to 1000.
    #[n(1)]
    pub weight: u32,
    /// What it gets before others exceed their guarantees, in thousandths of the cell.
    #[n(2)]
    pub guaranteed_per_mille: u32,
    /// The most that it gets, in thousandths of the cell.
    #[n(3)]
    pub limit_per_mille: u32,
}

impl QueueSpec {
    /// The path of its parent; `None` at the top.
    pub fn parent(&self) -> Option<&str> {
        self.path.rsplit_once('/').map(|(parent, _)| parent)
    }

    /// Its own name.
    pub fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(self.path.as_str(), |(_, name)| name)
    }
}

/// Checks the queues of a cell. The errors name every invalid field.
///
/// A hierarchy is written as paths, so it has no cycles. Possible errors are a queue whose parent is missing, a queue
/// that exists twice, and shares that exceed the whole.
pub fn queues_check(queues: &[QueueSpec]) -> Result<(), Vec<FieldError>> {
    let mut errors = Vec::new();
    let mut refuse = |path: String, value: String, accepted: String| {
        errors.push(FieldError { path, value, accepted });
    };
    if queues.len() > QUEUES_MAX {
        refuse("queues".to_owned(), queues.len().to_string(), format!("{QUEUES_MAX} at most"));
    }
    let known: BTreeMap<&str, &QueueSpec> = queues.iter().map(|queue| (queue.path.as_str(), queue)).collect();
    let mut seen = BTreeSet::new();
    let mut guaranteed: BTreeMap<Option<&str>, u32> = BTreeMap::new();
    for (place, queue) in queues.iter().enumerate() {
        let at = |field: &str| format!("queues[{place}].{field}");
        let names: Vec<&str> = queue.path.split('/').collect();
        if names.len() > LEVELS_MAX || names.iter().any(|name| Name::new(*name).is_err()) {
            let accepted =
                format!("names with slashes between, {LEVELS_MAX} at most, such as research/vision");
            refuse(at("path"), format!("{:?}", queue.path), accepted);
        }
        if !seen.insert(&queue.path) {
            refuse(at("path"), format!("{:?}", queue.path), "each queue once".to_owned());
        }
        if let Some(parent) = queue.parent().filter(|parent| !known.contains_key(parent)) {
            let accepted = format!("a queue in one that is there; {parent:?} is not");
            refuse(at("path"), format!("{:?}", queue.path), accepted);
        }
        if !(1..=WEIGHT_MAX).contains(&queue.weight) {
            refuse(
                at("weight"),
                format!("{} of {:?}", queue.weight, queue.path),
                format!("1 to {WEIGHT_MAX}"),
            );
        }
        if !(1..=SHARE_WHOLE).contains(&queue.limit_per_mille) {
            let accepted = format!("0.1% to {}", share_text(SHARE_WHOLE));
            refuse(at("limit_per_mille"), share_of(queue, queue.limit_per_mille), accepted);
        }
        if queue.guaranteed_per_mille > queue.limit_per_mille {
            let accepted = format!("no more than its limit, {}", share_text(queue.limit_per_mille));
            refuse(at("guaranteed_per_mille"), share_of(queue, queue.guaranteed_per_mille), accepted);
        }
        let sum = guaranteed.entry(queue.parent()).or_default();
        *sum = sum.saturating_add(queue.guaranteed_per_mille);
    }
    for (parent, sum) in guaranteed {
        let has = parent.and_then(|parent| known.get(parent));
        let has = has.map_or(SHARE_WHOLE, |parent| parent.guaranteed_per_mille);
        if sum > has {
            let of = parent.map_or_else(|| "the cell".to_owned(), |parent| format!("queue {parent}"));
            let accepted =
                format!("guarantees of the queues of {of} that come to {} at most", share_text(has));
            refuse("queues".to_owned(), share_text(sum), accepted);
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// A share as people write it: `12.5%`.
fn share_text(per_mille: u32) -> String {
    match (per_mille / 10, per_mille % 10) {
        (whole, 0) => format!("{whole}%"),
        (whole, part) => format!("{whole}.{part}%"),
    }
}

fn share_of(queue: &QueueSpec, per_mille: u32) -> String {
    format!("{} of {:?}", share_text(per_mille), queue.path)
}

/// The queues without children: only these take jobs.
pub fn queue_leaves(queues: &[QueueSpec]) -> BTreeSet<&str> {
    let parents: BTreeSet<&str> = queues.iter().filter_map(QueueSpec::parent).collect();
    queues.iter().map(|queue| queue.path.as_str()).filter(|path| !parents.contains(path)).collect()
}

/// The queue of a job, by its place among `queues`: the one that it names, else the one with its user's name, else
/// `default`. `None`: no queue, and no guarantee.
pub fn queue_of_job(queues: &[QueueSpec], named: Option<&str>, user: &Name) -> Option<usize> {
    // Called for each listed job: it compares the queues directly and builds no set.
    let is_leaf = |queue: &QueueSpec| !queues.iter().any(|other| other.parent() == Some(queue.path.as_str()));
    let leaf =
        |found: &dyn Fn(&QueueSpec) -> bool| queues.iter().position(|queue| found(queue) && is_leaf(queue));
    let named = named.and_then(|named| leaf(&|queue| queue.path == named));
    named
        .or_else(|| leaf(&|queue| queue.name() == user.as_str()))
        .or_else(|| leaf(&|queue| queue.path == "default"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(path: &str, guaranteed_per_mille: u32) -> QueueSpec {
        QueueSpec { path: path.to_owned(), weight: 1, guaranteed_per_mille, limit_per_mille: SHARE_WHOLE }
    }

    fn refused(queues: &[QueueSpec]) -> String {
        let errors = queues_check(queues).unwrap_err();
        errors.iter().map(|error| error.to_string() + "\n").collect()
    }

    #[test]
    fn a_job_is_in_the_queue_it_names_or_its_users_or_the_default_one() {
        let queues =
            [queue("research", 500), queue("research/ann", 200), queue("default", 0), queue("ops", 0)];
        queues_check(&queues).unwrap();
        assert_eq!(queue_leaves(&queues), BTreeSet::from(["default", "ops", "research/ann"]));
        let of = |named, user: &str| queue_of_job(&queues, named, &Name::new(user).unwrap());
        assert_eq!(of(Some("ops"), "ann"), Some(3));
        assert_eq!(of(None, "ann"), Some(1));
        assert_eq!(of(Some("research"), "bob"), Some(2), "no leaf: as if it named none");
        assert_eq!(queue_of_job(&queues[..2], None, &Name::new("bob").unwrap()), None);
    }

    #[test]
    fn what_is_no_hierarchy_is_refused_with_what_would_be() {
        let whole = [queue("a", 600), queue("b", 400)];
        queues_check(&whole).unwrap();
        assert!(refused(&[queue("a", 600), queue("b", 401)]).contains("the cell that come to 100%"));
        assert!(refused(&[queue("a", 100), queue("a/b", 101)]).contains("queue a that come to 10%"));
        assert!(refused(&[queue("a/b", 0)]).contains("\"a\" is not"));
        assert!(refused(&[queue("a", 0), queue("a", 0)]).contains("each queue once"));
        for path in ["", "/a", "a/", "A", "a//b", "a/b/c/d/e/f/g"] {
            assert!(refused(&[queue(path, 0)]).contains("names with slashes"), "{path}");
        }
        let with = |edit: fn(&mut QueueSpec)| {
            let mut one = queue("a", 100);
            edit(&mut one);
            refused(&[one])
        };
        assert!(with(|queue| queue.weight = 0).contains("1 to 1000"));
        assert!(with(|queue| queue.limit_per_mille = 99).contains("no more than its limit, 9.9%"));
        assert!(with(|queue| queue.limit_per_mille = 1001).contains("0.1% to 100%"));
        let many: Vec<QueueSpec> = (0..=QUEUES_MAX).map(|number| queue(&format!("q{number}"), 0)).collect();
        assert!(refused(&many).contains("500 at most"));
    }
}

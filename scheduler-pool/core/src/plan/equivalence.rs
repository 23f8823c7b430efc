//! Equivalence classes: which classes of a queue share one search (Borg and Gödel use the term). Classes of different
//! jobs share one if they ask the same, and if nothing that they ask depends on the job.

use std::collections::BTreeMap;

use borough_model::JobId;
use smallvec::SmallVec;

use super::PendingQueue;
use crate::tables::{CellTables, HardRule, ShapeId};

/// The search of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchKey {
    pub number: usize,
    /// True if its tasks prefer no domain over another.
    pub domains_alike: bool,
    /// The job and the shape of the first class of the search. They represent all classes that share it.
    pub job: JobId,
    pub shape: ShapeId,
}

type Rules = SmallVec<[HardRule; 2]>;

/// The search of each class of a queue, and the number of tasks of each search.
///
/// Classes of one shape share a search if their jobs neither spread nor have soft affinities. (A job of one task has no
/// siblings to spread from.) Jobs with rules between tasks have shapes of their own. They share a search if they ask
/// the same of nodes, and have the same rules with the same terms.
pub(super) fn search_keys(tables: &CellTables, queue: &PendingQueue) -> (Vec<SearchKey>, Vec<usize>) {
    let mut by_shape: BTreeMap<ShapeId, SearchKey> = BTreeMap::new();
    let mut by_rules: BTreeMap<(u64, Rules), Vec<SearchKey>> = BTreeMap::new();
    let mut plans = 0;
    let mut search_key = Vec::with_capacity(queue.classes.len());
    for class in &queue.classes {
        let entry = tables.jobs.get(&class.job).filter(|entry| entry.ignores_domains());
        let constrained = entry.is_some_and(|entry| entry.terms.constrained());
        let new = SearchKey {
            number: plans,
            domains_alike: entry.is_some() && !constrained,
            job: class.job,
            shape: class.shape,
        };
        let found = match entry {
            None => new,
            Some(_) if !constrained => *by_shape.entry(class.shape).or_insert(new),
            Some(entry) => {
                let seed = tables.shapes.seed(class.shape).unwrap_or_default();
                let alike_plans = by_rules.entry((seed, entry.terms.rules().collect())).or_default();
                let known = alike_plans.iter().copied().find(|known| alike(tables, known.shape, class.shape));
                known.unwrap_or_else(|| {
                    alike_plans.push(new);
                    new
                })
            }
        };
        plans = plans.max(found.number + 1);
        search_key.push(found);
    }
    let mut members = vec![0; plans];
    for pending in &queue.tasks {
        let plan = search_key.get(pending.class as usize);
        if let Some(count) = plan.and_then(|plan: &SearchKey| members.get_mut(plan.number)) {
            *count += 1;
        }
    }
    (search_key, members)
}

/// Returns true if two shapes ask the same of a node.
fn alike(tables: &CellTables, left: ShapeId, right: ShapeId) -> bool {
    let (left, right) = (tables.shapes.get(left), tables.shapes.get(right));
    left.zip(right).is_some_and(|(left, right)| left.asks_as(right))
}

//! Every row of a mirror, in parts. Whoever needs all of them takes one part under each hold of the lock, and applies
//! the entries that came meanwhile. A delta is absolute, so an older one changes nothing.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use borough_model::node::{NodeAlloc, NodeLoad, NodeRow};
use borough_model::task::TaskRow;
use borough_model::{JobId, JobRow, NodeId, TaskId};

use super::MirrorState;
use super::specs::StoredSpec;
use crate::row::Cursor;

/// Where a reader of every row goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsPosition {
    Nodes(Bound<NodeId>),
    Allocs(Bound<NodeId>),
    Loads(Bound<NodeId>),
    Jobs(Bound<JobId>),
    Tasks(Bound<TaskId>),
    /// All rows were read.
    Over,
}

/// One row, shared with the mirror.
#[derive(Clone, Debug)]
pub enum MirrorRow {
    Node(Arc<NodeRow>),
    Alloc(NodeId, Arc<NodeAlloc>),
    Load(NodeId, Arc<NodeLoad>),
    Job {
        row: Arc<JobRow>,
        /// Its spec in force, if the mirror has it.
        spec: Option<StoredSpec>,
        /// The spec that its tasks had before a rollout that is not done, with its version.
        base: Option<(u32, StoredSpec)>,
    },
    Task(Arc<TaskRow>),
}

/// A part of all rows.
#[derive(Clone, Debug)]
pub struct RowsPart {
    pub rows: Vec<MirrorRow>,
    /// Where the next part begins.
    pub next: RowsPosition,
    /// The position of the mirror at which the part was read.
    pub at: Cursor,
}

impl RowsPosition {
    /// Before the first row.
    pub const BEGIN: Self = Self::Nodes(Bound::Unbounded);
    /// Rows of a part that is read well within a millisecond: each costs the step to it and a reference.
    pub const PART_ROWS: usize = 2_048;
}

impl MirrorState {
    /// At most `most` rows from `from` on. All of a part are of one kind, and nodes and jobs come before what refers to
    /// them.
    pub fn rows_part(&self, from: RowsPosition, most: usize) -> RowsPart {
        let job = |_: &JobId, row: &Arc<JobRow>| {
            let version = row.version_beside();
            let base = version.and_then(|version| Some((version, self.stored_spec(row.id, version)?)));
            MirrorRow::Job { row: Arc::clone(row), spec: self.stored_spec_of(row), base }
        };
        let begin = Bound::Unbounded;
        let (rows, next) = match from {
            RowsPosition::Nodes(from) => {
                let row = |_: &NodeId, row: &Arc<NodeRow>| MirrorRow::Node(Arc::clone(row));
                let (rows, last) = part_of(self.nodes(), from, most, row);
                (rows, last.map_or(RowsPosition::Allocs(begin), RowsPosition::Nodes))
            }
            RowsPosition::Allocs(from) => {
                let row = |node: &NodeId, alloc: &Arc<NodeAlloc>| MirrorRow::Alloc(*node, Arc::clone(alloc));
                let (rows, last) = part_of(self.allocs(), from, most, row);
                (rows, last.map_or(RowsPosition::Loads(begin), RowsPosition::Allocs))
            }
            RowsPosition::Loads(from) => {
                let row = |node: &NodeId, load: &Arc<NodeLoad>| MirrorRow::Load(*node, Arc::clone(load));
                let (rows, last) = part_of(self.loads(), from, most, row);
                (rows, last.map_or(RowsPosition::Jobs(Bound::Unbounded), RowsPosition::Loads))
            }
            RowsPosition::Jobs(from) => {
                let (rows, last) = part_of(self.jobs(), from, most, job);
                (rows, last.map_or(RowsPosition::Tasks(Bound::Unbounded), RowsPosition::Jobs))
            }
            RowsPosition::Tasks(from) => {
                let row = |_: &TaskId, row: &Arc<TaskRow>| MirrorRow::Task(Arc::clone(row));
                let (rows, last) = part_of(self.tasks(), from, most, row);
                (rows, last.map_or(RowsPosition::Over, RowsPosition::Tasks))
            }
            RowsPosition::Over => (Vec::new(), RowsPosition::Over),
        };
        RowsPart { rows, next, at: self.cursor() }
    }
}

/// The first rows from `from` on, and behind the last of them; `None` if no more follow.
fn part_of<K: Copy + Ord, V>(
    rows: &BTreeMap<K, V>,
    from: Bound<K>,
    most: usize,
    row: impl Fn(&K, &V) -> MirrorRow,
) -> (Vec<MirrorRow>, Option<Bound<K>>) {
    let (mut part, mut last) = (Vec::new(), None);
    for (key, value) in rows.range((from, Bound::Unbounded)).take(most) {
        part.push(row(key, value));
        last = Some(*key);
    }
    let next = last.filter(|_| part.len() >= most).map(Bound::Excluded);
    (part, next)
}

#[cfg(test)]
mod tests {
    use borough_model::Delta;

    use super::*;
    use crate::journal::Listed;

    fn task(job: u64, index: u32) -> Delta {
        Delta::Task { row: TaskRow::never_placed(TaskId { job: JobId(job), index }) }
    }

    #[test]
    fn the_parts_have_each_row_once_and_no_part_has_more_than_it_may() {
        let mut state = MirrorState::default();
        for delta in (0..100).map(|number| task(number / 10, u32::try_from(number % 10).unwrap())) {
            state.list(Listed::Row(Box::new(delta)));
        }
        for node in 1..=7 {
            let alloc = NodeAlloc::default();
            state.list(Listed::Row(Box::new(Delta::NodeAlloc { node: NodeId(node), alloc })));
        }
        for most in [1, 7, 33, 1_000] {
            let (mut at, mut tasks, mut allocs) = (RowsPosition::BEGIN, Vec::new(), 0);
            while at != RowsPosition::Over {
                let part = state.rows_part(at, most);
                assert!(part.rows.len() <= most && part.next != at, "{at:?}");
                at = part.next;
                for row in part.rows {
                    match row {
                        MirrorRow::Task(row) => tasks.push(row.id),
                        MirrorRow::Alloc(..) => allocs += 1,
                        other => panic!("{other:?} was never listed"),
                    }
                }
            }
            assert_eq!(tasks, state.tasks().keys().copied().collect::<Vec<_>>());
            assert_eq!(allocs, 7);
        }
    }
}

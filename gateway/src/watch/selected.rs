//! What a list of events with a selector is about: the jobs and nodes that meet it now. If they are few, the index of
//! the journal skips the entries that concern none of them.

use std::ops::Bound;
use std::sync::Arc;

use borough_model::node::NodeRow;
use borough_model::{JobId, JobRow};
use borough_store::journal::Cursor;
use borough_store::mirror::StoredSpec;

use super::change::WatchScope;
use crate::cell::{CellContext, EventSubject};
use crate::select::{JobSelection, node_meets};

/// Subjects that the index is asked for. With more, most blocks of the journal concern one of them.
const SUBJECTS_MAX: usize = 64;
/// Jobs that are looked at for their labels. With more, reading the journal costs no more.
const JOBS_MAX: usize = 100_000;
/// Jobs, or nodes, that are looked at under one hold of the mirror's lock.
const PART_ROWS: usize = 1_024;

/// The subjects of a filter. An entry that it wants is about all of `all`, and about one of `one_of` if there is one.
#[derive(Debug)]
pub(super) struct WantedSubjects {
    all: Vec<EventSubject>,
    /// `None`: too many, or any.
    one_of: Option<Vec<EventSubject>>,
}

impl WantedSubjects {
    pub(super) async fn of(cell: &CellContext, filter: &WatchScope) -> Self {
        let all = filter.subjects().collect();
        let one_of = if filter.selector().is_empty() { None } else { selected(cell, filter).await };
        Self { all, one_of }
    }

    /// Returns true if nothing can be wanted.
    pub(super) fn is_none(&self) -> bool {
        self.one_of.as_ref().is_some_and(Vec::is_empty)
    }

    /// The end of what must be read, among the entries before `end`.
    pub(super) fn skip(&self, cell: &CellContext, end: Bound<Cursor>) -> Bound<Cursor> {
        let Some(one_of) = &self.one_of else {
            return if self.all.is_empty() { end } else { cell.events.skip(end, &self.all) };
        };
        let of = |subject: &EventSubject| {
            let wanted: Vec<EventSubject> = self.all.iter().copied().chain([*subject]).collect();
            cell.events.skip(end, &wanted)
        };
        one_of.iter().map(of).max_by_key(bound_order).unwrap_or(end)
    }
}

/// Bounds of an end in the order of what they leave to read.
fn bound_order(end: &Bound<Cursor>) -> (bool, Option<Cursor>, bool) {
    match *end {
        Bound::Unbounded => (true, None, true),
        Bound::Included(at) => (false, Some(at), true),
        Bound::Excluded(at) => (false, Some(at), false),
    }
}

/// The jobs and nodes that meet the selector of a filter; `None` if they are many.
async fn selected(cell: &CellContext, filter: &WatchScope) -> Option<Vec<EventSubject>> {
    let mut subjects = jobs_selected(cell, filter).await?;
    subjects.extend(nodes_selected(cell, filter).await?);
    (subjects.len() <= SUBJECTS_MAX).then_some(subjects)
}

async fn jobs_selected(cell: &CellContext, filter: &WatchScope) -> Option<Vec<EventSubject>> {
    let mut selection = JobSelection::new(filter.selector());
    let (mut subjects, mut from, mut looked) = (Vec::new(), Bound::Unbounded, 0_usize);
    loop {
        let part: Vec<(Arc<JobRow>, Option<StoredSpec>)> = cell.mirror.read(|state| {
            let rows = state.jobs().range((from, Bound::<JobId>::Unbounded)).take(PART_ROWS);
            rows.map(|(_, row)| (Arc::clone(row), state.stored_spec_of(row))).collect()
        });
        let Some((last, _)) = part.last() else { return Some(subjects) };
        from = Bound::Excluded(last.id);
        looked = looked.saturating_add(part.len());
        for (row, stored) in part {
            if filter.job_wanted(&row.user, &row.name) && selection.has(&row, stored) {
                subjects.push(EventSubject::job(row.name.as_str()));
            }
        }
        subjects.sort_unstable();
        subjects.dedup();
        if subjects.len() > SUBJECTS_MAX || looked > JOBS_MAX {
            return None;
        }
        tokio::task::yield_now().await;
    }
}

async fn nodes_selected(cell: &CellContext, filter: &WatchScope) -> Option<Vec<EventSubject>> {
    let (mut subjects, mut after) = (Vec::new(), None::<String>);
    // No entry about a node is of a job.
    if filter.names_job() {
        return Some(subjects);
    }
    loop {
        let part: Vec<Arc<NodeRow>> =
            cell.mirror.read(|state| state.nodes_behind(after.as_deref()).take(PART_ROWS).cloned().collect());
        let Some(last) = part.last() else { return Some(subjects) };
        after = Some(last.name.to_string());
        let meets =
            |row: &&Arc<NodeRow>| filter.node_wanted(Some(&row.name)) && node_meets(filter.selector(), row);
        subjects.extend(part.iter().filter(meets).map(|row| EventSubject::node(row.name.as_str())));
        if subjects.len() > SUBJECTS_MAX {
            return None;
        }
        tokio::task::yield_now().await;
    }
}

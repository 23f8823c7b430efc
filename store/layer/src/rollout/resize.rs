//! The step of a rollout that resizes running attempts in place.

use borough_kv::Transaction;
use borough_model::job::{JobEvent, JobRow, JobSpec};
use borough_model::node::node_resizes;
use borough_model::resize::with_cards_of;
use borough_model::resource::resources_most;
use borough_model::rollout::{AttemptFits, RolloutRules};
use borough_model::task::{Attempt, ResizeNext, ResizeOrder, ResizeRefused, TaskEvent, resize_next};
use borough_model::{Incarnation, JobId, TaskId};

use super::rollout_at;
use crate::error::StoreResult;
use crate::job::{job_event, job_get, job_spec_in_force};
use crate::journal::ChangeSet;
use crate::task::TaskBook;

/// Orders that running attempts of a job are resized to what the version in force asks for. Each is charged the most of
/// that and of what it has, from this commit on. A node without room gets no order: the row says what is missing, and
/// the rollout replaces the attempt. Does nothing if the job's row has another revision by now. Returns how many orders
/// it has given.
pub async fn rollout_resize(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    revision: u64,
    attempts: &[(TaskId, Incarnation)],
) -> StoreResult<usize> {
    let row = job_get(tx, changes.space(), job).await?;
    let Some(rollout) = rollout_at(&row, revision) else { return Ok(0) };
    let spec = job_spec_in_force(tx, changes.space(), &row).await?;
    let rules = RolloutRules::of_job(&spec, rollout, &row);
    let mut book = TaskBook::read(tx, changes.space(), attempts.iter().map(|(task, _)| *task)).await?;
    let mut step = ResizeStep {
        fits: AttemptFits::new(row.spec_version, spec.clone().into()),
        row: &row,
        spec: &spec,
        rules,
        now_ms: changes.at_ms(),
    };
    let mut ordered = 0_usize;
    for &(task, incarnation) in attempts {
        let Some((attempt, order)) = step.order(&book, task, incarnation) else { continue };
        let event = TaskEvent::ResizeOrdered { attempt, order: Box::new(order.clone()) };
        // Another state by now: the next look decides.
        let is_done = book.apply(task, &event, changes.at_ms())?.unwrap_or(false);
        ordered = ordered.saturating_add(usize::from(is_done && order.refused.is_none()));
    }
    let stepped = Box::new(rollout.stepped(0));
    job_event(tx, changes, &row, &JobEvent::RolloutSet { rollout: stepped })?;
    book.write(tx, changes).await?;
    Ok(ordered)
}

/// One step, over the rows that it reads.
struct ResizeStep<'s> {
    fits: AttemptFits,
    row: &'s JobRow,
    spec: &'s JobSpec,
    rules: RolloutRules,
    now_ms: i64,
}

impl ResizeStep<'_> {
    /// The order for an attempt; `None` if it is another one by now, or has nothing to be resized.
    fn order(
        &mut self,
        book: &TaskBook,
        task: TaskId,
        incarnation: Incarnation,
    ) -> Option<(Attempt, ResizeOrder)> {
        let row = book.task(task).filter(|row| row.incarnation == incarnation)?;
        if self.rules.canaries > 0 && task.index < self.rules.count {
            // It keeps its version.
            return None;
        }
        let fit = self.fits.fit(row, |version| book.spec(task.job, version).cloned());
        let next = resize_next(row, fit.resize_wish(), self.rules.version, self.now_ms);
        let node = row.node.filter(|_| next == Some(ResizeNext::Order))?;
        if !book.node(node).is_some_and(node_resizes) {
            return None;
        }
        // By the specs and not by the charge: a process of an earlier version may have dropped an order.
        let charge = &row.charge.resources;
        let before = book.spec(task.job, row.spec_version)?.resources_for(task.index);
        let in_force = with_cards_of(&before, charge);
        let granted = with_cards_of(&self.spec.resources_for(task.index), charge);
        let missing = book.resize_shortfall(task, &resources_most(&in_force, &granted));
        let refused = (!missing.is_empty()).then(|| {
            let texts: Vec<String> = missing.iter().map(ToString::to_string).collect();
            ResizeRefused::NoRoom { missing: texts.join("; ") }
        });
        let attempt = Attempt { node, incarnation };
        Some((attempt, ResizeOrder { version: self.row.spec_version, granted, in_force, refused }))
    }
}

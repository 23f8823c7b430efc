//! Questions of owners: what would become of a job. The answer is made as the division is, from what the cells say of
//! their room now, and promises nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::{Idempotency, Watch};
use borough_model::FederatedJobId;
use borough_model::federation::{
    FederatedAnswer, FederatedJobRow, FederatedQuestion, FederatedState, parts_finished,
};
use borough_store::StoreResult;
use borough_store::federated::{federated_answer, federated_question_end, federated_questions_open};

use super::led::{LedJob, LedJobs, Rooms};
use super::{Division, DivisionFlight};

/// A question that nobody has removed for so long is removed: whoever asked is gone.
const QUESTION_MAX: Duration = Duration::from_secs(60);

/// The questions that are known.
#[derive(Default)]
pub(super) struct Questions {
    /// Ends when there may be more. `None`: they have to be read.
    watch: Option<Watch>,
    /// Since when each is known, by the monotonic clock, and what it asks if it is not answered yet.
    open: BTreeMap<FederatedJobId, (Duration, Option<FederatedQuestion>)>,
}

impl Questions {
    /// Waits until there may be more questions.
    pub(super) async fn moved(&mut self) {
        let Some(watch) = &mut self.watch else { return std::future::pending().await };
        // After a failure they are read again, too.
        drop(watch.await);
        self.watch = None;
    }
}

impl Division<'_> {
    /// Reads the questions if there may be more, and asks the cells of those that are not answered.
    pub(super) async fn questions_begin(&mut self) -> StoreResult<()> {
        let (now, now_ms, space) = (self.now(), self.now_ms(), &self.federation.config.space);
        if self.questions.watch.is_none() {
            let open = self.federation.db.run(
                "federated_questions_open",
                Idempotency::ReadOnly,
                |tx, _| async move { federated_questions_open(&tx, space).await },
            );
            let (open, watch) = open.await?;
            let mut known = std::mem::take(&mut self.questions.open);
            for (id, question) in open {
                let asked = question.answer.is_none().then_some(question);
                self.questions.open.insert(id, known.remove(&id).unwrap_or((now, asked)));
            }
            self.questions.watch = Some(watch);
        }
        let is_old = |since: Duration| now.saturating_sub(since) >= QUESTION_MAX;
        let old = self.questions.open.iter().filter(|(_, (since, _))| is_old(*since));
        let old: Vec<FederatedJobId> = old.map(|(id, _)| *id).collect();
        for id in old {
            let end = |tx| async move { federated_question_end(&tx, space, id).await };
            self.writer.run("federated_question_end", end).await?;
            self.questions.open.remove(&id);
        }
        // Before the first looks nobody knows the cells.
        if self.looked.begun.is_none() {
            return Ok(());
        }
        let asked = self.questions.open.iter_mut().filter_map(|(id, (_, asked))| Some((*id, asked.take()?)));
        let asked: Vec<(FederatedJobId, FederatedQuestion)> = asked.collect();
        for (id, question) in asked {
            let planned = self.led.planned(id, question, now_ms);
            let rooms = self.rooms(&planned);
            self.flights.push(Box::pin(async move {
                DivisionFlight::Question { id, planned: Box::new(planned), rooms: rooms.await }
            }));
        }
        Ok(())
    }

    /// Answers a question with what the cells have said.
    pub(super) async fn question_answer(
        &mut self,
        id: FederatedJobId,
        planned: &LedJob,
        rooms: &Rooms,
    ) -> StoreResult<()> {
        let change = self.led.divided(planned, &self.cells, rooms, self.now_ms());
        let mut parts = planned.parts.clone();
        change.gone.iter().for_each(|cell| drop(parts.remove(cell)));
        parts.extend(change.parts.into_iter().map(|part| (part.cell.clone(), part)));
        let answer = &FederatedAnswer {
            parts: parts.into_values().collect(),
            status: change.status.unwrap_or_default(),
        };
        let space = &self.federation.config.space;
        let write = |tx| async move { federated_answer(&tx, space, id, answer).await };
        self.writer.run("federated_answer", write).await
    }
}

impl LedJobs {
    /// A job as it would be if its owner did now what the question is about. A new one has the id `new`.
    fn planned(&self, new: FederatedJobId, question: FederatedQuestion, now_ms: i64) -> LedJob {
        let FederatedQuestion { spec, rebalance, .. } = question;
        let known = self.jobs.values().find(|job| {
            let is_of_name = job.row.user() == &spec.job.user && job.row.name() == &spec.job.name;
            let is_over = parts_finished(&job.row, &job.status, &job.parts);
            is_of_name && job.row.state == FederatedState::Active && !is_over
        });
        let Some(known) = known else {
            return LedJob::of(&Arc::new(FederatedJobRow::first(new, spec, now_ms, String::new())));
        };
        let mut planned = known.clone();
        if let Some(which) = rebalance {
            planned.row_set(&Arc::new(FederatedJobRow::clone(&known.row).rebalanced(which)));
        } else if let Some(row) = known.row.run_with(&spec, &known.status, now_ms, String::new()) {
            planned.row_set(&Arc::new(row));
        }
        planned
    }
}

#[cfg(test)]
mod tests {
    use borough_model::Name;
    use borough_model::federation::{FederatedJob, FederationSpec, RebalancedTasks, SplitMode};
    use borough_model::job::{JobKind, JobSpec};

    use super::*;
    use crate::divide::led::Promised;

    fn spec(count: u32, word: &str) -> FederatedJob {
        let name = |text: &str| Name::new(text).unwrap();
        let mut job = JobSpec::defaults(name("ada"), name("web"), JobKind::Service, vec!["true".to_owned()]);
        job.count = count;
        job.task.environment.insert("WORD".to_owned(), word.to_owned());
        FederatedJob { job, federation: FederationSpec::default() }
    }

    fn question(spec: FederatedJob) -> FederatedQuestion {
        FederatedQuestion { spec, asked_ms: 1, answer: None, rebalance: None }
    }

    #[test]
    fn a_plan_is_of_the_job_that_has_the_name_and_leaves_it_as_it_is() {
        let row = FederatedJobRow::first(FederatedJobId(7), spec(3, "a"), 1, "user/ada".to_owned());
        let rows = [((row.user().clone(), row.name().clone()), Arc::new(row.clone()))].into();
        let mut led = LedJobs::default();
        led.refresh(&rows, &mut Promised::default());
        let of = |spec: FederatedJob| {
            let planned = led.planned(FederatedJobId(9), question(spec), 5);
            (planned.row.id.0, planned.row.version, planned.row.revision)
        };
        assert_eq!(of(spec(3, "a")), (7, 1, 1));
        assert_eq!(of(spec(4, "a")), (7, 1, 2), "a count is no version");
        assert_eq!(of(spec(3, "b")), (7, 2, 2));
        let mut other = spec(3, "a");
        other.job.name = Name::new("other").unwrap();
        assert_eq!(of(other), (9, 1, 1));
        let rebalance = Some(RebalancedTasks::Stuck);
        let planned =
            led.planned(FederatedJobId(9), FederatedQuestion { rebalance, ..question(spec(3, "a")) }, 5);
        assert_eq!((planned.row.id.0, planned.row.split_mode(0)), (7, SplitMode::RebalanceStuck));
        assert_eq!(planned.row.split_mode(1), SplitMode::Again, "an order is carried out once");
        assert_eq!(*led.jobs[&FederatedJobId(7)].row, row);
        // One that is being stopped is run again as another one.
        let stopping = FederatedJobRow { state: FederatedState::Stopping, ..row };
        led.refresh(
            &[((stopping.user().clone(), stopping.name().clone()), Arc::new(stopping))].into(),
            &mut Promised::default(),
        );
        assert_eq!(led.planned(FederatedJobId(9), question(spec(3, "a")), 5).row.id, FederatedJobId(9));
    }
}

//! Carries out decisions: each action in transactions of its own, under the lease.

use borough_kv::Transaction;
use borough_model::job::{CanaryHealth, RolloutFailure};
use borough_model::node::Voucher;
use borough_model::task::StopReason;
use borough_model::{Incarnation, JobId, TaskId};
use borough_store::StoreResult;
use borough_store::job::{job_dependencies_check, job_tasks_gone};
use borough_store::journal::ChangeSet;
use borough_store::lease::LeaseWriter;
use borough_store::node::{DeclaredLost, gateway_live_remove, node_declare_lost};
use borough_store::rollout::{
    rollout_adopt, rollout_canaries, rollout_done, rollout_fail, rollout_progress, rollout_promote,
    rollout_replace, rollout_resize, rollout_retry, rollout_surge,
};
use borough_store::task::{
    TaskMoves, moves_surge_begin, moves_surge_end, task_node_lost, task_promises_expire,
    task_reschedule_lost, task_stop_begin, task_unwanted_stop, task_wanted_revive, tasks_move,
};

use crate::daemon::nodes_serve;
use crate::decide::ControllerAction;
use crate::gang::gang_end;
use crate::liveness::Silent;

/// Tasks in one transaction.
const TASKS_MAX: usize = 256;
/// Jobs in one transaction, and how many tasks of each at most.
pub(crate) const JOBS_MAX: usize = 64;
const JOB_TASKS_MAX: usize = TASKS_MAX / JOBS_MAX;
/// Jobs with moves in one transaction: it reads all rows of a job with up to 1,024 tasks.
const MOVED_JOBS_MAX: usize = 8;

/// Whether an action is one of a job, of which several share a transaction: thousands of jobs that end at once then
/// cost a few commits.
pub(crate) fn acts_together(action: &ControllerAction) -> bool {
    match action {
        ControllerAction::TasksUnwanted(_)
        | ControllerAction::JobEnd(_)
        | ControllerAction::JobDependencies(_) => true,
        ControllerAction::TasksRevive(_)
        | ControllerAction::NodeTasksLost(_)
        | ControllerAction::GangEnd(_)
        | ControllerAction::TasksReschedule(..)
        | ControllerAction::TasksMove(..)
        | ControllerAction::TasksWithdraw(..)
        | ControllerAction::AllocsFollow(..)
        | ControllerAction::NodesServe(..)
        | ControllerAction::NodeDrain(_)
        | ControllerAction::RolloutProgress(..)
        | ControllerAction::RolloutRetry(..)
        | ControllerAction::RolloutAdopt(..)
        | ControllerAction::RolloutResize(..)
        | ControllerAction::RolloutReplace(..)
        | ControllerAction::RolloutCanaries(..)
        | ControllerAction::RolloutPromote(..)
        | ControllerAction::RolloutSurge(..)
        | ControllerAction::RolloutDone(..)
        | ControllerAction::RolloutFail(..)
        | ControllerAction::SurgeBegin(..)
        | ControllerAction::SurgeEnd(..)
        | ControllerAction::PromisesExpire(..) => false,
    }
}

/// Carries out the actions of a controller that leads.
#[derive(Clone)]
pub(crate) struct ActionExecutor {
    /// Writes under the lease by which the controller leads.
    pub writer: LeaseWriter,
}

/// Moves for one transaction each: at most [`TASKS_MAX`] attempts, of [`MOVED_JOBS_MAX`] jobs.
fn moves_chunks(moves: Vec<TaskMoves>) -> Vec<Vec<TaskMoves>> {
    let mut chunks: Vec<Vec<TaskMoves>> = Vec::new();
    let mut tasks = 0_usize;
    for of_job in moves {
        for attempts in of_job.attempts.chunks(TASKS_MAX) {
            let part = TaskMoves { attempts: attempts.to_vec(), ..of_job };
            tasks = tasks.saturating_add(attempts.len());
            match chunks.last_mut() {
                Some(last) if tasks <= TASKS_MAX && last.len() < MOVED_JOBS_MAX => last.push(part),
                _ => {
                    tasks = attempts.len();
                    chunks.push(vec![part]);
                }
            }
        }
    }
    chunks
}

/// The action of the journal's entry of a transaction.
fn action_name(actions: &[ControllerAction]) -> &'static str {
    match actions.first() {
        Some(ControllerAction::TasksUnwanted(_)) => "task_stop",
        Some(ControllerAction::JobDependencies(_)) => "job_dependencies",
        _ => "job_end",
    }
}

impl ActionExecutor {
    /// Carries out one action, in as many transactions as needed.
    pub(crate) async fn act(&self, action: ControllerAction) -> StoreResult<()> {
        let writer = &self.writer;
        match action {
            ControllerAction::TasksUnwanted(job) => self.tasks_unwanted(job).await,
            ControllerAction::TasksRevive(job) => self.tasks_revive(job).await,
            ControllerAction::NodesServe(job, steps, serve, lacking) => {
                nodes_serve(writer, job, steps, &serve, lacking).await
            }
            ControllerAction::JobEnd(job) => {
                let end = |tx: Transaction, mut changes: ChangeSet| async move {
                    Ok((job_tasks_gone(&tx, &mut changes, job).await?, changes))
                };
                writer.change("job_end", end).await.map(drop)
            }
            ControllerAction::JobDependencies(job) => {
                let check = |tx: Transaction, mut changes: ChangeSet| async move {
                    Ok((job_dependencies_check(&tx, &mut changes, job).await?, changes))
                };
                writer.change("job_dependencies", check).await.map(drop)
            }
            ControllerAction::NodeTasksLost(node) => {
                let lose = |tx: Transaction, mut changes: ChangeSet, after| async move {
                    Ok((task_node_lost(&tx, &mut changes, node, after, TASKS_MAX).await?, changes))
                };
                writer.sweep("task_node_lost", lose).await
            }
            ControllerAction::GangEnd(gang) => gang_end(writer, gang).await,
            ControllerAction::TasksReschedule(node, attempts) => {
                let reschedule = |tx: Transaction, mut changes: ChangeSet, attempts: Vec<_>| async move {
                    Ok((task_reschedule_lost(&tx, &mut changes, node, &attempts).await?, changes))
                };
                self.attempts("task_reschedule", &attempts, reschedule).await
            }
            ControllerAction::PromisesExpire(node, attempts) => {
                let expire = |tx: Transaction, mut changes: ChangeSet, attempts: Vec<_>| async move {
                    Ok((task_promises_expire(&tx, &mut changes, node, &attempts).await?, changes))
                };
                self.attempts("task_promise", &attempts, expire).await
            }
            ControllerAction::RolloutProgress(job, at, at_ms) => self.rollout_progress(job, at, at_ms).await,
            ControllerAction::RolloutRetry(job, at, tasks) => self.rollout_retry(job, at, &tasks).await,
            ControllerAction::RolloutAdopt(job, at, tasks) => self.rollout_adopt(job, at, &tasks).await,
            ControllerAction::RolloutResize(job, at, tasks) => self.rollout_resize(job, at, &tasks).await,
            ControllerAction::RolloutReplace(job, at, tasks) => self.rollout_replace(job, at, &tasks).await,
            ControllerAction::RolloutCanaries(job, revision, health) => {
                self.rollout_canaries(job, revision, health).await
            }
            ControllerAction::RolloutPromote(job, revision) => self.rollout_promote(job, revision).await,
            ControllerAction::RolloutSurge(job, revision) => self.rollout_surge(job, revision).await,
            ControllerAction::RolloutDone(job, at, skipped) => self.rollout_done(job, at, skipped).await,
            ControllerAction::RolloutFail(job, revision, failure) => {
                self.rollout_fail(job, revision, failure).await
            }
            ControllerAction::SurgeBegin(job, revision, surge) => {
                self.surge_begin(job, revision, surge).await
            }
            ControllerAction::TasksWithdraw(attempts) => {
                self.tasks_end(&attempts, StopReason::NodeLeft).await
            }
            ControllerAction::AllocsFollow(attempts) => {
                self.tasks_end(&attempts, StopReason::AllocLeft).await
            }
            ControllerAction::SurgeEnd(job, revision) => self.surge_end(job, revision).await,
            // [`DrainCheck`](crate::drain::DrainCheck) makes moves of it: tasks without room elsewhere stay.
            ControllerAction::NodeDrain(_) => Ok(()),
            ControllerAction::TasksMove(reason, moves) => self.tasks_move(reason, moves).await,
        }
    }

    /// Carries out actions of jobs ([`acts_together`]) in one transaction. Returns those with more tasks than fit: they
    /// are done by themselves afterwards.
    ///
    /// # Errors
    ///
    /// One of them does not apply. Nothing was done.
    pub(crate) async fn act_together(
        &self,
        actions: &[ControllerAction],
    ) -> StoreResult<Vec<ControllerAction>> {
        let all = |tx: Transaction, mut changes: ChangeSet| async move {
            let mut left = Vec::new();
            for action in actions {
                match action {
                    ControllerAction::TasksUnwanted(job) => {
                        let stopped = task_unwanted_stop(&tx, &mut changes, *job, None, JOB_TASKS_MAX);
                        left.extend(stopped.await?.next.map(|_| action.clone()));
                    }
                    ControllerAction::JobEnd(job) => drop(job_tasks_gone(&tx, &mut changes, *job).await?),
                    ControllerAction::JobDependencies(job) => {
                        drop(job_dependencies_check(&tx, &mut changes, *job).await?);
                    }
                    other => left.push(other.clone()),
                }
            }
            Ok((left, changes))
        };
        self.writer.change(action_name(actions), all).await
    }

    /// Declares a node lost, unless it has shown a sign of life since.
    pub(crate) async fn node_lost(&self, silent: &Silent) -> StoreResult<DeclaredLost> {
        let declare = |tx: Transaction, mut changes: ChangeSet| async move {
            let outcome = node_declare_lost(&tx, &mut changes, silent.node, silent.observed.as_ref()).await?;
            Ok((outcome, changes))
        };
        let outcome = self.writer.change("node_declare_lost", declare).await?;
        // The row of a node is hundreds of words: its name says enough.
        if let DeclaredLost::Lost(row) = &outcome {
            tracing::warn!(node = %row.name, id = %row.id, "a silent node was declared lost");
        }
        Ok(outcome)
    }

    /// Removes the row of a gateway that has ended long ago, unless it is back.
    pub(crate) async fn gateway_remove(&self, voucher: Voucher, beat: u64) -> StoreResult<()> {
        let remove = |tx: Transaction, changes: ChangeSet| async move {
            Ok((gateway_live_remove(&tx, changes.space(), voucher, beat).await?, changes))
        };
        self.writer.change("gateway_live_remove", remove).await.map(drop)
    }

    /// In one transaction, whatever the number of attempts: the next step is decided by the state after all of them. So
    /// do the resizes and the replacements.
    async fn rollout_adopt(
        &self,
        job: JobId,
        revision: u64,
        attempts: &[(TaskId, Incarnation)],
    ) -> StoreResult<()> {
        let adopt = async |tx: Transaction, mut changes: ChangeSet| {
            Ok((rollout_adopt(&tx, &mut changes, job, revision, attempts).await?, changes))
        };
        self.writer.change("rollout_adopt", adopt).await.map(drop)
    }

    async fn rollout_retry(
        &self,
        job: JobId,
        revision: u64,
        tasks: &[(TaskId, Incarnation)],
    ) -> StoreResult<()> {
        let retry = |tx: Transaction, mut changes: ChangeSet| async move {
            Ok((rollout_retry(&tx, &mut changes, job, revision, tasks).await?, changes))
        };
        self.writer.change("rollout_retry", retry).await.map(drop)
    }

    async fn rollout_progress(&self, job: JobId, revision: u64, progress_ms: i64) -> StoreResult<()> {
        let record = |tx: Transaction, mut changes: ChangeSet| async move {
            Ok((rollout_progress(&tx, &mut changes, job, revision, progress_ms).await?, changes))
        };
        self.writer.change("rollout_progress", record).await
    }

    async fn rollout_resize(
        &self,
        job: JobId,
        revision: u64,
        attempts: &[(TaskId, Incarnation)],
    ) -> StoreResult<()> {
        let resize = async |tx: Transaction, mut changes: ChangeSet| {
            Ok((rollout_resize(&tx, &mut changes, job, revision, attempts).await?, changes))
        };
        self.writer.change("rollout_resize", resize).await.map(drop)
    }

    async fn rollout_replace(
        &self,
        job: JobId,
        revision: u64,
        attempts: &[(TaskId, Incarnation)],
    ) -> StoreResult<()> {
        let replace = |tx: Transaction, mut changes: ChangeSet| async move {
            Ok((rollout_replace(&tx, &mut changes, job, revision, attempts).await?, changes))
        };
        self.writer.change("rollout_replace", replace).await.map(drop)
    }

    async fn rollout_canaries(&self, job: JobId, revision: u64, health: CanaryHealth) -> StoreResult<()> {
        let record = |tx: Transaction, mut changes: ChangeSet| async move {
            Ok((rollout_canaries(&tx, &mut changes, job, revision, health).await?, changes))
        };
        self.writer.change("rollout_canaries", record).await
    }

    async fn rollout_promote(&self, job: JobId, revision: u64) -> StoreResult<()> {
        let promote = |tx: Transaction, mut changes: ChangeSet| async move {
            Ok((rollout_promote(&tx, &mut changes, job, revision).await?, changes))
        };
        self.writer.change("rollout_promote", promote).await
    }

    async fn rollout_surge(&self, job: JobId, revision: u64) -> StoreResult<()> {
        let surge = |tx: Transaction, mut changes: ChangeSet| async move {
            Ok((rollout_surge(&tx, &mut changes, job, revision).await?, changes))
        };
        self.writer.change("rollout_surge", surge).await
    }

    async fn rollout_done(&self, job: JobId, revision: u64, skipped: u32) -> StoreResult<()> {
        let done = |tx: Transaction, mut changes: ChangeSet| async move {
            Ok((rollout_done(&tx, &mut changes, job, revision, skipped).await?, changes))
        };
        self.writer.change("rollout_done", done).await
    }

    async fn rollout_fail(&self, job: JobId, revision: u64, failure: RolloutFailure) -> StoreResult<()> {
        let fail = |tx: Transaction, mut changes: ChangeSet| async move {
            Ok((rollout_fail(&tx, &mut changes, job, revision, failure).await?, changes))
        };
        self.writer.change("rollout_fail", fail).await
    }

    async fn tasks_move(&self, reason: StopReason, moves: Vec<TaskMoves>) -> StoreResult<()> {
        for together in moves_chunks(moves) {
            let together = &together;
            let stop = |tx: Transaction, mut changes: ChangeSet| async move {
                Ok((tasks_move(&tx, &mut changes, together, reason).await?, changes))
            };
            self.writer.change("task_move", stop).await?;
        }
        Ok(())
    }

    async fn surge_begin(&self, job: JobId, revision: u64, surge: u32) -> StoreResult<()> {
        let begin = |tx: Transaction, mut changes: ChangeSet| async move {
            Ok((moves_surge_begin(&tx, &mut changes, job, revision, surge).await?, changes))
        };
        self.writer.change("task_surge_begin", begin).await
    }

    async fn surge_end(&self, job: JobId, revision: u64) -> StoreResult<()> {
        let end = |tx: Transaction, mut changes: ChangeSet| async move {
            Ok((moves_surge_end(&tx, &mut changes, job, revision).await?, changes))
        };
        self.writer.change("task_surge_end", end).await
    }

    /// Revives the tasks that a job had given up and wants again.
    async fn tasks_revive(&self, job: JobId) -> StoreResult<()> {
        let revive = |tx: Transaction, mut changes: ChangeSet, after| async move {
            Ok((task_wanted_revive(&tx, &mut changes, job, after, TASKS_MAX).await?, changes))
        };
        self.writer.sweep("task_revive", revive).await
    }

    /// Ends the tasks of a job that it does not want any more.
    async fn tasks_unwanted(&self, job: JobId) -> StoreResult<()> {
        let stop = |tx: Transaction, mut changes: ChangeSet, after| async move {
            Ok((task_unwanted_stop(&tx, &mut changes, job, after, TASKS_MAX).await?, changes))
        };
        self.writer.sweep("task_stop", stop).await
    }

    /// Ends attempts that no budget holds: of daemon jobs whose nodes are not served any more, and in allocs that end.
    async fn tasks_end(&self, attempts: &[(TaskId, Incarnation)], reason: StopReason) -> StoreResult<()> {
        let stop = |tx: Transaction, mut changes: ChangeSet, attempts: Vec<_>| async move {
            Ok((task_stop_begin(&tx, &mut changes, &attempts, reason).await?, changes))
        };
        self.attempts("task_move", attempts, stop).await
    }

    /// Acts on attempts, at most [`TASKS_MAX`] in one transaction.
    async fn attempts<T, Fut>(
        &self,
        action: &'static str,
        attempts: &[(TaskId, Incarnation)],
        step: impl Fn(Transaction, ChangeSet, Vec<(TaskId, Incarnation)>) -> Fut,
    ) -> StoreResult<()>
    where
        Fut: Future<Output = StoreResult<(T, ChangeSet)>>,
    {
        for chunk in attempts.chunks(TASKS_MAX) {
            self.writer.change(action, |tx, changes| step(tx, changes, chunk.to_vec())).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use borough_kv::env::{Clock, ManualClock, SeededRng};
    use borough_model::JobId;
    use borough_model::job::{JobKind, JobState};
    use borough_store::cell::CellMeta;
    use borough_store::check::cell_rows_read;
    use borough_store::job::{job_stop, job_submit};
    use borough_store::lease::{LeaseAcquired, LeaseClaim, lease_acquire};
    use borough_testkit::{MemoryStore, OpenCell, change, job_spec};

    use super::*;

    async fn stopping_jobs(cell: &OpenCell) -> usize {
        let rows = cell.read(async |tx, space| cell_rows_read(tx, space).await).await.unwrap();
        rows.jobs.values().filter(|row| row.state == JobState::Stopping).count()
    }

    #[tokio::test]
    async fn of_actions_together_all_are_done_or_none() {
        let (clock, rng): (Arc<dyn Clock>, _) = (ManualClock::at(1_000), SeededRng::shared(1));
        let store = MemoryStore::new(Arc::clone(&clock), rng);
        let cell = OpenCell::create(store.quiet(), &CellMeta::default()).await;
        for (id, name) in [(1, "one"), (2, "two")] {
            let spec = job_spec("ada", name, JobKind::Batch);
            let stopped = cell.change(change(id, "stop", 1_000), async |tx, changes| {
                let job = job_submit(tx, changes, &spec, JobId(u64::try_from(id).unwrap())).await?.job;
                job_stop(tx, changes, job).await
            });
            stopped.await.unwrap();
        }
        let claim = LeaseClaim {
            role: "controller".to_owned(),
            shard: 0,
            holder: "c".to_owned(),
            duration_ms: 5_000,
            generation: 0,
            expired: None,
        };
        let claimed = cell.write(async |tx, space| lease_acquire(tx, space, &claim).await).await;
        let LeaseAcquired::Held(lease) = claimed.unwrap() else { panic!("nobody else has it") };
        let OpenCell { db, space } = &cell;
        let (db, space, rng) = (db.clone(), space.clone(), SeededRng::shared(2));
        let executor = ActionExecutor {
            writer: LeaseWriter { db, space, lease, actor: "controller".to_owned(), clock, rng },
        };
        let end = |id| ControllerAction::JobEnd(JobId(id));
        executor.act_together(&[end(1), end(2), end(99)]).await.unwrap_err();
        assert_eq!(stopping_jobs(&cell).await, 2);
        assert_eq!(executor.act_together(&[end(1), end(2)]).await.unwrap(), []);
        assert_eq!(stopping_jobs(&cell).await, 0);
    }
}

//! Carries out decisions: each action in transactions of its own, under the lease.

use borough_kv::Transaction;
use borough_model::node::Voucher;
use borough_model::{Incarnation, TaskId};
use borough_store::StoreResult;
use borough_store::job::{job_dependencies_check, job_tasks_gone};
use borough_store::journal::ChangeSet;
use borough_store::lease::LeaseWriter;
use borough_store::node::{DeclaredLost, gateway_live_remove, node_declare_lost};
use borough_store::task::{
    task_node_lost, task_promises_expire, task_reschedule_lost, task_stop_begin, task_unwanted_stop,
    task_wanted_revive,
};

use crate::decide::ControllerAction;
use crate::gang::gang_end;
use crate::liveness::Silent;

/// Tasks in one transaction.
const TASKS_MAX: usize = 256;

/// Carries out the actions of a controller that leads.
#[derive(Clone)]
pub(crate) struct ActionExecutor {
    /// Writes under the lease by which the controller leads.
    pub writer: LeaseWriter,
}

impl ActionExecutor {
    /// Carries out one action, in as many transactions as needed.
    pub(crate) async fn act(&self, action: ControllerAction) -> StoreResult<()> {
        let writer = &self.writer;
        match action {
            ControllerAction::TasksUnwanted(job) => {
                let stop = |tx: Transaction, mut changes: ChangeSet, after| async move {
                    Ok((task_unwanted_stop(&tx, &mut changes, job, after, TASKS_MAX).await?, changes))
                };
                writer.sweep("task_stop", stop).await
            }
            ControllerAction::TasksRevive(job) => {
                let revive = |tx: Transaction, mut changes: ChangeSet, after| async move {
                    Ok((task_wanted_revive(&tx, &mut changes, job, after, TASKS_MAX).await?, changes))
                };
                writer.sweep("task_revive", revive).await
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
            // [`departures_now`](crate::decide::departures_now) has split it before: tasks without room elsewhere stay.
            ControllerAction::TasksDrain(_) => Ok(()),
            ControllerAction::TasksMove(reason, attempts) => {
                let stop = |tx: Transaction, mut changes: ChangeSet, attempts: Vec<_>| async move {
                    Ok((task_stop_begin(&tx, &mut changes, &attempts, reason).await?, changes))
                };
                self.attempts("task_move", &attempts, stop).await
            }
        }
    }

    /// Declares a node lost, unless it has shown a sign of life since.
    pub(crate) async fn node_lost(&self, silent: &Silent) -> StoreResult<DeclaredLost> {
        let declare = |tx: Transaction, mut changes: ChangeSet| async move {
            let outcome = node_declare_lost(&tx, &mut changes, silent.node, silent.observed.as_ref()).await?;
            Ok((outcome, changes))
        };
        let outcome = self.writer.change("node_declare_lost", declare).await?;
        tracing::warn!(node = %silent.node, ?outcome, "a silent node was declared lost");
        Ok(outcome)
    }

    /// Removes the row of a gateway that has ended long ago, unless it is back.
    pub(crate) async fn gateway_remove(&self, voucher: Voucher, beat: u64) -> StoreResult<()> {
        let remove = |tx: Transaction, changes: ChangeSet| async move {
            Ok((gateway_live_remove(&tx, changes.space(), voucher, beat).await?, changes))
        };
        self.writer.change("gateway_live_remove", remove).await.map(drop)
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

//! Carries out decisions: each action in transactions of its own, under the lease.

use std::future::Future;
use std::sync::Arc;

use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, Idempotency, Transaction};
use borough_model::{Incarnation, JobId, TaskId};
use borough_store::job::{job_dependencies_check, job_remove, job_tasks_gone};
use borough_store::journal::{Change, ChangeSet};
use borough_store::lease::{HeldLease, lease_check};
use borough_store::node::node_declare_lost;
use borough_store::request::request_id_random;
use borough_store::task::{
    TaskSweep, task_node_lost, task_promises_expire, task_reschedule_lost, task_stop_begin,
    task_unwanted_stop, task_wanted_revive,
};
use borough_store::{CellSpace, StoreError, StoreResult};

use crate::decide::ControllerAction;
use crate::gang::gang_end;
use crate::liveness::Silent;

/// Tasks in one transaction.
const TASKS_MAX: usize = 256;

/// Carries out the actions of a controller that leads.
#[derive(Clone)]
pub struct ActionExecutor {
    pub db: Database,
    pub space: CellSpace,
    /// The lease by which it leads.
    pub lease: HeldLease,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
}

impl ActionExecutor {
    /// Carries out one action, in as many transactions as needed.
    pub async fn act(&self, action: ControllerAction) -> StoreResult<()> {
        match action {
            ControllerAction::TasksUnwanted(job) => {
                self.sweep("task_stop", |tx, mut changes, after| async move {
                    let sweep = task_unwanted_stop(&tx, &mut changes, job, after, TASKS_MAX).await?;
                    Ok((sweep, changes))
                })
                .await
            }
            ControllerAction::TasksRevive(job) => {
                self.sweep("task_revive", |tx, mut changes, after| async move {
                    let sweep = task_wanted_revive(&tx, &mut changes, job, after, TASKS_MAX).await?;
                    Ok((sweep, changes))
                })
                .await
            }
            ControllerAction::JobEnd(job) => {
                self.change("job_end", |tx, mut changes| async move {
                    job_tasks_gone(&tx, &mut changes, job).await?;
                    Ok(((), changes))
                })
                .await
            }
            ControllerAction::JobDependencies(job) => {
                self.change("job_dependencies", |tx, mut changes| async move {
                    job_dependencies_check(&tx, &mut changes, job).await?;
                    Ok(((), changes))
                })
                .await
            }
            ControllerAction::NodeTasksLost(node) => {
                self.sweep("task_node_lost", |tx, mut changes, after| async move {
                    let sweep = task_node_lost(&tx, &mut changes, node, after, TASKS_MAX).await?;
                    Ok((sweep, changes))
                })
                .await
            }
            ControllerAction::GangEnd(gang) => gang_end(self, gang).await,
            ControllerAction::TasksReschedule(node, attempts) => {
                self.attempts("task_reschedule", &attempts, |tx, mut changes, attempts| async move {
                    task_reschedule_lost(&tx, &mut changes, node, &attempts).await?;
                    Ok(((), changes))
                })
                .await
            }
            ControllerAction::PromisesExpire(node, attempts) => {
                self.attempts("task_promise", &attempts, |tx, mut changes, attempts| async move {
                    task_promises_expire(&tx, &mut changes, node, &attempts).await?;
                    Ok(((), changes))
                })
                .await
            }
            // [`departures_now`](crate::decide::departures_now) has split it before: tasks without room elsewhere stay.
            ControllerAction::TasksDrain(_) => Ok(()),
            ControllerAction::TasksMove(reason, attempts) => {
                self.attempts("task_move", &attempts, |tx, mut changes, attempts| async move {
                    task_stop_begin(&tx, &mut changes, &attempts, reason).await?;
                    Ok(((), changes))
                })
                .await
            }
        }
    }

    /// Declares a node lost, unless it has renewed its lease since.
    pub async fn node_lost(&self, silent: &Silent) -> StoreResult<()> {
        self.change("node_declare_lost", |tx, mut changes| async move {
            let outcome = node_declare_lost(&tx, &mut changes, silent.node, silent.observed.as_ref()).await?;
            tracing::warn!(node = %silent.node, ?outcome, "a silent node was declared lost");
            Ok(((), changes))
        })
        .await
    }

    /// Removes an ended job.
    pub async fn job_forget(&self, job: JobId) -> StoreResult<()> {
        self.change("job_remove", |tx, mut changes| async move {
            job_remove(&tx, &mut changes, job).await?;
            Ok(((), changes))
        })
        .await
    }

    /// Visits rows in transactions of at most [`TASKS_MAX`] each, from the first to the last.
    async fn sweep<F, Fut>(&self, action: &'static str, closure: F) -> StoreResult<()>
    where
        F: Fn(Transaction, ChangeSet, Option<TaskId>) -> Fut,
        Fut: Future<Output = StoreResult<(TaskSweep, ChangeSet)>>,
    {
        let mut after = None;
        loop {
            after = self.change(action, |tx, changes| closure(tx, changes, after)).await?.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn attempts<F, Fut>(
        &self,
        action: &'static str,
        attempts: &[(TaskId, Incarnation)],
        closure: F,
    ) -> StoreResult<()>
    where
        F: Fn(Transaction, ChangeSet, Vec<(TaskId, Incarnation)>) -> Fut,
        Fut: Future<Output = StoreResult<((), ChangeSet)>>,
    {
        for chunk in attempts.chunks(TASKS_MAX) {
            self.change(action, |tx, changes| closure(tx, changes, chunk.to_vec())).await?;
        }
        Ok(())
    }

    /// One transaction under the lease. The steps check the state that they change, so repeating them does no harm.
    pub(crate) async fn change<T, F, Fut>(&self, action: &'static str, closure: F) -> StoreResult<T>
    where
        F: Fn(Transaction, ChangeSet) -> Fut,
        Fut: Future<Output = StoreResult<(T, ChangeSet)>>,
    {
        let request = request_id_random(&*self.rng);
        let at_ms = self.clock.wall_ms();
        let change = Change { request, actor: "controller".to_owned(), action, at_ms };
        let (change, space, lease, closure) = (&change, &self.space, &self.lease, &closure);
        self.db
            .run(action, Idempotency::Natural, |tx, _| async move {
                lease_check(&tx, space, lease).await?;
                let changes = ChangeSet::begin(&tx, space, change).await?;
                let (value, changes) = closure(tx.clone(), changes).await?;
                changes.append(&tx)?;
                Ok::<_, StoreError>(value)
            })
            .await
    }
}

//! The end of a dev cell. It stops every task like a stop of its job (withdrawal, drain delay, SIGTERM, grace,
//! SIGKILL). The tasks stay wanted, so that the next start places them again.
//!
//! The wait is bounded, and a second signal ends it. If the store does not answer, the shims are asked directly: they
//! keep the same order, except for the withdrawal.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, Idempotency};
use borough_model::task::StopReason;
use borough_model::{Incarnation, JobId, Name, TaskId, TaskRow, TaskState};
use borough_shim::record::{ProcessKind, ProcessRecord};
use borough_store::job::job_get;
use borough_store::journal::{Change, ChangeSet};
use borough_store::node::node_list;
use borough_store::request::request_id_random;
use borough_store::task::{task_list_by_node, task_stop_begin};
use borough_store::{CellSpace, StoreResult, error_chain};
use rustix::process::{Pid, Signal, kill_process_group};

use super::nodes::recorded;
use crate::output::{Printer, tally};
use crate::role::RoleSignals;

/// Interval of checks for running tasks.
const LOOK: Duration = Duration::from_millis(100);
/// Interval of remarks on the wait.
const REMARK: Duration = Duration::from_secs(5);
/// Time for the store to accept the stop of one cell.
const STORE_PATIENCE: Duration = Duration::from_secs(5);
/// Time for the last reports to reach the store, and for shims to record ends by SIGKILL.
const SETTLE: Duration = Duration::from_secs(3);
/// Tasks in one transaction.
const TASKS_MAX: usize = 256;
/// Names of tasks in a remark.
const NAMES_MAX: usize = 5;

/// What the end of a dev cell needs.
pub(super) struct Shutdown<'a> {
    pub db: &'a Database,
    pub cells: &'a [Name],
    /// Where agents record what they start.
    pub records: PathBuf,
    /// How long tasks may take to end.
    pub timeout: Duration,
    pub clock: &'a Arc<dyn Clock>,
    pub rng: &'a Arc<dyn Rng>,
    pub printer: &'a Printer,
}

impl Shutdown<'_> {
    /// Stops every task and waits until none is left, the time is up, or a second signal comes. Scheduler workers must
    /// have ended, or they place stopped tasks again at once.
    pub(super) async fn run(&self, signals: &mut RoleSignals) {
        let begun = self.clock.monotonic();
        let ended = tokio::select! {
            ended = self.tasks_end(begun) => ended,
            signal = signals.again() => {
                self.printer.remark(&format!("{signal} again: SIGKILL for what still runs"));
                false
            }
        };
        if !ended {
            self.tasks_kill().await;
        }
    }

    /// Returns true if every task has ended within the time.
    async fn tasks_end(&self, begun: Duration) -> bool {
        let asked = self.tasks_stop().await;
        let (mut direct, mut remarked, mut quiet_since) = (false, begun, None);
        loop {
            let now = self.clock.monotonic();
            let runs = !self.alive(ProcessKind::Shim).is_empty();
            // The next start then finds their ends in the store, not only on the nodes' disks.
            let settled = !asked || self.left().await.is_ok_and(|left| left.is_empty());
            if runs {
                quiet_since = None;
            } else if settled || now.saturating_sub(*quiet_since.get_or_insert(now)) >= SETTLE {
                return true;
            }
            if now.saturating_sub(begun) >= self.timeout {
                self.remark_left("out of time: SIGKILL for").await;
                return false;
            }
            if now.saturating_sub(remarked) >= REMARK {
                remarked = now;
                self.remark_left("still stopping").await;
            }
            // Tasks that the store does not name, or cannot be asked about, are stopped by a signal to their shim.
            if runs && settled && !direct {
                direct = true;
                self.alive(ProcessKind::Shim).iter().for_each(|shim| drop(shim.process.signal(Signal::USR2)));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Begins to stop the tasks of every cell. Returns true if the store has accepted all stops.
    async fn tasks_stop(&self) -> bool {
        let (mut asked, mut stopping) = (true, 0);
        for cell in self.cells {
            match tokio::time::timeout(STORE_PATIENCE, self.cell_stop(cell)).await {
                Ok(Ok(tasks)) => stopping += tasks,
                Ok(Err(error)) => {
                    asked = false;
                    tracing::warn!(%cell, error = %error_chain(&error), "the store does not take the stop of the tasks");
                }
                Err(_) => {
                    asked = false;
                    tracing::warn!(%cell, "the store does not answer: its tasks are stopped without it");
                }
            }
        }
        if stopping > 0 {
            let (tasks, most) = (tally(stopping, "task"), humantime::format_duration(self.timeout));
            self.printer.remark(&format!(
                "stopping {tasks} within {most} (--stop-timeout); interrupt again for SIGKILL at once"
            ));
        }
        asked
    }

    /// Kills all remaining tasks at once. The shims stay to record it.
    async fn tasks_kill(&self) {
        let begun = self.clock.monotonic();
        while !self.alive(ProcessKind::Shim).is_empty()
            && self.clock.monotonic().saturating_sub(begun) < SETTLE
        {
            for task in self.alive(ProcessKind::Task) {
                // Each leads a session, and so a group.
                if let Some(group) = i32::try_from(task.process.pid).ok().and_then(Pid::from_raw) {
                    kill_process_group(group, Signal::KILL).ok();
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn remark_left(&self, what: &str) {
        let Ok(left) = self.left().await else { return };
        let mut names: Vec<&str> = left.values().map(String::as_str).take(NAMES_MAX).collect();
        let more = format!("and {} more", left.len().saturating_sub(NAMES_MAX));
        if left.len() > NAMES_MAX {
            names.push(&more);
        }
        if !names.is_empty() {
            self.printer.remark(&format!("{what}: {}", names.join(", ")));
        }
    }

    /// Begins to stop a cell's tasks. Returns their number.
    async fn cell_stop(&self, cell: &Name) -> StoreResult<usize> {
        let space = CellSpace::new(cell.clone());
        let rows = self.cell_tasks(&space).await?;
        let attempts: Vec<(TaskId, Incarnation)> = rows.iter().map(|row| (row.id, row.incarnation)).collect();
        for chunk in attempts.chunks(TASKS_MAX) {
            let change = Change {
                request: request_id_random(&**self.rng),
                actor: "dev".to_owned(),
                action: "shutdown",
                at_ms: self.clock.wall_ms(),
            };
            let (space, change) = (&space, &change);
            let stop = self.db.run("shutdown", Idempotency::Natural, |tx, _| async move {
                let mut changes = ChangeSet::begin(&tx, space, change).await?;
                task_stop_begin(&tx, &mut changes, chunk, StopReason::Shutdown).await?;
                changes.append(&tx)?;
                StoreResult::Ok(())
            });
            stop.await?;
        }
        Ok(attempts.len())
    }

    /// Rows of the tasks that a cell has on its nodes, except those whose node is lost.
    async fn cell_tasks(&self, space: &CellSpace) -> StoreResult<Vec<TaskRow>> {
        let nodes = self
            .db
            .run("node_list", Idempotency::ReadOnly, |tx, _| async move { node_list(&tx, space).await });
        let mut rows = Vec::new();
        for node in nodes.await? {
            let mut after = None;
            loop {
                let page = self.db.run("task_list_by_node", Idempotency::ReadOnly, |tx, _| async move {
                    task_list_by_node(&tx, space, node.id, after, TASKS_MAX).await
                });
                let page = page.await?;
                rows.extend(page.rows.into_iter().filter(|row| row.state.is_charged()));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        rows.retain(|row| row.state != TaskState::Lost);
        Ok(rows)
    }

    /// The tasks that have not ended yet, by the store: names for people.
    async fn left(&self) -> StoreResult<BTreeMap<(Name, TaskId), String>> {
        let mut left = BTreeMap::new();
        for cell in self.cells {
            let space = CellSpace::new(cell.clone());
            let mut jobs: BTreeMap<JobId, String> = BTreeMap::new();
            for row in self.cell_tasks(&space).await? {
                let name = match jobs.entry(row.id.job) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(unknown) => {
                        let (user, job) = self.job_name(&space, row.id.job).await?;
                        unknown.insert(format!("{cell}: {user}/{job}"))
                    }
                };
                left.insert((cell.clone(), row.id), format!("{name}/{}", row.id.index));
            }
        }
        Ok(left)
    }

    async fn job_name(&self, space: &CellSpace, job: JobId) -> StoreResult<(Name, Name)> {
        let found = self
            .db
            .run("job_get", Idempotency::ReadOnly, |tx, _| async move { job_get(&tx, space, job).await });
        let row = found.await?;
        Ok((row.user, row.name))
    }

    /// Recorded processes of a kind that still run.
    fn alive(&self, kind: ProcessKind) -> Vec<ProcessRecord> {
        recorded(&self.records, kind)
    }
}

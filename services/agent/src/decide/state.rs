//! What the agent knows of its attempts, and how that reads in a report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_proto::v1;
use borough_proto::v1::task_status::Phase;
use borough_shim::record::AttemptRecord;
use borough_shim::spec::StopOrder;

use super::cores::Cores;
use super::exit::exit_of;
use super::load::MachineLoad;
use super::pressure::PressureState;
use crate::attempt::AttemptId;

/// Everything the agent knows.
#[derive(Clone, Debug, Default)]
pub struct AgentState {
    /// The node's name, which stands in exits.
    pub node: String,
    /// This boot.
    pub boot_id: String,
    /// Attempts that are not forgotten.
    pub attempts: BTreeMap<AttemptId, AttemptState>,
    /// What the machine is short of.
    pub pressure: PressureState,
    /// What of the machine is in use.
    pub load: MachineLoad,
    /// The packages that are installed.
    pub packages: BTreeSet<String>,
    /// Its cores.
    pub cores: Cores,
}

/// What is known of one attempt.
#[derive(Clone, Debug, Default)]
pub struct AttemptState {
    /// What it runs; absent where it was never started here.
    pub assignment: Option<Arc<v1::Assignment>>,
    /// What its shim has written.
    pub record: AttemptRecord,
    /// Where its shim is.
    pub shim: ShimState,
    /// That it is to end, as told to its shim.
    pub stop: Option<StopOrder>,
    /// What its probes say.
    pub health: v1::Health,
    /// What it was last seen to use.
    pub usage: Option<v1::Usage>,
    /// The control plane does not know it.
    pub parked: bool,
    /// Something is being done for it; nothing else is begun before that is done.
    pub busy: bool,
    /// Probes are running.
    pub probed: bool,
}

/// Where an attempt's shim is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShimState {
    /// Not started yet.
    #[default]
    None,
    /// It runs.
    Alive,
    /// It has ended.
    Gone,
}

impl AttemptState {
    /// How far it is.
    pub fn phase(&self) -> Phase {
        if self.record.released_ms.is_some() {
            Phase::Released
        } else if self.record.exit.is_some() {
            Phase::Exited
        } else if self.stop.is_some() {
            Phase::Stopping
        } else if self.record.started_ms.is_some() {
            Phase::Running
        } else if self.shim == ShimState::None {
            Phase::Accepted
        } else {
            Phase::Starting
        }
    }

    /// How its health is checked, where it is.
    pub fn check(&self) -> Option<&v1::HealthCheck> {
        self.assignment.as_ref()?.spec.as_ref()?.health.as_ref().filter(|check| check.probe.is_some())
    }

    /// Whether probes should be running. Without a check they only see to it that it stays up and has its ports.
    pub fn to_be_probed(&self) -> bool {
        self.phase() == Phase::Running && self.assignment.is_some()
    }

    /// What is said of its health.
    fn health_reported(&self) -> v1::Health {
        match self.phase() {
            Phase::Running | Phase::Stopping if self.health != v1::Health::Unspecified => self.health,
            _ => v1::Health::Unknown,
        }
    }
}

/// The cores that are an attempt's own, once it runs.
fn own_cores(attempt: &AttemptState) -> Vec<u32> {
    let assignment = attempt.assignment.as_ref().filter(|assignment| assignment.exclusive_cores);
    assignment.filter(|_| attempt.record.started_ms.is_some()).map(|of| of.cpus.clone()).unwrap_or_default()
}

/// How an attempt reads in a report.
pub fn status(id: &AttemptId, attempt: &AttemptState, node: &str) -> v1::TaskStatus {
    v1::TaskStatus {
        job_id: id.job_id.clone(),
        index: id.index,
        incarnation: id.incarnation,
        phase: attempt.phase().into(),
        pid: attempt.record.task.map(|task| task.pid),
        started_ms: attempt.record.started_ms,
        health: attempt.health_reported().into(),
        exit: exit_of(id, attempt, node),
        usage: attempt.usage,
        cores: own_cores(attempt),
    }
}

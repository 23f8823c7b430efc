//! The agent's state of its attempts, and their statuses in a report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_model::task::HELPER_MESSAGE_BYTES_MAX;
use borough_proto::bounds::text_cut;
use borough_proto::v1;
use borough_proto::v1::task_status::Phase;
use borough_shim::record::{AttemptRecord, HelperProgress, HelperRecord};
use borough_shim::spec::{HelperWhen, StopOrder};

use super::cores::Cores;
use super::exit::exit_of;
use super::identity::Identities;
use super::load::MachineLoad;
use super::pressure::PressureState;
use super::resize::ResizeRecord;
use crate::attempt::AttemptId;

/// What the agent knows of its attempts and its machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentState {
    /// The node's name, for exits.
    pub node: String,
    pub boot_id: String,
    /// Attempts that are not forgotten.
    pub attempts: BTreeMap<AttemptId, AttemptState>,
    /// The resources that the machine is short of.
    pub pressure: PressureState,
    pub load: MachineLoad,
    pub packages: BTreeSet<String>,
    pub cores: Cores,
    /// What proves its attempts' identities.
    pub identities: Identities,
}

/// The state of one attempt.
#[derive(Clone, Debug, Default)]
pub struct AttemptState {
    /// Its assignment; absent if it was never started here.
    pub assignment: Option<Arc<v1::Assignment>>,
    /// The record that its shim has written.
    pub record: AttemptRecord,
    pub shim: ShimState,
    /// The order to end it, as given to its shim.
    pub stop: Option<StopOrder>,
    /// The result of its probes.
    pub health: v1::Health,
    /// Why the last probe failed, for people; empty: it passed, or an earlier process of the agent saw it.
    pub probe_failure: String,
    pub usage: Option<v1::Usage>,
    /// The orders to resize it so far.
    pub resize: ResizeRecord,
    /// The control plane does not know it.
    pub parked: bool,
    /// An action is in progress; no other begins before it is done.
    pub busy: bool,
    pub probed: bool,
}

/// The state of an attempt's shim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShimState {
    /// Not started yet.
    #[default]
    None,
    Alive,
    Gone,
}

impl AttemptState {
    /// The phase of the attempt.
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

    /// Its health check, if any.
    pub fn check(&self) -> Option<&v1::HealthCheck> {
        self.assignment.as_ref()?.spec.as_ref()?.health.as_ref().filter(|check| check.probe.is_some())
    }

    /// Returns true if probes should be running. Without a health check they only verify that the task stays up and has
    /// its ports.
    pub fn to_be_probed(&self) -> bool {
        self.phase() == Phase::Running && self.assignment.is_some()
    }

    fn health_reported(&self) -> v1::Health {
        match self.phase() {
            Phase::Running | Phase::Stopping if self.health != v1::Health::Unspecified => self.health,
            _ => v1::Health::Unknown,
        }
    }
}

/// The exclusive cores of an attempt, once it runs.
fn own_cores(attempt: &AttemptState) -> Vec<u32> {
    let assignment = attempt.assignment.as_ref().filter(|assignment| assignment.exclusive_cores);
    assignment.filter(|_| attempt.record.started_ms.is_some()).map(|of| of.cpus.clone()).unwrap_or_default()
}

/// The status of an attempt in a report.
pub(super) fn status(id: &AttemptId, attempt: &AttemptState, node: &str) -> v1::TaskStatus {
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
        resize: attempt.resize.settled(),
        helpers: attempt.record.helpers.iter().map(helper_status).collect(),
    }
}

fn helper_status(helper: &HelperRecord) -> v1::HelperStatus {
    let when = match helper.when {
        HelperWhen::Before => v1::HelperPhase::Before,
        HelperWhen::Beside => v1::HelperPhase::Beside,
        HelperWhen::After => v1::HelperPhase::After,
    };
    let state = match helper.state {
        HelperProgress::Waiting => v1::helper_status::State::Waiting,
        HelperProgress::Running => v1::helper_status::State::Running,
        HelperProgress::Ended => v1::helper_status::State::Ended,
    };
    let exit = helper.exit.as_ref().map(|exit| {
        let mut message = exit.message.clone();
        text_cut(&mut message, HELPER_MESSAGE_BYTES_MAX);
        v1::HelperExit { code: exit.code, signal: exit.signal, message, at_ms: exit.at_ms }
    });
    v1::HelperStatus {
        name: helper.name.clone(),
        when: when.into(),
        state: state.into(),
        restarts: helper.restarts,
        exit,
    }
}

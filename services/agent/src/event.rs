//! The events of the agent's main task.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use borough_proto::v1;
use borough_shim::cgroup::{CgroupUsage, Leaf};
use borough_shim::record::StartCause;
use borough_shim::spec::StopOrder;

use crate::attempt::AttemptId;
use crate::decide::ResizeRecord;
use crate::decide::load::LoadReading;
use crate::decide::pressure::PressureReading;
use crate::outbox::Outbox;

/// An event that the agent's main task handles.
#[derive(Debug)]
pub(crate) enum Event {
    /// A session is open. Messages sent into `outbox` reach the gateway.
    Opened {
        outbox: Outbox,
    },
    Message(Box<v1::GatewayMessage>),
    Closed,
    /// A gateway has refused the agent's identity: the node belongs to another one.
    Refused,
    /// An attempt's record may have changed.
    Changed(AttemptId),
    /// An attempt's shim has ended.
    ShimEnded(AttemptId),
    /// An action for an attempt has ended.
    Done(AttemptId, OrderDone),
    /// The health of an attempt has changed.
    Health(AttemptId, ProbedHealth),
    /// New tokens of an attempt could not be written.
    TokensUnwritten(AttemptId),
    Sampled(BTreeMap<AttemptId, CgroupUsage>),
    /// The machine and the installed packages were read.
    Read(PressureReading, Box<LoadReading>, BTreeSet<String>),
    /// Attempts were moved to these cores.
    Confined(BTreeMap<AttemptId, Vec<u32>>),
}

/// What the probes of an attempt have come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbedHealth {
    pub(crate) health: v1::Health,
    /// Why the last probe failed, for people; empty: it passed.
    pub(crate) failure: String,
}

/// Why an attempt could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartRefused {
    /// For people.
    pub reason: String,
    /// `None`: as far as the agent knows, its job file is at fault.
    pub cause: Option<StartCause>,
}

impl From<String> for StartRefused {
    fn from(reason: String) -> Self {
        Self { reason, cause: None }
    }
}

/// An action for an attempt, and its result.
#[derive(Debug)]
pub(crate) enum OrderDone {
    /// Its shim runs, in this cgroup.
    Started(Box<Leaf>),
    /// It could not be started.
    NotStarted(StartRefused),
    /// The order to stop is on the disk, so it survives a restart of the agent. The agent reports the stop only from
    /// now on.
    Stop(StopOrder),
    /// The processes that a dead shim left were ended, if that was possible.
    Clean,
    /// An order to resize it was carried out, or refused.
    Resized(Box<ResizeRecord>),
    /// Its files were set aside, or could not be.
    Forget(io::Result<()>),
}

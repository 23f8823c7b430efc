//! What reaches the agent's one task.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use borough_proto::v1;
use borough_shim::cgroup::{CgroupUsage, Leaf};
use borough_shim::spec::StopOrder;

use crate::attempt::AttemptId;
use crate::decide::load::LoadReading;
use crate::decide::pressure::PressureReading;
use crate::session::Outbox;

/// Something has happened.
#[derive(Debug)]
pub enum Event {
    /// A session is open; what is sent into `outbox` reaches the gateway.
    Opened {
        /// Towards the gateway.
        outbox: Outbox,
    },
    /// The gateway has said something.
    Message(Box<v1::GatewayMessage>),
    /// The session is over.
    Closed,
    /// A gateway has refused the agent for who it is: the node belongs to another one.
    Refused,
    /// An attempt's record may have changed.
    Changed(AttemptId),
    /// An attempt's shim has ended.
    ShimEnded(AttemptId),
    /// What was ordered for an attempt is done.
    Done(AttemptId, OrderDone),
    /// An attempt's probes say something else.
    Health(AttemptId, v1::Health),
    /// Attempts were measured.
    Sampled(BTreeMap<AttemptId, CgroupUsage>),
    /// The machine was looked at, and the packages that are installed.
    Read(PressureReading, Box<LoadReading>, BTreeSet<String>),
    /// Attempts were moved to these cores.
    Confined(BTreeMap<AttemptId, Vec<u32>>),
}

/// What was ordered for an attempt, and how it went.
#[derive(Debug)]
pub enum OrderDone {
    /// Its shim runs, in this cgroup.
    Started(Box<Leaf>),
    /// It could not be started, for people.
    NotStarted(String),
    /// Its shim was told to stop, in a way that a restart of the agent does not lose; only now is that reported.
    Stop(StopOrder),
    /// What a dead shim left is gone, where that could be done.
    Clean,
    /// Its files are set aside.
    Forget(io::Result<()>),
}

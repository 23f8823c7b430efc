//! What reaches the agent's one task.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use borough_proto::v1;
use borough_shim::cgroup::{Leaf, Sample};
use borough_shim::spec::StopOrder;

use crate::decide::load::LoadReading;
use crate::decide::pressure::Reading;
use crate::life::LifeId;
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
    /// A life's record may have changed.
    Changed(LifeId),
    /// A life's shim has ended.
    ShimEnded(LifeId),
    /// What was ordered for a life is done.
    Done(LifeId, Done),
    /// A life's probes say something else.
    Health(LifeId, v1::Health),
    /// Lives were measured.
    Sampled(BTreeMap<LifeId, Sample>),
    /// The machine was looked at, and the packages that are installed.
    Read(Reading, Box<LoadReading>, BTreeSet<String>),
    /// Lives were moved to these cores.
    Confined(BTreeMap<LifeId, Vec<u32>>),
}

/// What was ordered for a life, and how it went.
#[derive(Debug)]
pub enum Done {
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

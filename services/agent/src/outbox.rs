//! The sending side of a session.

use borough_proto::v1;
use tokio::sync::mpsc;

/// The channel to the gateway. Control messages never wait behind the output of tasks.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    /// For reports, acknowledgements, credit and results.
    pub control: mpsc::Sender<v1::AgentMessage>,
    /// For output of tasks and commands.
    pub data: mpsc::Sender<v1::AgentMessage>,
}

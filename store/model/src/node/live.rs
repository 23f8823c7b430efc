//! Liveness of nodes: what the row of a node says, what its gateway says of itself, and what of it proves life.
//!
//! A gateway vouches for its sessions by reference. The row of a node names the gateway's voucher, and the gateway
//! renews one row of its own. A node is alive while the row of its voucher changes. So a beat costs one row, however
//! many nodes the gateway has.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The beat of a row that a registration has written. It names the session, but does not prove that the agent works:
/// only the work of a session does.
pub const REGISTERED: u64 = 0;

/// One term of one gateway. It ends when another process claims the gateway's number, or its row is removed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize, Deserialize,
)]
pub struct Voucher {
    /// The number of the gateway's process: random, made at its start.
    #[n(0)]
    pub gateway: u64,
    /// Counts the claims of that number, from 1. It fences a copy of the process.
    #[n(1)]
    pub epoch: u64,
}

/// What a gateway says of itself: it works, and so do the nodes that name its voucher. Never in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct GatewayLive {
    /// The epoch of the [`Voucher`] in force.
    #[n(0)]
    pub epoch: u64,
    /// A random number, another one with each renewal.
    #[n(1)]
    pub beat: u64,
    /// The gateway's address for other gateways.
    #[n(2)]
    pub address: String,
}

/// The liveness of a node, written when a session begins to work, falls silent, or works again. Never in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct NodeLive {
    /// Counts what the session has proved, from [`REGISTERED`].
    #[n(0)]
    pub beat: u64,
    /// The gateway that holds the agent's session, by its address for other gateways.
    #[n(1)]
    pub gateway: String,
    /// The session, new with each connection.
    #[n(2)]
    pub session: u64,
    /// The agent's last applied report when the row was written.
    #[n(3)]
    pub report_revision: u64,
    /// Who vouches for the node from then on. `None`: nobody, since the session has proved nothing yet or has fallen
    /// silent. Gateways of older versions write none either, and renew the row with each beat.
    #[n(4)]
    #[cbor(default)]
    #[serde(default)]
    pub voucher: Option<Voucher>,
    /// For how many milliseconds the session had been silent when its gateway withdrew the voucher, by the gateway's
    /// own clock; 0: it has not. Only time counts in which the gateway worked and reached the store.
    #[n(5)]
    #[cbor(default)]
    #[serde(default)]
    pub silent_ms: u64,
}

/// What one reading shows of a node: its row, and the beat of its voucher if that is in force.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NodeSeen {
    pub live: NodeLive,
    /// `None`: nobody vouches, or the voucher is over.
    pub beat: Option<u64>,
}

/// What the change from one reading to the next proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LivenessSign {
    /// The session has worked in between, or its gateway vouches for that.
    Works,
    /// Only a registration: an agent that keeps coming back without working is as silent as before.
    Registered,
    None,
}

impl NodeLive {
    /// What the change of the row from `before` proves. A gateway that withdraws its voucher changes nothing else, and
    /// proves nothing.
    pub fn sign_since(&self, before: Option<&Self>) -> LivenessSign {
        let named = |live: &Self| (live.session, live.beat);
        if before.is_some_and(|before| named(before) == named(self)) {
            LivenessSign::None
        } else if self.beat == REGISTERED {
            LivenessSign::Registered
        } else {
            LivenessSign::Works
        }
    }
}

impl NodeSeen {
    /// A reading of the row of a node, and of the row of the gateway that the first one names.
    pub fn of(live: NodeLive, gateway: Option<&GatewayLive>) -> Self {
        let in_force = live.voucher.zip(gateway).filter(|(voucher, gateway)| voucher.epoch == gateway.epoch);
        let beat = in_force.map(|(_, gateway)| gateway.beat);
        Self { live, beat }
    }

    /// What happened since the reading `before`.
    pub fn sign_since(&self, before: Option<&Self>) -> LivenessSign {
        let sign = self.live.sign_since(before.map(|before| &before.live));
        let vouched = before.is_some_and(|before| {
            before.live.voucher == self.live.voucher && self.beat.is_some() && before.beat != self.beat
        });
        if sign == LivenessSign::None && vouched { LivenessSign::Works } else { sign }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOUCHER: Voucher = Voucher { gateway: 7, epoch: 2 };

    fn seen(session: u64, beat: u64, vouched: Option<u64>) -> NodeSeen {
        let voucher = vouched.map(|_| VOUCHER);
        NodeSeen { live: NodeLive { session, beat, voucher, ..NodeLive::default() }, beat: vouched }
    }

    #[test]
    fn work_and_a_vouching_gateway_are_signs_of_life_and_nothing_else() {
        let vouched = seen(1, 2, Some(10));
        let since = |now: NodeSeen| now.sign_since(Some(&vouched));
        assert_eq!(since(vouched.clone()), LivenessSign::None);
        assert_eq!(since(seen(1, 2, Some(11))), LivenessSign::Works, "its gateway has renewed its row");
        assert_eq!(since(seen(1, 2, None)), LivenessSign::None, "its gateway has withdrawn");
        assert_eq!(since(seen(1, 3, None)), LivenessSign::Works, "a gateway of an older version");
        assert_eq!(since(seen(2, REGISTERED, None)), LivenessSign::Registered);
        assert_eq!(since(seen(2, 2, Some(10))), LivenessSign::Works, "a new session works");
    }

    #[test]
    fn a_voucher_of_another_epoch_is_over() {
        let live = NodeLive { voucher: Some(VOUCHER), ..NodeLive::default() };
        let beat = |epoch| {
            let gateway = GatewayLive { epoch, beat: 5, ..GatewayLive::default() };
            NodeSeen::of(live.clone(), Some(&gateway)).beat
        };
        assert_eq!((beat(2), beat(1), beat(3)), (Some(5), None, None));
        assert_eq!(NodeSeen::of(live.clone(), None).beat, None);
    }
}

//! The identity of a node's agent. A name alone proves nothing: two machines can claim one name, and a copied disk
//! claims everything on it. A registration is therefore admitted by identity, never by name alone.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{NodeRow, NodeSession, NodeState};

/// Most bytes of a machine id.
const MACHINE_BYTES_MAX: usize = 64;
/// The text for a machine without an id.
const NO_MACHINE: &str = "-";
/// Superseded processes that a session's row remembers.
const SUPERSEDED_MAX: usize = 8;

/// Prefix of an agent's key in its digest, so that no other digest is ever the same.
const KEY_DOMAIN: &[u8] = b"borough agent key\0";

/// 128 bits from the operating system's generator, made once per state directory of an agent. Their holder can register
/// as the agent, so only the agent keeps them: gateways see them while a session opens, and nothing shows or stores
/// them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AgentKey(pub u128);

impl AgentKey {
    /// The agent's public id: the first 128 bits of the SHA-256 digest of the key.
    pub fn durable_id(self) -> DurableId {
        let digest = Sha256::new().chain_update(KEY_DOMAIN).chain_update(self.0.to_be_bytes()).finalize();
        let bytes = digest.iter().take(size_of::<u128>());
        DurableId(bytes.fold(0, |id, byte| (id << 8) | u128::from(*byte)))
    }
}

impl std::fmt::Debug for AgentKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AgentKey(..)")
    }
}

/// The public id of an agent: the digest of its [`AgentKey`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DurableId(pub u128);

impl std::fmt::Display for DurableId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl std::fmt::Debug for DurableId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl<C> Encode<C> for DurableId {
    fn encode<W: minicbor::encode::Write>(
        &self,
        encoder: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.bytes(&self.0.to_be_bytes())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for DurableId {
    fn decode(decoder: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let wrong = |_| minicbor::decode::Error::message("a durable id has 16 bytes");
        let bytes: [u8; 16] = decoder.bytes()?.try_into().map_err(wrong)?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }
}

/// The identity of an agent over its restarts and reboots. As a text `DURABLE@MACHINE`, or `DURABLE@-` if the machine
/// has no id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct AgentIdentity {
    /// The id of the agent's state directory.
    #[n(0)]
    pub durable: DurableId,
    /// The id of the machine (`/etc/machine-id`), if it has one: 1 to 64 of `a-z`, `0-9` and `-`.
    #[n(1)]
    pub machine: Option<String>,
    /// Whether the durable id is the digest of the key. Older versions recorded the key itself. A digest must never
    /// pass for one, since everybody sees digests.
    #[n(2)]
    #[cbor(default)]
    #[serde(default)]
    pub is_digest: bool,
}

/// A text that is not an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is no identity of an agent; accepted: 32 hexadecimal digits, @, and a machine id or -")]
pub struct IdentityError;

impl AgentIdentity {
    /// An identity of its parts; an empty machine id means none.
    ///
    /// # Errors
    /// The machine id has other characters than `a-z`, `0-9` and `-`, or more than 64.
    pub fn new(durable: DurableId, machine: &str) -> Result<Self, IdentityError> {
        let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if machine.len() > MACHINE_BYTES_MAX || !machine.bytes().all(fine) {
            return Err(IdentityError);
        }
        let machine = Some(machine).filter(|machine| !machine.is_empty() && *machine != NO_MACHINE);
        Ok(Self { durable, machine: machine.map(str::to_owned), is_digest: true })
    }

    /// Returns true if both are one agent: the same durable id, and no two different machines.
    pub fn is_same(&self, other: &Self) -> bool {
        let machines = self.machine.as_ref().zip(other.machine.as_ref());
        let durable = self.durable == other.durable && self.is_digest == other.is_digest;
        durable && machines.is_none_or(|(one, other)| one == other)
    }
}

impl std::fmt::Display for AgentIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.durable, self.machine.as_deref().unwrap_or(NO_MACHINE))
    }
}

impl std::str::FromStr for AgentIdentity {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let (durable, machine) = text.split_once('@').ok_or(IdentityError)?;
        let digits = durable.len() == 32 && durable.bytes().all(|byte| byte.is_ascii_hexdigit());
        let durable = u128::from_str_radix(durable, 16).ok().filter(|_| digits && !machine.is_empty());
        Self::new(DurableId(durable.ok_or(IdentityError)?), machine)
    }
}

/// One process of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProcess {
    pub identity: AgentIdentity,
    /// Its identity for versions that recorded the key itself: rows of that time have it until its agent registers
    /// again.
    pub identity_before: Option<AgentIdentity>,
    /// The number of the process: random, made at its start; not 0.
    pub instance: u64,
}

impl AgentProcess {
    /// Returns true if it is a process of the recorded agent.
    fn is_of(&self, recorded: &AgentIdentity) -> bool {
        let before = self.identity_before.as_ref();
        recorded.is_same(&self.identity) || before.is_some_and(|before| recorded.is_same(before))
    }
}

/// The description of an agent in a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFace {
    /// `None`: it did not identify itself.
    pub identity: Option<AgentIdentity>,
    /// The boot that it runs in.
    pub boot_id: String,
    /// The address of its tasks.
    pub host: String,
}

impl std::fmt::Display for AgentFace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.identity {
            Some(identity) => write!(f, "{identity}")?,
            None => f.write_str("without an identity")?,
        }
        write!(f, " (boot {}, host {})", self.boot_id, self.host)
    }
}

/// Why an agent may not register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalCause {
    /// The node belongs to another agent or another machine.
    OtherAgent,
    /// Another process of this agent has replaced this very process: one of the two is a copy.
    Superseded,
    /// The same agent on the same machine, in another boot, still renews the node's lease. May be tried again.
    StillBeats,
}

/// The refusal of an agent's registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRefusal {
    pub cause: RefusalCause,
    pub node: String,
    /// The owner of the node.
    pub recorded: AgentFace,
    pub presented: AgentFace,
}

impl std::error::Error for NodeRefusal {}

impl std::fmt::Display for NodeRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cause, node, recorded, presented } = self;
        match (cause, &presented.identity) {
            (RefusalCause::OtherAgent, Some(identity)) => write!(
                f,
                "node {node} belongs to agent {recorded}, not to agent {presented}. Start this agent under another \
                 --node name. If the recorded machine is gone for good, run: \
                 borough node admit {node} --identity {identity}"
            ),
            (RefusalCause::OtherAgent, None) => write!(
                f,
                "node {node} belongs to agent {recorded}; this agent is {presented}. Start an agent of this version"
            ),
            (RefusalCause::Superseded, _) => write!(
                f,
                "node {node} belongs to agent {recorded}, and a later process of the same identity has taken over \
                 from this one, {presented}. The state directory was copied: end one of the two agents"
            ),
            (RefusalCause::StillBeats, _) => write!(
                f,
                "node {node} belongs to agent {recorded}, which still reports; this is agent {presented}. A copied \
                 machine needs an agent identity and a --node name of its own; after a reboot, try again"
            ),
        }
    }
}

/// A process that wants to register as a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeApplicant<'a> {
    /// Absent: it names no identity.
    pub agent: Option<&'a AgentProcess>,
    pub boot_id: &'a str,
    /// The address of its tasks.
    pub host: &'a str,
    /// Whether the gateway has seen the node's lease unchanged for its whole waiting time, by its monotonic clock.
    pub silent: bool,
}

/// Decides whether the agent of a process may register as the node of `row`, whose last session is `session`.
///
/// # Errors
/// The owner of the node, the refused agent, and the reason.
pub fn node_admit(
    row: &NodeRow,
    session: &NodeSession,
    applicant: NodeApplicant<'_>,
) -> Result<(), Box<NodeRefusal>> {
    let NodeApplicant { agent, boot_id, host, silent } = applicant;
    let Some(recorded) = &row.identity else { return Ok(()) };
    let refuse = |cause| {
        let face = |identity, boot_id: &str, host: &str| AgentFace {
            identity,
            boot_id: boot_id.to_owned(),
            host: host.to_owned(),
        };
        Err(Box::new(NodeRefusal {
            cause,
            node: row.name.to_string(),
            recorded: face(row.identity.clone(), &row.boot_id, &row.host),
            presented: face(agent.map(|agent| agent.identity.clone()), boot_id, host),
        }))
    };
    let Some(agent) = agent.filter(|agent| agent.is_of(recorded)) else {
        return refuse(RefusalCause::OtherAgent);
    };
    if session.superseded.contains(&agent.instance) {
        return refuse(RefusalCause::Superseded);
    }
    let over = silent || session.session == 0 || row.state == NodeState::Lost;
    if row.boot_id == boot_id || over { Ok(()) } else { refuse(RefusalCause::StillBeats) }
}

/// The session that a registration of `instance` writes after `before`. If the process before it is another one, that
/// never comes back.
pub fn session_next(before: &NodeSession, session: u64, gateway: &str, instance: u64) -> NodeSession {
    let mut superseded = before.superseded.clone();
    if before.instance != 0 && before.instance != instance && !superseded.contains(&before.instance) {
        superseded.push(before.instance);
        let beyond = superseded.len().saturating_sub(SUPERSEDED_MAX);
        superseded.drain(..beyond);
    }
    NodeSession { session, gateway: gateway.to_owned(), instance, superseded }
}

//! Ownership of nodes: every case of the admission of an agent.

use borough_model::node::{
    AgentIdentity, AgentKey, AgentProcess, DurableId, NodeApplicant, NodeFacts, NodeRow, NodeSession,
    NodeState, RefusalCause, node_admit, node_new, session_next,
};
use borough_model::{Name, NodeId, Resources};

fn identity(durable: u128, machine: &str) -> AgentIdentity {
    AgentIdentity::new(DurableId(durable), machine).unwrap()
}

/// The public id of an agent must not let anybody register as the agent: no key follows from it. Stored rows contain
/// it, so it must not change either.
#[test]
fn a_durable_id_is_a_digest_of_the_key() {
    let key = AgentKey(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    assert_eq!(key.durable_id().to_string(), "5fbd46497c8e97919a0a69cd1d5329a1");
    assert_ne!(AgentKey(0).durable_id(), AgentKey(1).durable_id());
    assert_eq!(format!("{key:?}"), "AgentKey(..)");
}

/// A node of agent 1 on machine `m1`, in boot `b1`.
fn row() -> NodeRow {
    let facts = NodeFacts {
        capacity: Resources::default(),
        port_first: 20_000,
        port_last: 20_001,
        attributes: Default::default(),
        host: "10.0.0.1".to_owned(),
        boot_id: "b1".to_owned(),
        agent_version: String::new(),
        cards: Vec::new(),
        domains: Vec::new(),
    };
    let row = node_new(NodeId(1), Name::new("n1").unwrap(), facts, 0);
    NodeRow { identity: Some(identity(1, "m1")), state: NodeState::Ready, ..row }
}

/// The session of process 7, which has replaced 5 and 6.
fn session() -> NodeSession {
    NodeSession { session: 3, gateway: String::new(), instance: 7, superseded: vec![5, 6] }
}

fn applicant<'a>(agent: Option<&'a AgentProcess>, boot_id: &'a str, silent: bool) -> NodeApplicant<'a> {
    NodeApplicant { agent, boot_id, host: "10.0.0.2", silent }
}

fn admit(
    row: &NodeRow,
    agent: Option<(AgentIdentity, u64)>,
    boot: &str,
    silent: bool,
) -> Option<RefusalCause> {
    let agent = agent.map(|(identity, instance)| AgentProcess { identity, identity_before: None, instance });
    let admitted = node_admit(row, &session(), applicant(agent.as_ref(), boot, silent));
    admitted.err().map(|refusal| refusal.cause)
}

#[test]
fn a_node_is_that_of_its_agent_whatever_else_has_its_name() {
    let own = |instance| Some((identity(1, "m1"), instance));
    assert_eq!(admit(&row(), own(7), "b1", false), None, "it connects again");
    assert_eq!(admit(&row(), own(8), "b1", false), None, "it was started again");
    assert_eq!(admit(&row(), own(6), "b1", true), Some(RefusalCause::Superseded), "no process comes back");
    assert_eq!(
        admit(&row(), own(8), "b2", false),
        Some(RefusalCause::StillBeats),
        "a copied machine, or a reboot"
    );
    assert_eq!(admit(&row(), own(8), "b2", true), None, "a reboot");
    let other = Some(RefusalCause::OtherAgent);
    assert_eq!(admit(&row(), Some((identity(2, "m1"), 8)), "b1", true), other, "another state directory");
    assert_eq!(admit(&row(), Some((identity(1, "m2"), 8)), "b2", true), other, "a copied state directory");
    assert_eq!(admit(&row(), None, "b1", true), other, "it does not say who it is");
    assert_eq!(
        admit(&row(), Some((identity(1, ""), 8)), "b1", false),
        None,
        "a machine that has lost its id"
    );
    let fresh = NodeRow { identity: None, ..row() };
    assert_eq!(admit(&fresh, Some((identity(2, "m2"), 8)), "b2", false), None, "the first that comes");
    assert_eq!(admit(&fresh, None, "b2", false), None);
    let lost = NodeRow { state: NodeState::Lost, ..row() };
    assert_eq!(admit(&lost, own(8), "b2", false), None, "silent for the whole tolerance of the cell");
    assert_eq!(admit(&lost, Some((identity(2, "m2"), 8)), "b2", true), other, "a loss gives no node away");
}

#[test]
fn a_refusal_names_both_agents_and_what_to_do() {
    let agent = AgentProcess { identity: identity(2, "m2"), identity_before: None, instance: 8 };
    let refusal = node_admit(&row(), &session(), applicant(Some(&agent), "b2", false)).unwrap_err();
    let text = refusal.to_string();
    for part in [
        "00000000000000000000000000000001@m1",
        "00000000000000000000000000000002@m2",
        "boot b1, host 10.0.0.1",
        "boot b2, host 10.0.0.2",
        "borough node admit n1 --identity 00000000000000000000000000000002@m2",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_session_remembers_the_last_processes_before_it() {
    let first = session_next(&NodeSession::default(), 1, "g", 10);
    assert_eq!((first.session, first.instance, first.superseded.len()), (1, 10, 0));
    let again = session_next(&first, 2, "h", 10);
    assert_eq!((again.gateway.as_str(), again.superseded.len()), ("h", 0), "the same process");
    let mut row = again;
    for instance in 11..31 {
        row = session_next(&row, 3, "g", instance);
    }
    assert_eq!(row.superseded, (22..30).collect::<Vec<u64>>());
}

#[test]
fn an_identity_is_read_as_it_is_written() {
    for identity in [identity(u128::MAX, "abc-1"), identity(0, "")] {
        assert_eq!(identity.to_string().parse(), Ok(identity));
    }
    let long = format!("{:032x}@{}", 1, "a".repeat(65));
    for wrong in [
        "",
        "1@m",
        "@",
        &long,
        "0000000000000000000000000000000g@m",
        "+0000000000000000000000000000001@m",
        "00000000000000000000000000000001",
        "00000000000000000000000000000001@",
        "00000000000000000000000000000001@A",
    ] {
        assert!(wrong.parse::<AgentIdentity>().is_err(), "{wrong}");
    }
}

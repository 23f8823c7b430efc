//! Ownership of nodes against a store: a refused agent changes nothing, and an operator's command gives the node away.

use borough_model::node::{AgentIdentity, AgentKey, AgentProcess, DurableId, RefusalCause};

use super::*;
use crate::StoreResult;

fn identity(durable: u128) -> AgentIdentity {
    AgentIdentity::new(DurableId(durable), "m1").unwrap()
}

/// A process of agent `durable` registers in boot `boot`, in a session that has the number of the process.
fn registration(durable: u128, instance: u64, boot: &str) -> NodeRegistration {
    let facts = NodeFacts { boot_id: boot.to_owned(), ..facts() };
    let agent = Some(AgentProcess { identity: identity(durable), identity_before: None, instance });
    NodeRegistration { agent, ..NodeRegistration::new(name("n1"), facts, NodeId(7), instance) }
}

fn refusal(refused: StoreResult<Registered>) -> RefusalCause {
    match refused {
        Err(StoreError::NodeRefused(refusal)) => refusal.cause,
        other => panic!("{other:?}"),
    }
}

async fn in_force(cell: &TestCell, session: u64) -> bool {
    cell.beat(SessionFence { node: NodeId(7), session }, session).await.unwrap()
}

async fn row(cell: &TestCell) -> borough_model::node::NodeRow {
    cell.run(async |tx| node_read(&tx, &cell.space, NodeId(7)).await).await.unwrap()
}

#[tokio::test]
async fn a_refused_agent_leaves_the_session_of_the_other_in_force() {
    let cell = TestCell::new().await;
    register_as(&cell, registration(1, 11, "b1")).await.unwrap();
    let before = row(&cell).await;
    assert_eq!(before.identity, Some(identity(1)));
    assert_eq!(refusal(register_as(&cell, registration(2, 21, "b1")).await), RefusalCause::OtherAgent);
    let stranger = NodeRegistration { agent: None, ..registration(1, 31, "b1") };
    assert_eq!(refusal(register_as(&cell, stranger).await), RefusalCause::OtherAgent);
    assert_eq!(row(&cell).await, before);
    assert!(in_force(&cell, 11).await && !in_force(&cell, 21).await);
    // The agent starts again; its earlier process never comes back.
    register_as(&cell, registration(1, 12, "b1")).await.unwrap();
    assert!(in_force(&cell, 12).await && !in_force(&cell, 11).await);
    assert_eq!(refusal(register_as(&cell, registration(1, 11, "b1")).await), RefusalCause::Superseded);
    assert!(in_force(&cell, 12).await);
}

#[tokio::test]
async fn another_boot_waits_for_the_silence_of_the_one_before() {
    let cell = TestCell::new().await;
    register_as(&cell, registration(1, 11, "b1")).await.unwrap();
    assert!(in_force(&cell, 11).await);
    let seen = cell.run(async |tx| node_live_read(&tx, &cell.space, NodeId(7)).await).await.unwrap();
    assert_eq!(refusal(register_as(&cell, registration(1, 12, "b2")).await), RefusalCause::StillBeats);
    // The lease was seen silent, and is renewed before the registration commits.
    cell.beat(SessionFence { node: NodeId(7), session: 11 }, 99).await.unwrap();
    let early = NodeRegistration { silent: seen, ..registration(1, 12, "b2") };
    assert_eq!(refusal(register_as(&cell, early).await), RefusalCause::StillBeats);
    let seen = cell.run(async |tx| node_live_read(&tx, &cell.space, NodeId(7)).await).await.unwrap();
    let late = NodeRegistration { silent: seen, ..registration(1, 12, "b2") };
    assert!(register_as(&cell, late).await.unwrap().rebooted);
    assert!(in_force(&cell, 12).await);
}

#[tokio::test]
async fn an_operator_gives_the_node_of_a_silent_agent_to_another_one() {
    let cell = TestCell::new().await;
    register_as(&cell, registration(1, 11, "b1")).await.unwrap();
    let admit = async |seen: Option<NodeSeen>| {
        cell.change(change(9, "node_admit"), async |tx, changes| {
            node_agent_admit(tx, changes, NodeId(7), &identity(2), seen.as_ref()).await
        })
        .await
    };
    let seen = cell.run(async |tx| node_live_read(&tx, &cell.space, NodeId(7)).await).await.unwrap();
    assert!(in_force(&cell, 11).await);
    assert!(matches!(admit(seen).await, Err(StoreError::Refused { .. })), "it has reported since");
    assert!(in_force(&cell, 11).await);
    let seen = cell.run(async |tx| node_live_read(&tx, &cell.space, NodeId(7)).await).await.unwrap();
    assert!(matches!(admit(seen.clone()).await, Err(StoreError::Refused { .. })), "it is not lost yet");
    let lost = cell.change(change(10, "node_declare_lost"), async |tx, changes| {
        node_declare_lost(tx, changes, NodeId(7), seen.as_ref()).await
    });
    assert!(matches!(lost.await.unwrap(), DeclaredLost::Lost(_)));
    let admitted = admit(seen).await.unwrap();
    assert_eq!((admitted.identity, admitted.state), (Some(identity(2)), NodeState::Lost));
    assert!(!in_force(&cell, 11).await, "its session is over");
    assert_eq!(admit(None).await.unwrap().state, NodeState::Lost, "once is enough");
    assert_eq!(refusal(register_as(&cell, registration(1, 11, "b1")).await), RefusalCause::OtherAgent);
    let registered = register_as(&cell, registration(2, 21, "b7")).await.unwrap();
    assert!(registered.returning && registered.row.state == NodeState::Recovering);
    assert!(in_force(&cell, 21).await);
}

/// A row from before agents had identities: the first agent with an identity takes the node.
#[tokio::test]
async fn a_node_without_an_identity_takes_the_first_that_comes() {
    let cell = TestCell::new().await;
    register(&cell, "n1", &facts(), 7).await;
    let taken = register_as(&cell, registration(1, 11, "b2")).await.unwrap();
    assert_eq!(taken.row.identity, Some(identity(1)));
    assert_eq!(refusal(register_as(&cell, registration(2, 21, "b2")).await), RefusalCause::OtherAgent);
}

/// Older versions recorded an agent's key instead of its digest. The agent keeps its node, and nobody else gets it with
/// the digest that is shown.
#[tokio::test]
async fn a_recorded_key_becomes_its_digest_and_a_digest_is_no_key() {
    let cell = TestCell::new().await;
    let key = AgentKey(1);
    let of_key = |key: AgentKey, instance| {
        let identity = AgentIdentity::new(key.durable_id(), "m1").unwrap();
        let before = AgentIdentity { durable: DurableId(key.0), is_digest: false, ..identity.clone() };
        AgentProcess { identity, identity_before: Some(before), instance }
    };
    let recorded = AgentProcess { identity: of_key(key, 11).identity_before.unwrap(), ..of_key(key, 11) };
    register_as(&cell, NodeRegistration { agent: Some(recorded), ..registration(1, 11, "b1") })
        .await
        .unwrap();
    let registration_of =
        |agent, instance| NodeRegistration { agent: Some(agent), ..registration(1, instance, "b1") };
    let taken = register_as(&cell, registration_of(of_key(key, 12), 12)).await.unwrap();
    assert_eq!(taken.row.identity, Some(of_key(key, 0).identity), "the key is not recorded any more");
    // Someone presents the public digest as if it were a key.
    let shown = AgentKey(key.durable_id().0);
    let refused = register_as(&cell, registration_of(of_key(shown, 13), 13)).await;
    assert_eq!(refusal(refused), RefusalCause::OtherAgent);
}

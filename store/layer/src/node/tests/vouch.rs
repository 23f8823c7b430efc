//! Gateways vouch by reference, and observers follow the order of changes.

use borough_model::node::{NodeLive, REGISTERED, Voucher};

use super::*;
use crate::keys::{NodeLiveAtKey, NodeLiveChangeKey, Prefix, RangeOptions};
use crate::node::{
    GatewayRenewed, LiveCursor, gateway_live_claim, gateway_live_remove, gateway_live_renew,
    live_changes_read, live_cursor_now, node_live_renew, node_live_withdraw, nodes_held_elsewhere,
};

const GATEWAY: u64 = 70;

async fn claim(cell: &TestCell, beat: u64) -> Voucher {
    cell.run(async |tx| gateway_live_claim(&tx, &cell.space, GATEWAY, "g:1", beat).await).await.unwrap()
}

async fn renew(cell: &TestCell, voucher: Voucher, last: u64, beat: u64) -> GatewayRenewed {
    cell.run(async |tx| gateway_live_renew(&tx, &cell.space, voucher, last, beat).await).await.unwrap()
}

async fn vouch(cell: &TestCell, node: NodeId, beat: u64, voucher: Voucher) {
    let vouched = cell.run(async |tx| {
        let writer = node_writer(&tx, &cell.space, fence(node)).await?.unwrap();
        node_live_renew(&writer, &cell.space, beat, 0, Some(voucher)).await
    });
    vouched.await.unwrap();
}

async fn withdraw(cell: &TestCell, node: NodeId) -> Option<bool> {
    let withdrawn = cell.run(async |tx| match node_writer(&tx, &cell.space, fence(node)).await? {
        Some(writer) => node_live_withdraw(&writer, &cell.space, 700).await.map(Some),
        None => Ok(None),
    });
    withdrawn.await.unwrap()
}

async fn seen(cell: &TestCell, node: NodeId) -> Option<NodeSeen> {
    cell.run(async |tx| node_live_read(&tx, &cell.space, node).await).await.unwrap()
}

async fn declare(cell: &TestCell, node: NodeId, observed: Option<&NodeSeen>) -> DeclaredLost {
    let declaring = cell.change(change(9, "node_declare_lost"), async |tx, changes| {
        node_declare_lost(tx, changes, node, observed).await
    });
    declaring.await.unwrap()
}

#[tokio::test]
async fn the_beat_of_its_gateway_voids_the_loss_of_a_node() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    let voucher = claim(&cell, 1).await;
    vouch(&cell, node, 2, voucher).await;
    let before = seen(&cell, node).await;
    assert_eq!(before.as_ref().unwrap().beat, Some(1));
    assert_eq!(renew(&cell, voucher, 1, 5).await, GatewayRenewed::Renewed);
    assert_eq!(declare(&cell, node, before.as_ref()).await, DeclaredLost::Beaten);
    let silent = seen(&cell, node).await;
    assert!(matches!(declare(&cell, node, silent.as_ref()).await, DeclaredLost::Lost(_)));
}

/// The renewal commits between the reading and the commit of the declaration.
#[tokio::test]
async fn a_gateway_s_beat_in_between_fails_the_declaration() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    let voucher = claim(&cell, 1).await;
    vouch(&cell, node, 2, voucher).await;
    let observed = seen(&cell, node).await;
    let attempts = std::sync::atomic::AtomicU32::new(0);
    let declaring = cell.change(change(9, "node_declare_lost"), async |tx, changes| {
        let outcome = node_declare_lost(tx, changes, node, observed.as_ref()).await?;
        if attempts.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 {
            assert_eq!(renew(&cell, voucher, 1, 5).await, GatewayRenewed::Renewed);
        }
        Ok(outcome)
    });
    assert_eq!(declaring.await.unwrap(), DeclaredLost::Beaten);
}

/// Two processes with one number and one epoch. The first renewal unmasks the second one. Its claim ends the epoch of
/// both, and the first one finds itself deposed.
#[tokio::test]
async fn a_copy_of_a_gateway_ends_the_epoch_of_both() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    let voucher = claim(&cell, 1).await;
    vouch(&cell, node, 2, voucher).await;
    assert_eq!(renew(&cell, voucher, 1, 10).await, GatewayRenewed::Renewed);
    assert_eq!(renew(&cell, voucher, 1, 20).await, GatewayRenewed::Copied, "the copy has written 1 too");
    assert_eq!(renew(&cell, voucher, 1, 10).await, GatewayRenewed::Renewed, "a repetition is no copy");
    let again = claim(&cell, 20).await;
    assert_eq!(again, Voucher { epoch: voucher.epoch + 1, ..voucher });
    assert_eq!(renew(&cell, voucher, 10, 11).await, GatewayRenewed::Deposed);
    assert_eq!(seen(&cell, node).await.unwrap().beat, None, "the voucher of the old epoch is over");
    let remove = async |voucher, beat| {
        cell.run(async |tx| gateway_live_remove(&tx, &cell.space, voucher, beat).await).await.unwrap()
    };
    assert!(!remove(voucher, 10).await && !remove(again, 19).await && remove(again, 20).await);
    assert_eq!(renew(&cell, again, 20, 21).await, GatewayRenewed::Deposed);
}

/// A gateway that was paused vouches for no node that moved on, and withdraws nothing from it.
#[tokio::test]
async fn a_gateway_touches_no_node_that_moved_to_another() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    let voucher = claim(&cell, 1).await;
    vouch(&cell, node, 2, voucher).await;
    register_as(&cell, NodeRegistration::new(name("n1"), facts(), NodeId(8), 6)).await.unwrap();
    let other = Voucher { gateway: 71, epoch: 1 };
    let moved = cell.run(async |tx| {
        let writer = node_writer(&tx, &cell.space, SessionFence { node, session: 6 }).await?.unwrap();
        node_live_renew(&writer, &cell.space, 2, 0, Some(other)).await
    });
    moved.await.unwrap();
    let before = seen(&cell, node).await;
    assert_eq!(before.as_ref().unwrap().live.voucher, Some(other));
    assert_eq!(withdraw(&cell, node).await, None);
    assert_eq!(renew(&cell, voucher, 1, 2).await, GatewayRenewed::Renewed);
    assert_eq!(seen(&cell, node).await, before, "the paused gateway's beat is none of the node");
}

#[tokio::test]
async fn a_withdrawal_keeps_what_was_proved_and_proves_nothing() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    let voucher = claim(&cell, 1).await;
    vouch(&cell, node, 2, voucher).await;
    assert_eq!(withdraw(&cell, node).await, Some(true));
    let row = seen(&cell, node).await.unwrap();
    assert_eq!(row.live, NodeLive { beat: 2, session: SESSION, silent_ms: 700, ..NodeLive::default() });
    assert_eq!(withdraw(&cell, node).await, Some(false), "once is enough");
}

/// The order of changes has one entry per node, however often it changes. An observer reads what is new, in parts.
#[tokio::test]
async fn an_observer_reads_what_has_changed_and_each_node_once() {
    let cell = TestCell::new().await;
    let begin = cell.run(async |tx| live_cursor_now(&tx).await).await.unwrap();
    let read = async |after: LiveCursor, limit| {
        cell.run(async |tx| live_changes_read(&tx, &cell.space, after, limit).await).await.unwrap()
    };
    let mut nodes = Vec::new();
    for number in 1..=3_u64 {
        let node = register(&cell, &format!("n{number}"), &facts(), 10 + number).await.row.id;
        assert!(cell.beat(fence(node), REGISTERED).await.unwrap());
        nodes.push(node);
    }
    for beat in 2..12 {
        assert!(cell.beat(fence(nodes[0]), beat).await.unwrap());
    }
    let all = read(begin, 100).await;
    let order: Vec<NodeId> = all.changed.iter().map(|(node, _)| *node).collect();
    assert_eq!((order, all.is_more), (vec![nodes[1], nodes[2], nodes[0]], false));
    assert_eq!(all.changed[2].1.as_ref().unwrap().beat, 11);
    assert!(read(all.cursor, 100).await.changed.is_empty());
    let part = read(begin, 2).await;
    assert!(part.is_more && part.changed.len() == 2);
    let rest = read(part.cursor, 2).await;
    assert_eq!(rest.changed.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [nodes[0]]);
    assert!(cell.beat(fence(nodes[1]), 5).await.unwrap());
    assert_eq!(read(all.cursor, 100).await.changed.len(), 1);
    // The removal of a node leaves nothing behind.
    let seen = cell.run(async |tx| node_live_read(&tx, &cell.space, nodes[1]).await).await.unwrap();
    let removed = cell.change(change(5, "node_remove"), async |tx, changes| {
        node_cordon(tx, changes, nodes[1]).await?;
        node_remove(tx, changes, nodes[1], seen.as_ref()).await
    });
    removed.await.unwrap();
    let places = cell.run(async |tx| {
        let changes =
            keys::range::<NodeLiveChangeKey>(&tx, &cell.space, &Prefix::all(), RangeOptions::snapshot())
                .await?;
        let places =
            keys::range::<NodeLiveAtKey>(&tx, &cell.space, &Prefix::all(), RangeOptions::snapshot()).await?;
        let changes = changes.into_iter().map(|(key, ())| (key.node, key.stamp));
        let places = places.into_iter().map(|(key, stamp)| (key.node, stamp.0));
        Ok((changes.collect::<BTreeMap<_, _>>(), places.collect::<BTreeMap<_, _>>()))
    });
    let (changes, places) = places.await.unwrap();
    assert_eq!(changes, places);
    assert_eq!(changes.keys().copied().collect::<Vec<_>>(), [nodes[0], nodes[2]]);
}

/// A list of nodes that one of two gateways answers.
#[tokio::test]
async fn a_node_is_held_elsewhere_while_another_gateway_vouches_for_it() {
    let cell = TestCell::new().await;
    let registration = NodeRegistration {
        gateway: "g:1".to_owned(),
        ..NodeRegistration::new(name("n1"), facts(), NodeId(7), 5)
    };
    let node = register_as(&cell, registration).await.unwrap().row.id;
    let held = async |own: &str| {
        let read = cell.run(async |tx| nodes_held_elsewhere(&tx, &cell.space, &[node], own).await);
        read.await.unwrap().contains(&node)
    };
    assert!(!held("g:2").await, "nobody vouches for it yet");
    let voucher = claim(&cell, 1).await;
    vouch(&cell, node, 2, voucher).await;
    assert!(held("g:2").await && !held("g:1").await);
    assert_eq!(withdraw(&cell, node).await, Some(true));
    assert!(!held("g:2").await);
}

//! Nodes against a store: identity, tokens, loss and renewals, removal.

mod fence;
mod follow;
mod identity;
mod vouch;

use std::collections::BTreeMap;

use borough_kv::FaultPlan;
use borough_model::node::{
    LoadMeasured, NodeAlloc, NodeFacts, NodeLive, NodeSeen, NodeState, Pressure, Taint, TaintEffect,
};
use borough_model::{Delta, JobId, NodeId, TaskId};

use super::*;
use crate::error::StoreError;
use crate::journal::journal_tail;
use crate::keys::{self, NodeAllocKey, NodeLoadKey, NodeTaskKey};
use crate::row::Cursor;
use crate::testing::{LATE, TestCell, change, name, node_facts, seeds};

fn facts() -> NodeFacts {
    let attributes = BTreeMap::from([("rack".to_owned(), "r1".to_owned())]);
    NodeFacts { attributes, ..node_facts(4_000) }
}

async fn register(cell: &TestCell, text: &str, facts: &NodeFacts, id: u64) -> Registered {
    register_as(cell, NodeRegistration::new(name(text), facts.clone(), NodeId(id), SESSION)).await.unwrap()
}

async fn register_as(cell: &TestCell, registration: NodeRegistration) -> crate::StoreResult<Registered> {
    let change = change(u128::from(registration.candidate.0), "node_register");
    cell.change(change, async |tx, changes| Ok(node_register(tx, changes, &registration).await?.0)).await
}

/// The session that tests write in.
const SESSION: u64 = 5;

fn fence(node: NodeId) -> SessionFence {
    SessionFence { node, session: SESSION }
}

async fn epoch(cell: &TestCell, node: NodeId) -> u64 {
    cell.run(async |tx| node_alloc_read(&tx, &cell.space, node).await).await.unwrap().epoch
}

#[tokio::test]
async fn a_node_is_known_again_by_its_name() {
    let cell = TestCell::new().await;
    let first = register(&cell, "n1", &facts(), 7).await;
    assert!(first.created && first.changed && first.row.state == NodeState::Recovering);
    assert_eq!(epoch(&cell, NodeId(7)).await, 1);
    let again = register(&cell, "n1", &facts(), 8).await;
    assert!(!again.created && !again.changed && again.row == first.row);
    assert_eq!(epoch(&cell, NodeId(7)).await, 1, "nothing was written");
    let booted = NodeFacts { boot_id: "boot-2".to_owned(), ..facts() };
    let booted = register(&cell, "n1", &booted, 9).await;
    assert!(booted.rebooted && booted.row.id == NodeId(7));
    assert_eq!(epoch(&cell, NodeId(7)).await, 2);
}

#[tokio::test]
async fn an_id_in_use_is_refused_for_another_name() {
    let cell = TestCell::new().await;
    register(&cell, "n1", &facts(), 7).await;
    let clash = register_as(&cell, NodeRegistration::new(name("n2"), facts(), NodeId(7), SESSION));
    assert!(matches!(clash.await, Err(StoreError::AlreadyExists { .. })));
}

#[tokio::test]
async fn every_change_of_the_row_moves_the_token_and_the_journal() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    cell.change_as(change(2, "node_reported"), fence(node), async |writer, changes| {
        node_reported(writer, changes, &[]).await
    })
    .await
    .unwrap();
    let cordon = async |tx: &borough_kv::Transaction, changes: &mut crate::ChangeSet| {
        node_cordon(tx, changes, node).await
    };
    let row = cell.change(change(3, "node_cordon"), cordon).await.unwrap();
    assert!(!row.schedulable && row.state == NodeState::Ready);
    assert_eq!(epoch(&cell, node).await, 3);
    cell.change(change(4, "node_cordon"), cordon).await.unwrap();
    assert_eq!(epoch(&cell, node).await, 3, "cordoning twice is cordoning once");
    let page =
        cell.run(async |tx| journal_tail(&tx, &cell.space, Cursor::start(1), 100).await).await.unwrap();
    let actions: Vec<_> = page.entries.iter().map(|(_, entry)| entry.action.as_str()).collect();
    assert_eq!(actions, ["node_register", "node_reported", "node_cordon"]);
    let last = &page.entries[2].1.deltas;
    assert!(matches!(&last[..], [Delta::Node { row }, Delta::NodeAlloc { alloc, .. }]
        if row.revision == 3 && alloc.epoch == 3));
}

#[tokio::test]
async fn a_placement_decided_before_a_taint_conflicts_with_it() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    let taint = Taint {
        key: "own".to_owned(),
        value: String::new(),
        effect: TaintEffect::NoSchedule,
        added_ms: 1_000,
    };
    let version = async || cell.run(async |tx| Ok(tx.read_version().await?)).await.unwrap();
    // As a worker does: it guards the node's token at the version that it has planned at.
    let placing = async |at| {
        let alloc = NodeAlloc { epoch: 99, ..NodeAlloc::default() };
        let placed = cell.db.commit_at("placement", at, |tx| {
            keys::guard(tx, &cell.space, &NodeAllocKey { node })?;
            keys::write(tx, &cell.space, &NodeAllocKey { node }, &alloc)
        });
        placed.await.is_ok()
    };
    let tainting = async |request, taints: &[Taint]| {
        let set = cell.change(change(request, "node_taint"), async |tx, changes| {
            node_taints_set(tx, changes, node, taints, &[]).await
        });
        set.await
    };
    let before = version().await;
    let row = tainting(2, std::slice::from_ref(&taint)).await.unwrap();
    assert_eq!(row.taints, vec![taint.clone()]);
    assert!(!placing(before).await, "a placement was committed that the taint forbids");
    let before = version().await;
    tainting(3, &[taint]).await.unwrap();
    assert!(placing(before).await, "the same taint again is no change");
    let wrong =
        Taint { key: "a b".to_owned(), value: String::new(), effect: TaintEffect::NoSchedule, added_ms: 0 };
    assert!(matches!(tainting(4, &[wrong]).await, Err(StoreError::InvalidSpec { .. })));
}

#[tokio::test]
async fn a_beat_voids_a_declaration_of_loss() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    let live = |beat| NodeLive { beat, session: SESSION, ..NodeLive::default() };
    let renew = async |beat| assert!(cell.beat(fence(node), beat).await.unwrap());
    let declare = async |observed: NodeLive| {
        let observed = NodeSeen::of(observed, None);
        let declaring = cell.change(change(9, "node_declare_lost"), async |tx, changes| {
            node_declare_lost(tx, changes, node, Some(&observed)).await
        });
        declaring.await.unwrap()
    };
    renew(1).await;
    renew(2).await;
    assert_eq!(declare(live(1)).await, DeclaredLost::Beaten);
    let DeclaredLost::Lost(row) = declare(live(2)).await else { panic!("silent since beat 2") };
    assert_eq!(row.state, NodeState::Lost);
    assert!(matches!(declare(live(2)).await, DeclaredLost::Before(_)));
    let back = register(&cell, "n1", &facts(), 8).await;
    assert!(back.returning && back.row.state == NodeState::Recovering && back.row.id == node);
    let list = cell.run(async |tx| node_live_list(&tx, &cell.space).await).await.unwrap();
    assert_eq!(list, BTreeMap::from([(node, live(2))]));
}

/// The declaration reads the lease. A renewal that commits in between makes it fail and decide again.
#[tokio::test]
async fn a_beat_in_between_fails_the_declaration() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    let attempts = std::sync::atomic::AtomicU32::new(0);
    let declaring = cell.change(change(9, "node_declare_lost"), async |tx, changes| {
        let outcome = node_declare_lost(tx, changes, node, None).await?;
        if attempts.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 {
            cell.beat(fence(node), 5).await?;
        }
        Ok(outcome)
    });
    assert_eq!(declaring.await.unwrap(), DeclaredLost::Beaten);
    assert_eq!(attempts.load(std::sync::atomic::Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_node_is_removed_only_when_empty_and_closed() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    let remove = async || {
        cell.change(change(5, "node_remove"), async |tx, changes| node_remove(tx, changes, node, None).await)
            .await
    };
    assert!(matches!(remove().await, Err(StoreError::Refused { .. })), "it takes tasks");
    cell.change(change(2, "node_drain"), async |tx, changes| node_drain(tx, changes, node).await)
        .await
        .unwrap();
    let task = TaskId { job: JobId(1), index: 0 };
    cell.run(async |tx| keys::write(&tx, &cell.space, &NodeTaskKey::of(node, task), &())).await.unwrap();
    let error = remove().await.unwrap_err();
    assert!(error.to_string().contains("to move them: borough node drain n1"), "{error}");
    cell.run(async |tx| keys::clear(&tx, &cell.space, &NodeTaskKey::of(node, task))).await.unwrap();
    // A sign of life since the operator's gateway has looked.
    cell.beat(fence(node), 3).await.unwrap();
    let error = remove().await.unwrap_err();
    assert!(error.to_string().contains("agent of node n1 still reports"), "{error}");
    let seen = cell.run(async |tx| node_live_read(&tx, &cell.space, node).await).await.unwrap();
    cell.change(change(5, "node_remove"), async |tx, changes| {
        node_remove(tx, changes, node, seen.as_ref()).await
    })
    .await
    .unwrap();
    let gone = cell.run(async |tx| node_by_name(&tx, &cell.space, &name("n1")).await).await;
    assert!(matches!(gone, Err(StoreError::NotFound { .. })));
    let again = register(&cell, "n1", &facts(), 8).await;
    assert!(again.created && again.row.id == NodeId(8), "a new node, with a new id");
}

#[tokio::test]
async fn labels_of_a_node_outlive_registrations_and_raise_its_token() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    let label = async |set: &[(&str, &str)], remove: &[&str]| {
        let set: BTreeMap<_, _> =
            set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let remove = remove.iter().map(|key| key.to_string()).collect();
        let setting = cell.change(change(3, "node_label"), async |tx, changes| {
            node_labels_set(tx, changes, node, &set, &remove).await
        });
        setting.await
    };
    let before = epoch(&cell, node).await;
    let row = label(&[("rack", "r9"), ("tier", "db")], &[]).await.unwrap();
    assert_eq!(epoch(&cell, node).await, before + 1, "placements that were planned without it fail");
    assert_eq!(label(&[("tier", "db")], &["nothing"]).await.unwrap(), row, "no change");
    assert_eq!(epoch(&cell, node).await, before + 1);
    let booted = NodeFacts { boot_id: "boot-2".to_owned(), ..facts() };
    assert_eq!(register(&cell, "n1", &booted, 8).await.row.labels, row.labels);
    let left = label(&[], &["rack"]).await.unwrap().labels;
    assert_eq!(left, BTreeMap::from([("tier".to_owned(), "db".to_owned())]));
    for key in ["node.name", "package/web/1", "a b", ""] {
        let wrong = label(&[(key, "x")], &[]).await;
        assert!(matches!(wrong, Err(StoreError::InvalidSpec { .. })), "{key}: {wrong:?}");
    }
}

fn load(cpu_millis: u64) -> LoadMeasured {
    LoadMeasured { cpu_millis, ..LoadMeasured::default() }
}

async fn loads_set(cell: &TestCell, reports: &[(NodeId, u64, Option<LoadMeasured>)]) -> usize {
    let setting = cell.change(change(4, "node_loads"), async |tx, changes| {
        let fences = reports.iter().map(|&(node, session, _)| SessionFence { node, session });
        let writers = node_writers(tx, &cell.space, fences).await?;
        let measured =
            |&(node, session, measured)| Some((writers.get(&SessionFence { node, session })?, measured));
        node_loads_set(changes, &reports.iter().filter_map(measured).collect::<Vec<_>>()).await
    });
    setting.await.unwrap()
}

#[tokio::test]
async fn a_load_is_that_of_the_session_and_within_the_node() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    let known = async || {
        cell.run(async |tx| keys::read(&tx, &cell.space, &NodeLoadKey { node }).await).await.unwrap()
    };
    let before = epoch(&cell, node).await;
    let reports = [(NodeId(404), 5, Some(load(1))), (node, 5, Some(load(9_999)))];
    assert_eq!(loads_set(&cell, &reports).await, 1, "there is no such node as the first");
    assert_eq!(known().await.unwrap().measured, Some(load(4_000)), "no more than it has");
    assert_eq!(loads_set(&cell, &[(node, 5, Some(load(3_990)))]).await, 0, "hardly another");
    assert_eq!(loads_set(&cell, &[(node, 4, Some(load(0)))]).await, 0, "of a session that is over");
    assert_eq!(loads_set(&cell, &[(node, 5, None)]).await, 1);
    assert_eq!(known().await.map(|load| (load.revision, load.measured)), Some((2, None)));
    assert_eq!(epoch(&cell, node).await, before, "what is committed on it is another row");
    cell.change(change(2, "node_drain"), async |tx, changes| node_drain(tx, changes, node).await)
        .await
        .unwrap();
    cell.change(change(5, "node_remove"), async |tx, changes| node_remove(tx, changes, node, None).await)
        .await
        .unwrap();
    assert_eq!(known().await, None, "gone with its node");
}

/// A report of a node that is removed in between fails, and the retry finds nothing to write.
#[tokio::test]
async fn a_removed_node_gets_no_load() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    cell.change(change(2, "node_drain"), async |tx, changes| node_drain(tx, changes, node).await)
        .await
        .unwrap();
    let attempts = std::sync::atomic::AtomicU32::new(0);
    let setting = cell.change(change(4, "node_loads"), async |tx, changes| {
        let writer = node_writer(tx, &cell.space, fence(node)).await?;
        let reports: Vec<_> = writer.iter().map(|writer| (writer, Some(load(1)))).collect();
        let written = node_loads_set(changes, &reports).await?;
        if attempts.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 {
            cell.change(change(5, "node_remove"), async |tx, changes| {
                node_remove(tx, changes, node, None).await
            })
            .await?;
        }
        Ok(written)
    });
    assert_eq!(setting.await.unwrap(), 0);
    assert_eq!(attempts.load(std::sync::atomic::Ordering::SeqCst), 2);
}

/// A measurement never fails a placement that was decided before it.
#[tokio::test]
async fn a_load_conflicts_with_no_placement() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    let attempts = std::sync::atomic::AtomicU32::new(0);
    let placing = cell.change(change(6, "placing"), async |tx, changes| {
        // As a placement does: the node's commitment guards it.
        let alloc = node_alloc_read(tx, changes.space(), node).await?;
        node_read(tx, changes.space(), node).await?;
        if attempts.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 {
            assert_eq!(loads_set(&cell, &[(node, 5, Some(load(1_000)))]).await, 1);
        }
        node_alloc_write(tx, changes, node, &NodeAlloc { epoch: alloc.epoch + 1, ..alloc })
    });
    placing.await.unwrap();
    assert_eq!(attempts.load(std::sync::atomic::Ordering::SeqCst), 1, "at once");
}

/// Agents register over and over through any gateway: one id per name, and the token counts every change.
#[tokio::test(start_paused = true)]
async fn a_name_has_one_id_whatever_the_store_does() {
    for seed in seeds(20) {
        let cell = std::rc::Rc::new(TestCell::with_faults(seed, FaultPlan::heavy()).await);
        let gateways = tokio::task::LocalSet::new();
        for gateway in 0..4_u64 {
            let cell = std::rc::Rc::clone(&cell);
            gateways.spawn_local(async move {
                for boot in 0..5 {
                    let facts = NodeFacts { boot_id: format!("boot-{boot}"), ..facts() };
                    let (text, id) = (format!("n{}", boot % 2), NodeId(gateway * 10 + boot));
                    let registration = NodeRegistration::new(name(&text), facts, id, gateway * 10 + boot + 1);
                    let _ = register_as(&cell, registration).await;
                }
            });
        }
        gateways.await;
        tokio::time::sleep(LATE).await;
        let rows = loop {
            if let Ok(rows) = cell.run(async |tx| node_list(&tx, &cell.space).await).await {
                break rows;
            }
        };
        let names: Vec<_> = rows.iter().map(|row| row.name.clone()).collect();
        assert_eq!(rows.len(), 2, "seed {seed}: {names:?}");
        for row in rows {
            let alloc = loop {
                if let Ok(alloc) = cell.run(async |tx| node_alloc_read(&tx, &cell.space, row.id).await).await
                {
                    break alloc;
                }
            };
            assert_eq!(alloc.epoch, row.revision, "seed {seed}: {}", row.name);
        }
    }
}

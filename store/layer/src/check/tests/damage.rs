//! Damages every kind of row: removes it, swaps its value, or flips a bit. The check must name the wrong key, its
//! stored value, and the expected one.

use std::collections::{BTreeMap, BTreeSet};

use borough_kv::RangeRequest;
use borough_model::access::AccessSubject;
use borough_model::job::Band;
use borough_model::node::{LoadMeasured, PORT_KEPT_BACK_MS};
use borough_model::quota::{QUOTA_GROUPS_MAX, QuotaGrant};
use borough_model::{GangId, JobId};
use bytes::Bytes;

use super::super::*;
use crate::key_kind::KeyKind;
use crate::keys::{
    self, CellGateKey, GangKey, JobRowKey, Key, LeaseBeatKey, LeaseKey, NodeAllocKey, NodeLoadKey,
    NodeTaskKey, QuotaKey, QuotaReleasedKey, RequestExpiryKey, RequestKey, StoredRow,
};
use crate::node::{SessionFence, node_loads_set, node_writers};
use crate::placement::tests::Steps;
use crate::placement::tests::world::World;
use crate::request::request_finish;
use crate::row::{LeaseBeat, LeaseRow, QuotaRow, QuotaUsed};
use crate::testing::name;

/// A cell in which something of every kind has happened.
async fn world() -> World {
    let (mut world, mut steps) = (World::new(11).await, Steps::new());
    // Under a limit, the sum has a row of its own.
    for band in [Band::BestEffort, Band::Batch, Band::Production, Band::Monitoring] {
        let limit = crate::row::QuotaRow { tasks_max: Some(1_000_000), ..Default::default() };
        let set = world.read(async |tx, space| {
            crate::quota::quota_set(tx, space, &name("ada"), band, Some(&limit)).await
        });
        set.await.unwrap();
    }
    for step in 0.. {
        steps.step(&mut world).await;
        if step > 120 {
            let rows = world.rows().await;
            if !rows.endpoints.is_empty() && !rows.past.is_empty() {
                break;
            }
        }
    }
    gang_of_any(&mut world).await;
    load_of_any(&mut world).await;
    world
        .read(async |tx, space| {
            request_finish(tx, space, borough_model::RequestId(77), b"digest", b"result", 5_000)?;
            let (role, shard) = ("controller".to_owned(), 0);
            keys::write(
                tx,
                space,
                &LeaseKey { role: role.clone(), shard },
                &LeaseRow { epoch: 3, ..LeaseRow::default() },
            )?;
            keys::write(tx, space, &LeaseBeatKey { role, shard }, &LeaseBeat { epoch: 3, beat: 1 })
        })
        .await
        .unwrap();
    world
}

/// Writes the load of some node.
async fn load_of_any(world: &mut World) {
    let rows = world.rows().await;
    let measured = Some(LoadMeasured { cpu_millis: 700, ..LoadMeasured::default() });
    let fences = rows.node_sessions.iter().map(|&node| SessionFence { node, session: 1 });
    let fences: Vec<SessionFence> = fences.collect();
    world
        .change("load", async |tx, changes| {
            let writers = node_writers(tx, changes.space(), fences.iter().copied()).await?;
            let reports: Vec<_> = writers.values().map(|writer| (writer, measured)).collect();
            node_loads_set(changes, &reports).await.map(drop)
        })
        .await;
    assert!(!world.rows().await.loads.is_empty());
}

/// Begins a gang of the first job that can have one.
async fn gang_of_any(world: &mut World) {
    let jobs: Vec<JobId> = world.rows().await.jobs.keys().copied().collect();
    for job in jobs {
        world
            .change("gang", async |tx, changes| {
                // A refusal is fine: another job gets its turn.
                crate::gang::gang_begin(tx, &mut changes.open()?, GangId(5), job, 1, 1)
                    .await
                    .map(drop)
                    .or(Ok(()))
            })
            .await;
        if !world.rows().await.gangs.is_empty() {
            return;
        }
    }
    panic!("no job can have a gang");
}

async fn raw(world: &World) -> Vec<(Bytes, Bytes)> {
    let read = world.read(async |tx, space| {
        let range = space.range();
        Ok(tx.range_all(RangeRequest::between(range.start, range.end).snapshot()).await?)
    });
    read.await.unwrap()
}

async fn put(world: &World, key: &[u8], value: Option<&[u8]>) {
    let write = world.read(async |tx, _| match value {
        Some(value) => Ok(tx.set(key, value)?),
        None => Ok(tx.clear(key)?),
    });
    write.await.unwrap();
}

async fn found(world: &World) -> Vec<Violation> {
    cell_violations(&world.rows().await, CheckMode::Always)
}

fn kind_of(world: &World, key: &[u8]) -> KeyKind {
    let kinds = KeyKind::ALL.iter().copied();
    let mut own = kinds.filter(|kind| {
        let range = keys::kind_range(&world.space, *kind);
        range.start.as_slice() <= key && key < range.end.as_slice()
    });
    own.next().unwrap()
}

/// Kinds whose rows no other row depends on, so that neither a missing row nor a wrong value shows.
const BY_THEMSELVES: [KeyKind; 13] = [
    KeyKind::GatewayLive,
    KeyKind::NodeLive,
    KeyKind::NodeLiveAt,
    KeyKind::NodeLiveChange,
    KeyKind::NodeSession,
    KeyKind::AccessGrant,
    KeyKind::AccessHead,
    KeyKind::NodeJoinHead,
    KeyKind::Quota,
    KeyKind::Constraint,
    KeyKind::NodeReserved,
    KeyKind::LeaseHead,
    KeyKind::SchedulerPool,
];

#[tokio::test(start_paused = true)]
async fn a_missing_row_is_reported_by_its_key() {
    let world = world().await;
    assert_eq!(found(&world).await, []);
    let mut kinds = BTreeSet::new();
    let mut tries: BTreeMap<KeyKind, u32> = BTreeMap::new();
    for (key, value) in raw(&world).await {
        let kind = kind_of(&world, &key);
        let tries = tries.entry(kind).or_default();
        *tries += 1;
        // A missing entry of the journal shows only if no later entry records its rows.
        if BY_THEMSELVES.contains(&kind) || kind == KeyKind::Journal || *tries > 8 {
            continue;
        }
        let zero = kind == KeyKind::QuotaReleased && value.iter().all(|byte| *byte == 0);
        // Three kinds may be missing unnoticed: a name whose job is over, the stamp of a name without endpoints, and a
        // spec of another version than the one in force.
        let history = [KeyKind::JobName, KeyKind::NameRevision, KeyKind::JobSpec].contains(&kind);
        put(&world, &key, None).await;
        let violations = found(&world).await;
        let reported = violations.iter().any(|one| {
            one.key.starts_with(kind.name()) || (kind == KeyKind::QuotaReleased && one.rule == "quota_sum")
        });
        assert!(reported || zero || history, "{kind} {key:?}: {violations:?}");
        if reported {
            kinds.insert(kind);
        }
        put(&world, &key, Some(&value)).await;
    }
    assert_eq!(found(&world).await, []);
    for kind in [
        KeyKind::CellMeta,
        KeyKind::CellGate,
        KeyKind::Node,
        KeyKind::NodeAlloc,
        KeyKind::NodeTask,
        KeyKind::NodeName,
        KeyKind::NodeLoad,
        KeyKind::JobName,
        KeyKind::JobSpec,
        KeyKind::JobRow,
        KeyKind::JobPast,
        KeyKind::Task,
        KeyKind::Gang,
        KeyKind::QuotaUsed,
        KeyKind::QuotaBelow,
        KeyKind::Name,
        KeyKind::NameRevision,
        KeyKind::JournalHead,
        KeyKind::Lease,
        KeyKind::LeaseBeat,
        KeyKind::Request,
        KeyKind::RequestExpiry,
    ] {
        assert!(kinds.contains(&kind), "no missing {kind} was reported");
    }
}

/// Kinds that the journal records whole, or whose every field is compared with something.
const COMPARED: [KeyKind; 11] = [
    KeyKind::Node,
    KeyKind::NodeAlloc,
    KeyKind::JobRow,
    KeyKind::Task,
    KeyKind::Gang,
    KeyKind::Name,
    KeyKind::NodeName,
    KeyKind::NodeLoad,
    KeyKind::QuotaUsed,
    KeyKind::QuotaBelow,
    KeyKind::JournalHead,
];

#[tokio::test(start_paused = true)]
async fn a_flipped_bit_is_reported_with_both_values() {
    let world = world().await;
    let mut at = 0_usize;
    for (key, value) in raw(&world).await {
        let kind = kind_of(&world, &key);
        if !COMPARED.contains(&kind) {
            continue;
        }
        at += 1;
        let mut turned = value.to_vec();
        let byte = (at * 7) % turned.len();
        turned[byte] ^= 1 << (at % 8);
        // An absent field has two encodings. Such a change alters nothing of what is stored.
        let read = |bytes: &[u8]| StoredRow::decode(&world.space, &key, bytes).ok();
        if read(&turned) == read(&value) {
            continue;
        }
        put(&world, &key, Some(&turned)).await;
        let violations = found(&world).await;
        let reported = violations.iter().find(|one| one.key.starts_with(kind.name()));
        let reported = reported.unwrap_or_else(|| panic!("{kind} byte {byte}: {violations:?}"));
        assert!(!reported.stored.is_empty() && reported.stored != reported.expected, "{reported}");
        put(&world, &key, Some(&value)).await;
    }
    assert!(at > 20, "{at}");
}

#[tokio::test(start_paused = true)]
async fn a_row_under_the_wrong_key_is_reported() {
    let world = world().await;
    let rows = raw(&world).await;
    let mut kinds = BTreeSet::new();
    for pair in rows.windows(2) {
        let [(key, own), (_, other)] = pair else { continue };
        let kind = kind_of(&world, key);
        if kind != kind_of(&world, &pair[1].0) || own == other || !COMPARED.contains(&kind) {
            continue;
        }
        put(&world, key, Some(other)).await;
        let violations = found(&world).await;
        assert!(violations.iter().any(|one| one.key.starts_with(kind.name())), "{kind}: {violations:?}");
        kinds.insert(kind);
        put(&world, key, Some(own)).await;
    }
    assert!(kinds.len() >= 5, "{kinds:?}");
}

async fn bogus(world: &World, row: StoredRow, rule: &str) {
    let (key, value) = row.encode(&world.space).unwrap();
    let before = raw(world).await.into_iter().find(|(known, _)| *known == key).map(|(_, value)| value);
    put(world, &key, Some(&value)).await;
    let violations = found(world).await;
    assert!(violations.iter().any(|one| one.rule == rule), "{rule}: {violations:?}");
    put(world, &key, before.as_deref()).await;
}

/// Rows of a node that does not exist are reported.
async fn nodes_without_a_row(world: &World) {
    let nowhere = borough_model::NodeId(4_242);
    bogus(world, StoredRow::NodeLoad(NodeLoadKey { node: nowhere }, Box::default()), "node_known").await;
    let live = keys::NodeLiveKey { node: nowhere };
    bogus(world, StoredRow::NodeLive(live, Box::default()), "node_known").await;
    let stamp = borough_kv::Versionstamp::new(1, 0);
    let place = keys::NodeLiveAtKey { node: nowhere };
    bogus(world, StoredRow::NodeLiveAt(place, Box::new(keys::StampValue(stamp))), "node_known").await;
    let changed = keys::NodeLiveChangeKey { stamp, node: nowhere };
    bogus(world, StoredRow::NodeLiveChange(changed, Box::new(())), "node_known").await;
    let session = keys::NodeSessionKey { node: nowhere };
    bogus(world, StoredRow::NodeSession(session, Box::default()), "node_known").await;
}

/// Parents that are not there, cycles and too many groups are reported, and rows of the index without a line.
async fn lines_without_a_parent(world: &World) {
    let name = crate::testing::name;
    let group = |text: &str| AccessSubject::Group(name(text));
    let key = |holder: AccessSubject| QuotaKey { holder, band: Band::Batch };
    let below = |parent: &str| QuotaRow { parent: Some(name(parent)), ..QuotaRow::default() };
    let row = |holder, parent| StoredRow::Quota(key(holder), Box::new(below(parent)));
    bogus(world, row((&name("ada")).into(), "nobody"), "quota_parent").await;
    bogus(world, row(group("web"), "web"), "quota_parent").await;
    let put_line = async |holder: &str, parent: Option<&str>| {
        let tasks_max = Some(9);
        let line = QuotaRow { tasks_max, parent: parent.map(name), ..QuotaRow::default() };
        let set = world.read(async |tx, space| {
            crate::quota::quota_set(tx, space, group(holder), Band::Batch, Some(&line)).await
        });
        set.await.unwrap();
    };
    for number in 0..=QUOTA_GROUPS_MAX {
        assert_eq!(found(world).await, [], "{number} groups");
        let above = number.checked_sub(1).map(|above| format!("g{above}"));
        put_line(&format!("g{number}"), above.as_deref()).await;
    }
    let deep = found(world).await;
    assert!(deep.len() == 1 && deep[0].rule == "quota_parent", "{deep:?}");
    assert!(deep[0].key == "quota/group/g4/batch" && deep[0].expected.contains("at most 4"), "{deep:?}");
    put_line("g4", None).await;
    put_line("g0", Some("g3")).await;
    let cycle = found(world).await;
    assert!(cycle.iter().all(|one| one.rule == "quota_parent"), "{cycle:?}");
    assert!(cycle.iter().any(|one| one.expected.contains("no cycle")), "{cycle:?}");
    put_line("g0", None).await;
    let stray = keys::QuotaBelowKey { band: Band::Batch, parent: "g1".to_owned(), holder: group("ghost") };
    bogus(world, StoredRow::QuotaBelow(stray, Box::default()), "quota_below").await;
    let wrong = keys::QuotaBelowKey { band: Band::Batch, parent: "g2".to_owned(), holder: group("g3") };
    let more = QuotaGrant { until_ms: Some(5), ..QuotaGrant::default() };
    bogus(world, StoredRow::QuotaBelow(wrong, Box::new(more)), "quota_below").await;
    // What a group is charged follows from the jobs below it, and there are none.
    let charged = keys::QuotaUsedKey { holder: group("g1"), band: Band::Batch };
    let used = QuotaUsed { tasks: 1, ..QuotaUsed::default() };
    bogus(world, StoredRow::QuotaUsed(charged, Box::new(used)), "quota_sum").await;
    let job = world.rows().await.jobs.values().next().unwrap().clone();
    let groups = Some(vec![name("g0"), name("g0")]);
    let twice = borough_model::job::JobRow { quota_groups: groups, ..job.clone() };
    bogus(world, StoredRow::JobRow(JobRowKey { job: job.id }, Box::new(twice)), "quota_groups").await;
}

#[tokio::test(start_paused = true)]
async fn rows_without_an_owner_are_reported() {
    let world = world().await;
    let rows = world.rows().await;
    let node = *rows.nodes.keys().next().unwrap();
    let nobody = borough_model::JobId(4_242);
    let name = crate::testing::name;
    let gang = borough_model::task::GangRow {
        id: borough_model::GangId(9),
        job: nobody,
        min_member: 1,
        state: borough_model::task::GangState::Released,
        epoch: 1,
        expires_ms: 0,
        revision: 1,
    };
    let charged = NodeTaskKey { node, job: nobody, index: 0 };
    bogus(&world, StoredRow::NodeTask(charged, Box::new(())), "node_tasks").await;
    bogus(&world, StoredRow::Gang(GangKey { gang: gang.id }, Box::new(gang)), "job_known").await;
    let past = keys::JobPastKey { user: name("ada"), name: name("ghost"), submitted_ms: 1, job: nobody };
    bogus(&world, StoredRow::JobPast(past, Box::new(())), "job_past").await;
    let named = keys::JobNameKey { user: name("ada"), name: name("ghost") };
    bogus(&world, StoredRow::JobName(named, Box::new(nobody)), "job_name").await;
    let ghost = keys::NodeNameKey { name: name("ghost") };
    bogus(&world, StoredRow::NodeName(ghost, Box::new(node)), "node_name").await;
    let mut kept = rows.allocs.get(&node).cloned().unwrap_or_default();
    kept.ports_cooling.insert(7, PORT_KEPT_BACK_MS);
    bogus(&world, StoredRow::NodeAlloc(NodeAllocKey { node }, Box::new(kept)), "port_kept_back").await;
    nodes_without_a_row(&world).await;
    let released = |dimension: &str| QuotaReleasedKey {
        holder: (&name("ada")).into(),
        band: Band::Batch,
        dimension: dimension.to_owned(),
    };
    for (dimension, amount) in [("cpu", -5), ("cpu", i64::MAX), ("tasks", 1_000), ("unheard", 1)] {
        let row = StoredRow::QuotaReleased(released(dimension), Box::new(keys::Counter(amount)));
        bogus(&world, row, "quota_sum").await;
    }
    lines_without_a_parent(&world).await;
    let expiry = RequestExpiryKey { expires_ms: 5_001, id: borough_model::RequestId(77) };
    bogus(&world, StoredRow::RequestExpiry(expiry, Box::default()), "request_expiry").await;
    let request = crate::request::RequestRow { digest: vec![], result: vec![], expires_ms: 1, entry: None };
    let key = RequestKey { id: borough_model::RequestId(5) };
    bogus(&world, StoredRow::Request(key, Box::new(request)), "request_expiry").await;
    let beat = LeaseBeatKey { role: "scheduler".to_owned(), shard: 9 };
    bogus(&world, StoredRow::LeaseBeat(beat, Box::default()), "lease_beat").await;
    let gate = crate::cell::CellGate { store_epoch: 2, ..rows.gate.clone().unwrap() };
    bogus(&world, StoredRow::CellGate(CellGateKey {}, Box::new(gate)), "journal_epoch").await;
    let floor = crate::journal::JournalFloor { trimmed_to: crate::journal::Cursor::start(7), at_ms: 0 };
    bogus(&world, StoredRow::JournalFloor(keys::JournalFloorKey {}, Box::new(floor)), "journal_floor").await;
    let mut unknown = world.space.prefix().to_vec();
    unknown.extend_from_slice(&[0x15, 0xfe, 0x15, 1]);
    put(&world, &unknown, Some(b"?")).await;
    let violations = found(&world).await;
    assert!(violations.iter().any(|one| one.rule == "unknown_key"), "{violations:?}");
    put(&world, &unknown, None).await;
    assert_eq!(found(&world).await, []);
    // The load in chunks reports the same as the load in one transaction.
    put(&world, &unknown, Some(b"?")).await;
    let key = NodeTaskKey { node, job: nobody, index: 0 }.encode(&world.space);
    put(&world, &key, Some(&keys::value_encode(KeyKind::NodeTask, &()).unwrap())).await;
    let (loaded, _) = cell_rows_load(&world.db, &world.space, 3, |_| {}).await.unwrap();
    assert_eq!(cell_violations(&loaded, CheckMode::Always), found(&world).await);
}

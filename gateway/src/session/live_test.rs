//! Keepers of vouchers over one store, round by round.

use borough_kv::env::{Clock, SeededRng};
use borough_model::Resources;
use borough_model::node::{NodeSeen, REGISTERED, silent_since_ms};
use borough_store::cell::CellMeta;
use borough_store::mirror::MirrorFollower;
use borough_store::node::{NodeRegistration, node_live_read, node_read, node_register};
use borough_testkit::{MemoryStore, OpenCell, VirtualClock, change, name, node_facts};

use super::*;
use crate::cell::CellConnection;
use crate::session::failure::DesiredProgress;
use crate::session::metrics::DeliveryMetrics;
use crate::session::registry::Opening;

/// The silence of a session with the interval of its cell.
const SILENCE: Duration = Duration::from_secs(15);
/// The interval of rounds.
const BEAT: Duration = Duration::from_secs(3);

/// A store with nodes, and gateways over it.
struct Store {
    cell: OpenCell,
    clock: Arc<dyn Clock>,
    store: MemoryStore,
    cancelled: CancellationToken,
}

impl Drop for Store {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}

impl Store {
    async fn new() -> Self {
        let clock = VirtualClock::at(1_000);
        let store = MemoryStore::new(Arc::clone(&clock), SeededRng::shared(1));
        let cell = OpenCell::create(store.quiet(), &CellMeta::default()).await;
        Self { cell, clock, store, cancelled: CancellationToken::new() }
    }

    async fn gateway(&self, seed: u64) -> VouchKeeper {
        let (db, space) = (self.store.quiet(), self.cell.space.clone());
        let rng = SeededRng::shared(seed);
        let clock = Arc::clone(&self.clock);
        let mirror = MirrorFollower::spawn(db.clone(), space.clone(), Arc::clone(&clock), Arc::clone(&rng));
        mirror.ready().await;
        let connection =
            CellConnection { space, name: name("alpha"), db, mirror, identity_url: Default::default() };
        let cell = CellContext::open(connection, clock, rng, DeliveryMetrics::default(), &self.cancelled);
        let address = format!("g{seed}:1");
        VouchKeeper::new(cell, VouchSettings { address, beat: BEAT })
    }

    /// Registers node `node` in session `id` with a gateway.
    async fn session(&self, keeper: &VouchKeeper, node: u64, id: u64) -> Arc<RegisteredSession> {
        let facts = node_facts(Resources { cpu_millis: 1_000, ..Resources::default() });
        let registration = NodeRegistration::new(name(&format!("n{node}")), facts, NodeId(node), id);
        let registered = self.cell.change(change(id.into(), "register", 1), async |tx, changes| {
            let (_, writer) = node_register(tx, changes, &registration).await?;
            node_live_renew(&writer, changes.space(), REGISTERED, 0, None).await
        });
        registered.await.unwrap();
        let report_interval = SILENCE * 2 / 5;
        let now = self.clock.monotonic();
        let opening = Opening { node: NodeId(node), id, now, report_interval, failed: 0 };
        keeper.cell.sessions.open(opening).0
    }

    fn work(&self, session: &RegisteredSession) {
        session.worked(self.clock.monotonic(), DesiredProgress::Complete);
    }

    /// Makes rounds for so many seconds. Returns after how many of them the gateway has withdrawn from the node.
    async fn rounds(&self, keeper: &mut VouchKeeper, node: u64, seconds: u64) -> Option<u64> {
        let mut withdrawn = None;
        for beat in 1..=seconds / BEAT.as_secs() {
            tokio::time::sleep(BEAT).await;
            keeper.round().await.unwrap();
            let silent = self.seen(node).await.live.voucher.is_none();
            if silent && withdrawn.is_none() {
                withdrawn = Some(beat * BEAT.as_secs());
            }
        }
        withdrawn
    }

    /// Since when the agent of a node does not answer, by its row.
    async fn silent(&self, node: u64) -> Option<i64> {
        let row = self.cell.read(async |tx, space| node_read(tx, space, NodeId(node)).await);
        silent_since_ms(&row.await.unwrap().taints)
    }

    async fn seen(&self, node: u64) -> NodeSeen {
        let seen = self.cell.read(async |tx, space| node_live_read(tx, space, NodeId(node)).await);
        seen.await.unwrap().unwrap()
    }
}

/// Lets the writer of the gateway finish what a round has given it.
async fn until_written() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

fn voucher(keeper: &VouchKeeper) -> Option<Voucher> {
    keeper.voucher.map(|(voucher, _)| voucher)
}

/// The session before it has worked, and ended before the gateway's round.
#[tokio::test(start_paused = true)]
async fn the_work_of_a_session_counts_for_no_later_one() {
    let store = Store::new().await;
    let mut gateway = store.gateway(1).await;
    let before = store.session(&gateway, 1, 11).await;
    store.work(&before);
    let session = store.session(&gateway, 1, 12).await;
    gateway.round().await.unwrap();
    let seen = store.seen(1).await;
    assert_eq!((seen.live.session, seen.live.beat, seen.live.voucher), (12, REGISTERED, None));
    store.work(&session);
    gateway.round().await.unwrap();
    assert_eq!(store.seen(1).await.live.voucher, voucher(&gateway));
}

/// What a beat costs does not depend on the nodes: only the gateway's row changes.
#[tokio::test(start_paused = true)]
async fn a_session_that_works_is_written_once() {
    let store = Store::new().await;
    let mut gateway = store.gateway(1).await;
    let session = store.session(&gateway, 1, 11).await;
    gateway.round().await.unwrap();
    assert_eq!(store.seen(1).await.live.beat, REGISTERED, "an open connection is no work");
    store.work(&session);
    gateway.round().await.unwrap();
    let first = store.seen(1).await;
    assert!(first.beat.is_some() && first.live.voucher == voucher(&gateway));
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(3)).await;
        store.work(&session);
        let before = store.seen(1).await;
        gateway.round().await.unwrap();
        let after = store.seen(1).await;
        assert_eq!(after.live, first.live, "nothing is written for the node");
        assert_ne!(after.beat, before.beat);
    }
    for _ in 0..5 {
        tokio::time::sleep(SILENCE / 5).await;
        gateway.round().await.unwrap();
    }
    assert_eq!(store.seen(1).await.live.voucher, None, "it has fallen silent");
    store.work(&session);
    gateway.round().await.unwrap();
    assert!(store.seen(1).await.beat.is_some(), "it works again");
}

/// A gateway is paused. Meanwhile one node moves to another gateway, one falls silent and one is alive. The gateway
/// wakes up. It does not touch the first one, and withdraws from the second one when that had its time again.
#[tokio::test(start_paused = true)]
async fn a_gateway_that_wakes_up_vouches_for_no_node_that_moved_or_fell_silent() {
    let store = Store::new().await;
    let (mut paused, mut other) = (store.gateway(1).await, store.gateway(2).await);
    let mut sessions = Vec::new();
    for node in 1..=3 {
        let session = store.session(&paused, node, 10 + node).await;
        store.work(&session);
        sessions.push(session);
    }
    paused.round().await.unwrap();
    other.round().await.unwrap();
    tokio::time::sleep(SILENCE * 4).await;
    let moved = store.session(&other, 1, 21).await;
    store.work(&moved);
    other.round().await.unwrap();
    paused.round().await.unwrap();
    assert_eq!(store.seen(1).await.live.voucher, voucher(&other));
    assert_eq!(store.seen(2).await.live.voucher, voucher(&paused), "what it sent may wait to be read");
    for _ in 0..5 {
        tokio::time::sleep(SILENCE / 5).await;
        store.work(&sessions[2]);
        paused.round().await.unwrap();
    }
    let (first, second, third) = (store.seen(1).await, store.seen(2).await, store.seen(3).await);
    assert_eq!((first.live.session, first.live.voucher), (21, voucher(&other)));
    let silent_ms = u64::try_from(SILENCE.as_millis()).unwrap();
    assert_eq!((second.live.voucher, second.live.silent_ms), (None, silent_ms));
    assert_eq!(third.live.voucher, voucher(&paused));
    assert!(!sessions[0].is_current(), "the gateway found the successor by itself");
    assert!(sessions[1].is_current() && sessions[2].is_current());
}

/// Two processes go on with the same voucher. Each ends with a voucher of its own, and each node has that of the
/// gateway that really holds its session.
#[tokio::test(start_paused = true)]
async fn two_gateways_with_one_number_part() {
    let store = Store::new().await;
    let (mut one, mut two) = (store.gateway(1).await, store.gateway(2).await);
    let first = store.session(&one, 1, 11).await;
    one.round().await.unwrap();
    (two.gateway, two.voucher) = (one.gateway, one.voucher);
    let second = store.session(&two, 2, 12).await;
    for _ in 0..4 {
        store.work(&first);
        store.work(&second);
        one.round().await.unwrap();
        two.round().await.unwrap();
    }
    assert!(voucher(&one) != voucher(&two) && one.gateway != two.gateway);
    for (node, keeper) in [(1, &one), (2, &two)] {
        let seen = store.seen(node).await;
        assert_eq!(seen.live.voucher, voucher(keeper));
        assert!(seen.beat.is_some());
    }
}

/// An agent connects ten times a second to two gateways by turns. The other nodes lose nothing, and the node that has
/// worked last is vouched for by the gateway of its last session.
#[tokio::test(start_paused = true)]
async fn a_node_that_flaps_ten_times_a_second_costs_no_other_node_anything() {
    let store = Store::new().await;
    let (mut one, mut two) = (store.gateway(1).await, store.gateway(2).await);
    let steady = store.session(&one, 1, 1).await;
    store.work(&steady);
    one.round().await.unwrap();
    let before = store.seen(1).await.live;
    let mut flap = 100;
    for _ in 0..20 {
        for tenth in 0..10 {
            flap += 1;
            let session = store.session(if tenth % 2 == 0 { &one } else { &two }, 2, flap).await;
            store.work(&session);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        store.work(&steady);
        one.round().await.unwrap();
        two.round().await.unwrap();
        let seen = store.seen(2).await;
        assert_eq!((seen.live.session, seen.live.voucher), (flap, voucher(&two)));
        assert_eq!(store.seen(1).await.live, before, "nothing is written for the steady node");
    }
    assert!(steady.is_current());
    assert!(one.due.len() <= 32 && two.due.len() <= 32, "{} {}", one.due.len(), two.due.len());
}

/// The controller has removed the row of a gateway that could not reach the store for long.
#[tokio::test(start_paused = true)]
async fn a_gateway_whose_row_is_gone_vouches_again() {
    let store = Store::new().await;
    let mut gateway = store.gateway(1).await;
    let session = store.session(&gateway, 1, 11).await;
    store.work(&session);
    gateway.round().await.unwrap();
    let (before, beat) = gateway.voucher.unwrap();
    let removed = store.cell.write(async |tx, space| gateway_live_remove(tx, space, before, beat).await);
    assert!(removed.await.unwrap());
    assert_eq!(store.seen(1).await.beat, None);
    gateway.round().await.unwrap();
    assert_ne!(voucher(&gateway), Some(before));
    assert!(store.seen(1).await.beat.is_some());
    gateway.end().await;
    assert_eq!(store.seen(1).await.beat, None, "a gateway that ends vouches for nothing");
}

/// The session of a node ends and no other comes: after a beat the node is marked, so that it gets no new tasks. A
/// session that comes in time, here or elsewhere, prevents that.
#[tokio::test(start_paused = true)]
async fn a_node_whose_session_has_ended_for_a_beat_gets_no_new_tasks() {
    let store = Store::new().await;
    let (mut gateway, other) = (store.gateway(1).await, store.gateway(2).await);
    let mut sessions = Vec::new();
    for node in 1..=4 {
        let session = store.session(&gateway, node, 10 + node).await;
        store.work(&session);
        sessions.push(session);
    }
    gateway.round().await.unwrap();
    tokio::time::sleep(BEAT).await;
    let ended = store.clock.monotonic();
    for session in &sessions[..3] {
        gateway.cell.sessions.close(session, ended);
    }
    let back = store.session(&gateway, 2, 22).await;
    let moved = store.session(&other, 3, 23).await;
    store.work(&back);
    store.work(&moved);
    gateway.round().await.unwrap();
    assert_eq!(store.silent(1).await, None, "a restarted agent is back within a beat");
    tokio::time::sleep(BEAT).await;
    store.work(&sessions[3]);
    gateway.round().await.unwrap();
    until_written().await;
    let since = store.silent(1).await.expect("the node is marked");
    let worked = 1_000 + i64::try_from(ended.saturating_sub(BEAT).as_millis()).unwrap();
    assert!(since <= worked + 1, "{since}: since its last work, {worked}");
    for node in 2..=4 {
        assert_eq!(store.silent(node).await, None, "node {node}");
    }
    // Its next session reports, and the node takes tasks again.
    let back = store.session(&gateway, 1, 31).await;
    let notes = crate::session::registration::NodeNotes::default();
    gateway.cell.registrations.noted(back.fence(), notes).await.unwrap().unwrap();
    assert_eq!(store.silent(1).await, None);
}

/// A session that is open and silent marks its node when the gateway withdraws from it, unless it works meanwhile.
#[tokio::test(start_paused = true)]
async fn a_node_whose_session_hangs_gets_no_new_tasks() {
    let store = Store::new().await;
    let mut gateway = store.gateway(1).await;
    let session = store.session(&gateway, 1, 11).await;
    store.work(&session);
    gateway.round().await.unwrap();
    assert_eq!(store.rounds(&mut gateway, 1, 30).await, Some(15));
    until_written().await;
    assert!(store.silent(1).await.is_some());
}

/// Far more nodes than a round marks: the rest is marked in the next ones.
#[tokio::test(start_paused = true)]
async fn a_round_marks_a_bounded_number_of_silent_nodes() {
    let store = Store::new().await;
    let mut gateway = store.gateway(1).await;
    let nodes = u64::try_from(SILENT_MAX).unwrap() + 5;
    let mut sessions = Vec::new();
    for node in 1..=nodes {
        sessions.push(store.session(&gateway, node, 1_000 + node).await);
    }
    let ended = store.clock.monotonic();
    sessions.iter().for_each(|session| gateway.cell.sessions.close(session, ended));
    gateway.round().await.unwrap();
    let mut marked = Vec::new();
    for _ in 0..3 {
        tokio::time::sleep(BEAT).await;
        gateway.round().await.unwrap();
        until_written().await;
        let mut silent = 0;
        for node in 1..=nodes {
            silent += usize::from(store.silent(node).await.is_some());
        }
        marked.push(silent);
    }
    assert_eq!(marked, [SILENT_MAX, SILENT_MAX + 5, SILENT_MAX + 5]);
}

/// An agent that was asked to report once a minute is silent after two and a half minutes. A shorter interval that it
/// may not have heard yet takes nothing from that. Its next reports show that it has heard.
#[tokio::test(start_paused = true)]
async fn the_silence_of_a_session_follows_the_interval_that_its_agent_was_told() {
    let store = Store::new().await;
    let mut gateway = store.gateway(1).await;
    let session = store.session(&gateway, 1, 11).await;
    session.interval_tell(Duration::from_secs(60));
    store.work(&session);
    gateway.round().await.unwrap();
    assert_eq!(store.rounds(&mut gateway, 1, 180).await, Some(150));
    assert_eq!(store.seen(1).await.live.silent_ms, 150_000);
    store.work(&session);
    session.interval_tell(SILENCE * 2 / 5);
    gateway.round().await.unwrap();
    assert_eq!(store.rounds(&mut gateway, 1, 180).await, Some(150), "it may not have heard it");
    for _ in 0..4 {
        store.work(&session);
        session.interval_tell(SILENCE * 2 / 5);
    }
    gateway.round().await.unwrap();
    assert_eq!(store.rounds(&mut gateway, 1, 180).await, Some(15), "it has heard it");
}

/// The session of an agent that reports once a minute ends 45 s after its last report. The gateway withdraws as soon as
/// from one that reports every 6 s, and not at once: an agent that restarts comes back.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_is_noticed_as_soon_however_rarely_its_agent_reports() {
    let store = Store::new().await;
    let mut gateway = store.gateway(1).await;
    let session = store.session(&gateway, 1, 11).await;
    session.interval_tell(Duration::from_secs(60));
    store.work(&session);
    gateway.round().await.unwrap();
    assert_eq!(store.rounds(&mut gateway, 1, 45).await, None);
    gateway.cell.sessions.close(&session, store.clock.monotonic());
    assert_eq!(store.rounds(&mut gateway, 1, 60).await, Some(9));
    assert_eq!(store.seen(1).await.live.silent_ms, 15_000);
}

//! Silence is measured by what counts, and found among many nodes and gateways.

use borough_model::node::{REGISTERED, node_new};
use borough_model::{Name, Resources};

use super::*;

const GAP: Duration = Duration::from_secs(10);
const TOLERANCE: Duration = Duration::from_secs(30);
const VOUCHER: Voucher = Voucher { gateway: 7, epoch: 1 };

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn row(node: u64, state: NodeState) -> NodeRow {
    let name = Name::new(format!("n{node}")).unwrap();
    let facts = borough_testkit::node_facts(Resources::default());
    NodeRow { state, ..node_new(NodeId(node), name, facts, 0) }
}

fn live(session: u64, beat: u64, voucher: Option<Voucher>) -> Option<NodeLive> {
    Some(NodeLive { session, beat, voucher, ..NodeLive::default() })
}

/// A controller that looks every second.
#[derive(Default)]
struct Looks {
    liveness: Liveness,
    now: u64,
    gateways: BTreeMap<u64, GatewayLive>,
}

impl Looks {
    fn of(nodes: impl IntoIterator<Item = u64>) -> Self {
        let mut looks = Self::default();
        nodes.into_iter().for_each(|node| looks.liveness.node_note(&row(node, NodeState::Ready)));
        looks
    }

    /// The gateway of [`VOUCHER`] renews its row.
    fn beat(&mut self, beat: u64) {
        let gateway = GatewayLive { epoch: VOUCHER.epoch, beat, address: String::new() };
        self.gateways.insert(VOUCHER.gateway, gateway);
    }

    fn look(&mut self, nodes: impl IntoIterator<Item = (u64, Option<NodeLive>)>) {
        self.now += 1;
        let nodes = nodes.into_iter().map(|(node, live)| (NodeId(node), live)).collect();
        let gateways = self.gateways.clone();
        self.liveness.observe(at(self.now), Observation { nodes, gateways }, GAP);
    }

    /// Looks for so many seconds. The gateway beats each time if `beats`.
    fn pass(&mut self, seconds: u64, beats: bool) {
        for _ in 0..seconds {
            if beats {
                self.beat(1_000 + self.now);
            }
            self.look([]);
        }
    }

    fn lost(&mut self) -> Vec<u64> {
        let lost = self.liveness.lost(TOLERANCE, at(self.now), 1_000);
        lost.into_iter().map(|silent| silent.node.0).collect()
    }

    fn silent(&self, node: u64) -> u64 {
        self.liveness.silent(NodeId(node)).as_secs()
    }
}

#[test]
fn a_registration_ends_no_silence_and_work_does() {
    let mut looks = Looks::of([1]);
    looks.look([(1, live(1, 7, None))]);
    looks.pass(5, false);
    assert_eq!(looks.silent(1), 5);
    // It reconnects again and again.
    looks.look([(1, live(2, REGISTERED, None))]);
    looks.look([(1, live(3, REGISTERED, None))]);
    assert_eq!(looks.silent(1), 7);
    looks.look([(1, live(4, 2, None))]);
    assert_eq!(looks.silent(1), 0);
    looks.pass(29, false);
    assert_eq!(looks.lost(), [0; 0]);
    looks.pass(1, false);
    assert_eq!(looks.lost(), [1]);
}

#[test]
fn agents_are_unheard_while_no_gateway_beats() {
    let mut looks = Looks::of([1]);
    looks.pass(100, false);
    assert!(!looks.liveness.is_unheard(TOLERANCE), "no gateway was ever seen");
    looks.pass(3, true);
    looks.pass(7, false);
    assert!(!looks.liveness.is_unheard(TOLERANCE), "a beat may be late");
    looks.pass(1, false);
    assert!(looks.liveness.is_unheard(TOLERANCE));
    // Its row is removed once it has been silent for long. That makes nobody heard.
    looks.gateways.clear();
    looks.pass(1_000, false);
    assert!(looks.liveness.is_unheard(TOLERANCE));
    looks.beat(1);
    looks.look([]);
    assert!(!looks.liveness.is_unheard(TOLERANCE));
}

#[test]
fn nodes_are_alive_while_their_gateway_vouches_and_all_silent_when_it_is_dead() {
    let mut looks = Looks::of([1, 2, 3]);
    looks.beat(1);
    looks.look([1, 2].map(|node| (node, live(node, 2, Some(VOUCHER)))));
    looks.pass(100, true);
    assert_eq!((looks.silent(1), looks.silent(3)), (0, 100));
    assert_eq!(looks.lost(), [3], "nobody vouches for it");
    looks.liveness.node_note(&row(3, NodeState::Lost));
    looks.pass(29, false);
    assert_eq!(looks.lost(), [0; 0]);
    looks.pass(1, false);
    assert_eq!(looks.lost(), [1, 2]);
    // They reconnect to another gateway within the tolerance: a registration alone is not enough.
    looks.look([(1, live(11, REGISTERED, None)), (2, live(12, 2, Some(Voucher { gateway: 8, epoch: 1 })))]);
    assert_eq!(looks.lost(), [1]);
}

#[test]
fn a_gateway_that_withdraws_begins_a_silence_at_its_last_beat() {
    let mut looks = Looks::of([1, 2]);
    looks.beat(1);
    looks.look([1, 2].map(|node| (node, live(node, 2, Some(VOUCHER)))));
    looks.pass(50, true);
    looks.look([(1, live(1, 2, None))]);
    assert_eq!(looks.silent(1), 1);
    looks.pass(29, true);
    assert_eq!(looks.lost(), [1], "its gateway lives");
    looks.look([(1, live(1, 3, Some(VOUCHER)))]);
    assert_eq!((looks.lost(), looks.silent(1)), (vec![], 0), "it works again");
    // What the gateway has counted itself counts, and never more than the controller's own time.
    looks.pass(1, true);
    let withdrawn = |silent_ms| NodeLive { silent_ms, ..live(1, 3, None).unwrap() };
    looks.look([(1, Some(withdrawn(25_000)))]);
    assert_eq!(looks.silent(1), 26);
    let mut fresh = Looks::of([1]);
    fresh.beat(1);
    fresh.look([(1, live(1, 3, Some(VOUCHER)))]);
    fresh.pass(2, true);
    fresh.look([(1, Some(withdrawn(60_000)))]);
    assert_eq!(fresh.silent(1), 3, "a controller waits for a full tolerance of its own");
}

/// A gateway of the same number and another epoch vouches for nothing that was promised before.
#[test]
fn a_voucher_of_an_epoch_before_is_worth_nothing() {
    let mut looks = Looks::of([1]);
    looks.beat(1);
    looks.look([(1, live(1, 2, Some(VOUCHER)))]);
    for beat in 0..30 {
        looks.gateways.insert(7, GatewayLive { epoch: 2, beat, address: String::new() });
        looks.look([]);
    }
    assert_eq!(looks.lost(), [1]);
    let silent = looks.liveness.lost(TOLERANCE, at(looks.now), 1).remove(0);
    assert_eq!(silent.observed.unwrap().beat, None);
}

#[test]
fn an_outage_of_the_controller_makes_nothing_look_dead() {
    let mut looks = Looks::of([1, 2]);
    looks.beat(1);
    looks.look([(1, live(1, 2, Some(VOUCHER))), (2, live(2, 2, None))]);
    looks.pass(20, false);
    looks.now += 1_000;
    looks.pass(9, false);
    assert_eq!((looks.silent(1), looks.silent(2)), (28, 28), "the gap counts as nothing");
    assert_eq!(looks.lost(), [0; 0]);
    // Another controller takes over. It waits for a full tolerance of its own.
    let mut fresh = Looks::of([1, 2]);
    fresh.gateways = looks.gateways.clone();
    fresh.look([(1, live(1, 2, Some(VOUCHER))), (2, live(2, 2, None))]);
    fresh.pass(29, false);
    assert_eq!(fresh.lost(), [0; 0]);
    fresh.pass(1, false);
    assert_eq!(fresh.lost(), [2, 1]);
}

#[test]
fn a_new_and_a_returning_node_have_their_whole_tolerance() {
    let mut looks = Looks::of([1]);
    looks.pass(40, false);
    looks.liveness.node_note(&row(2, NodeState::Recovering));
    assert_eq!(looks.lost(), [1]);
    looks.liveness.node_note(&row(1, NodeState::Lost));
    looks.pass(5, false);
    assert_eq!((looks.lost(), looks.silent(1), looks.silent(2)), (vec![], 44, 5));
    looks.liveness.node_note(&row(1, NodeState::Recovering));
    assert_eq!(looks.silent(1), 0);
    looks.liveness.node_removed(NodeId(2));
    looks.pass(30, false);
    assert_eq!(looks.lost(), [1]);
}

/// At most so many in a minute, and a gateway's other nodes wait for their turn.
#[test]
fn losses_of_a_gateway_are_limited() {
    let mut looks = Looks::of(1..=5);
    looks.beat(1);
    looks.look((1..=5).map(|node| (node, live(node, 2, Some(VOUCHER)))));
    looks.pass(31, false);
    for first in [1_u64, 3] {
        let lost = looks.liveness.lost(TOLERANCE, at(looks.now), 2);
        assert_eq!(lost.iter().map(|silent| silent.node.0).collect::<Vec<_>>(), [first, first + 1]);
        for silent in lost {
            looks.liveness.declared(at(looks.now));
            looks.liveness.node_note(&row(silent.node.0, NodeState::Lost));
        }
        assert_eq!(looks.liveness.lost(TOLERANCE, at(looks.now), 2), []);
        looks.now += 60;
        looks.look([]);
    }
}

#[test]
fn the_row_of_a_gateway_that_ended_long_ago_is_removed_and_costs_nothing_more() {
    let mut looks = Looks::of([1]);
    looks.beat(5);
    looks.look([(1, live(1, 2, Some(VOUCHER)))]);
    looks.pass(599, false);
    assert_eq!(looks.liveness.gateways_ended(TOLERANCE), []);
    looks.pass(1, false);
    assert_eq!(looks.liveness.gateways_ended(TOLERANCE), [(VOUCHER, 5)]);
    looks.liveness.node_note(&row(1, NodeState::Lost));
    looks.gateways.clear();
    looks.look([]);
    assert_eq!(looks.liveness.gateways_ended(TOLERANCE), []);
    assert!(looks.liveness.vouchers.is_empty());
    assert_eq!(looks.silent(1), 601);
}

/// A node that registers ten times a second and never works is as silent as a dead one, and costs one entry.
#[test]
fn a_node_that_flaps_without_work_is_lost_and_one_that_works_is_not() {
    let mut looks = Looks::of([1, 2]);
    looks.look([(1, live(1, 2, None)), (2, live(2, 2, None))]);
    for round in 0..30_u64 {
        for flap in 0..10 {
            let session = 100 + round * 10 + flap;
            let works = live(session, 2, Some(VOUCHER));
            looks.liveness.observe(
                at(looks.now),
                Observation {
                    nodes: vec![(NodeId(1), live(session, REGISTERED, None)), (NodeId(2), works)],
                    gateways: BTreeMap::new(),
                },
                GAP,
            );
        }
        looks.look([]);
    }
    assert_eq!(looks.lost(), [1]);
    assert_eq!(looks.liveness.alone.len(), 1);
}

//! Operators and machines: what happens to nodes, and how it ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_kv::env::Rng;
use borough_model::NodeId;
use borough_model::node::{Taint, TaintEffect, TaintMatch};
use borough_store::node::{
    node_cordon, node_drain, node_labels_set, node_live_read, node_remove, node_taints_set, node_uncordon,
};
use borough_store::{StoreError, StoreResult};
use borough_testkit::{below, index};

use crate::fleet::Fleet;
use crate::{LABEL, World};

/// The key of every taint.
const TAINT: &str = "maintenance";
/// How long a condition of a node lasts, in milliseconds.
const LASTS_MS: (u64, u64) = (15_000, 120_000);
/// One node in so many has a condition at most.
const PART: usize = 4;

/// What a node is in for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Cordon,
    Drain,
    /// A taint that keeps new tasks away.
    Taint,
    /// A taint that ends what runs.
    Evict,
    Label,
    /// Nobody hears of it. Mostly for long enough to be lost.
    Silence,
    /// It is drained, then removed. Another machine joins.
    Leave,
}

const CONDITIONS: [(Condition, &str); 7] = [
    (Condition::Cordon, "cordon"),
    (Condition::Drain, "drain"),
    (Condition::Taint, "taint"),
    (Condition::Evict, "evict"),
    (Condition::Label, "label"),
    (Condition::Silence, "silence"),
    (Condition::Leave, "leave"),
];

/// Decides what happens, from a seed.
pub(crate) struct Operator {
    rng: Arc<dyn Rng>,
    /// The machines, and the number of the next one.
    machines: Vec<u64>,
    next: u64,
    /// Conditions by machine, with their ends.
    conditions: BTreeMap<u64, (Condition, i64)>,
    /// How often what has happened.
    pub seen: BTreeMap<&'static str, u64>,
}

impl Operator {
    pub(crate) fn new(rng: Arc<dyn Rng>, nodes: u64) -> Self {
        Self {
            rng,
            machines: (0..nodes).collect(),
            next: nodes,
            conditions: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }

    fn note(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// Ends what is over, and perhaps begins something.
    pub(crate) async fn round(&mut self, world: &mut World, fleet: &mut Fleet) {
        let now_ms = world.now_ms();
        let over = self.conditions.iter().filter(|(_, (_, end_ms))| *end_ms <= now_ms);
        let over: Vec<u64> = over.map(|(machine, _)| *machine).collect();
        for machine in over {
            self.condition_end(world, fleet, machine).await;
        }
        if self.conditions.len() >= self.machines.len() / PART || below(&*self.rng, 2) == 0 {
            return;
        }
        let machine = self.machines[index(&*self.rng, self.machines.len())];
        if self.conditions.contains_key(&machine) {
            return;
        }
        match below(&*self.rng, 9) {
            8 => {
                fleet.reboot(machine);
                self.note("reboot");
            }
            _ => {
                let (condition, text) = CONDITIONS[index(&*self.rng, CONDITIONS.len())];
                self.condition_begin(world, fleet, machine, condition).await;
                self.note(text);
            }
        }
    }

    async fn condition_begin(
        &mut self,
        world: &mut World,
        fleet: &mut Fleet,
        machine: u64,
        condition: Condition,
    ) {
        let node = fleet.node(machine).unwrap();
        let now_ms = world.now_ms();
        match condition {
            Condition::Cordon => {
                let cordoned =
                    world.change("node_cordon", async |tx, changes| node_cordon(tx, changes, node).await);
                cordoned.await.map(drop).unwrap();
            }
            Condition::Drain | Condition::Leave => {
                let drained =
                    world.change("node_drain", async |tx, changes| node_drain(tx, changes, node).await);
                drained.await.map(drop).unwrap();
            }
            Condition::Taint => taint(world, node, Some(TaintEffect::NoSchedule), now_ms).await,
            Condition::Evict => taint(world, node, Some(TaintEffect::NoExecute), now_ms).await,
            Condition::Label => label(world, node, true).await,
            Condition::Silence => fleet.silence(machine, true),
        }
        let (least, most) = LASTS_MS;
        let lasts_ms = least + below(&*self.rng, most - least);
        self.conditions.insert(machine, (condition, now_ms.saturating_add_unsigned(lasts_ms)));
    }

    async fn condition_end(&mut self, world: &mut World, fleet: &mut Fleet, machine: u64) {
        let Some((condition, _)) = self.conditions.remove(&machine) else { return };
        let node = fleet.node(machine).unwrap();
        let now_ms = world.now_ms();
        match condition {
            Condition::Cordon | Condition::Drain => {
                let change =
                    world.change("node_uncordon", async |tx, changes| node_uncordon(tx, changes, node).await);
                change.await.map(drop).unwrap();
            }
            Condition::Taint | Condition::Evict => taint(world, node, None, now_ms).await,
            Condition::Label => label(world, node, false).await,
            Condition::Silence => fleet.silence(machine, false),
            Condition::Leave => match self.removed(world, node).await {
                Ok(()) => {
                    fleet.leave(machine);
                    self.machines.retain(|known| *known != machine);
                    self.machines.push(self.next);
                    fleet.join(self.next);
                    self.next += 1;
                    self.note("join");
                }
                // It still has tasks. The audit notices a drain that never ends.
                Err(StoreError::Refused { .. }) => {
                    self.conditions.insert(machine, (Condition::Leave, now_ms + 1));
                }
                Err(error) => panic!("{error:?}"),
            },
        }
    }

    async fn removed(&self, world: &World, node: NodeId) -> StoreResult<()> {
        let remove = world.change("node_remove", async |tx, changes| {
            let seen = node_live_read(tx, changes.space(), node).await?;
            node_remove(tx, changes, node, seen.as_ref()).await
        });
        remove.await.map(drop)
    }

    /// Ends every condition except labels.
    pub(crate) async fn calm(&mut self, world: &mut World, fleet: &mut Fleet) {
        let machines: Vec<u64> = self.conditions.keys().copied().collect();
        for machine in machines {
            match self.conditions.get_mut(&machine) {
                // The machine stays.
                Some((condition @ Condition::Leave, _)) => *condition = Condition::Drain,
                Some((Condition::Label, _)) => continue,
                _ => {}
            }
            self.condition_end(world, fleet, machine).await;
        }
    }
}

async fn taint(world: &World, node: NodeId, effect: Option<TaintEffect>, added_ms: i64) {
    let one = |effect| Taint { key: TAINT.to_owned(), value: String::new(), effect, added_ms };
    let add: Vec<Taint> = effect.map(one).into_iter().collect();
    let all = TaintMatch { key: TAINT.to_owned(), value: None, effect: None };
    let remove: Vec<TaintMatch> = if effect.is_none() { vec![all] } else { Vec::new() };
    let change = world
        .change("node_taints", async |tx, changes| node_taints_set(tx, changes, node, &add, &remove).await);
    change.await.map(drop).unwrap();
}

async fn label(world: &World, node: NodeId, is_set: bool) {
    let label = is_set.then(|| (LABEL.0.to_owned(), LABEL.1.to_owned())).into_iter().collect();
    let remove = (!is_set).then(|| LABEL.0.to_owned()).into_iter().collect();
    let change = world
        .change("node_labels", async |tx, changes| node_labels_set(tx, changes, node, &label, &remove).await);
    change.await.map(drop).unwrap();
}

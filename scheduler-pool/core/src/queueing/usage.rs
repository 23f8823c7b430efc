//! The resources that users and queues hold, updated as tasks come and go, and the totals of the cell.

use std::collections::BTreeMap;

use borough_model::Resources;
use smallvec::SmallVec;

use super::policy::Turn;
use crate::count::CountChange;

/// Processor time, memory and disk; kinds of device follow.
const FIXED: usize = 3;

/// The share of the complete cell, in millionths.
pub(crate) const WHOLE: u64 = 1_000_000;

/// Amounts per resource, in the order of [`CellTotals`].
pub(crate) type Amounts = SmallVec<[u64; 4]>;

/// The total of each resource over the nodes that take tasks.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct CellTotals {
    fixed: [u64; FIXED],
    /// Kinds of device with their totals.
    kinds: Vec<(String, u64)>,
}

impl CellTotals {
    /// The totals of processor time, memory and disk, and of each kind of device.
    pub(crate) fn new(fixed: [u64; FIXED], kinds: Vec<(String, u64)>) -> Self {
        Self { fixed, kinds }
    }

    /// The amounts of resources, in this order.
    pub(crate) fn amounts(&self, resources: &Resources) -> Amounts {
        let fixed = [resources.cpu_millis, resources.memory_bytes, resources.disk_bytes];
        let of_kind = |(kind, _): &(String, u64)| resources.device_millis.get(kind).copied().unwrap_or(0);
        fixed.into_iter().chain(self.kinds.iter().map(of_kind)).collect()
    }

    /// The dominant share: the largest part of a total, in millionths.
    pub(crate) fn share(&self, amounts: &Amounts) -> u64 {
        let totals = self.fixed.iter().copied().chain(self.kinds.iter().map(|&(_, total)| total));
        let part = |(&amount, total): (&u64, u64)| {
            let part = u128::from(amount) * u128::from(WHOLE) / u128::from(total.max(1));
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        amounts.iter().zip(totals).map(part).max().unwrap_or(0)
    }
}

/// The resources of each user or queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage(BTreeMap<Turn, Resources>);

impl Usage {
    /// Adds or removes tasks that ask for `resources` each.
    pub(crate) fn counted(&mut self, turn: &Turn, resources: &Resources, tasks: u32, change: CountChange) {
        if tasks == 0 {
            return;
        }
        if !self.0.contains_key(turn) {
            self.0.insert(turn.clone(), Resources::default());
        }
        let Some(held) = self.0.get_mut(turn) else { return };
        let changed = |held: u64, amount: u64| change.amount(held, amount.saturating_mul(u64::from(tasks)));
        held.cpu_millis = changed(held.cpu_millis, resources.cpu_millis);
        held.memory_bytes = changed(held.memory_bytes, resources.memory_bytes);
        held.disk_bytes = changed(held.disk_bytes, resources.disk_bytes);
        for (kind, &amount) in &resources.device_millis {
            let held = held.device_millis.entry(kind.clone()).or_default();
            *held = changed(*held, amount);
        }
        if *held == Resources::default() {
            self.0.remove(turn);
        }
    }

    /// Every user or queue that holds anything.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Turn, &Resources)> {
        self.0.iter()
    }
}

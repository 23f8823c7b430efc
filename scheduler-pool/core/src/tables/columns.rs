//! The columns of the node table: one per resource dimension, with one amount per node.

use borough_model::Resources;

use crate::settings::Overcommit;

/// Processor, memory, disk, disk rate, network rate. Devices follow, one column per kind.
pub(crate) const DIMENSIONS_FIXED: usize = 5;

/// An amount of a dimension on a node. Columns of devices are short: they end with the last node that has the device.
pub(super) fn amount(columns: &[Vec<u64>], dimension: usize, node: u32) -> u64 {
    columns.get(dimension).and_then(|column| column.get(node as usize)).copied().unwrap_or(0)
}

pub(super) fn amount_set(columns: &mut [Vec<u64>], dimension: usize, node: u32, amount: u64) {
    let Some(column) = columns.get_mut(dimension) else { return };
    let index = node as usize;
    if column.len() <= index {
        if amount == 0 {
            return;
        }
        column.resize(index + 1, 0);
    }
    if let Some(entry) = column.get_mut(index) {
        *entry = amount;
    }
}

/// Sets every dimension of a node: the fixed ones, and its devices.
pub(super) fn amounts_set(
    columns: &mut [Vec<u64>],
    kinds: &[String],
    node: u32,
    fixed: [u64; DIMENSIONS_FIXED],
    devices: &Resources,
) {
    for (dimension, &amount) in fixed.iter().enumerate() {
        amount_set(columns, dimension, node, amount);
    }
    for (kind, name) in kinds.iter().enumerate() {
        let amount = devices.device_millis.get(name).copied().unwrap_or(0);
        amount_set(columns, DIMENSIONS_FIXED + kind, node, amount);
    }
}

/// The fixed dimensions of an amount, in column order.
pub(crate) fn fixed_amounts(resources: &Resources) -> [u64; DIMENSIONS_FIXED] {
    [
        resources.cpu_millis,
        resources.memory_bytes,
        resources.disk_bytes,
        resources.disk_bytes_per_s,
        resources.network_bytes_per_s,
    ]
}

fn per_mille(amount: u64, factor: u32) -> u64 {
    let promised = u128::from(amount) * u128::from(factor) / 1000;
    u64::try_from(promised).unwrap_or(u64::MAX)
}

pub(super) fn limit_amounts(capacity: &Resources, overcommit: &Overcommit) -> [u64; DIMENSIONS_FIXED] {
    let [cpu, memory, disk, disk_rate, network_rate] = fixed_amounts(capacity);
    [
        per_mille(cpu, overcommit.cpu_per_mille),
        per_mille(memory, overcommit.memory_per_mille),
        per_mille(disk, overcommit.disk_per_mille),
        per_mille(disk_rate, overcommit.disk_rate_per_mille),
        per_mille(network_rate, overcommit.network_rate_per_mille),
    ]
}

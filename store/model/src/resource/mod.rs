//! Resources per dimension, at fine grain and without slots. TCP ports are assigned singly and are not here.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

mod amount;
mod arithmetic;
mod dimension;

pub use amount::{
    AmountError, AmountProblem, bytes_display, bytes_parse, bytes_rounded, cpu_display, cpu_parse,
    device_display, device_parse, rate_display, rate_parse,
};
pub use arithmetic::{
    ResourceError, Shortfall, fits_in, resources_add, resources_less, resources_most, resources_multiply,
    resources_sub, shortfall,
};
pub use dimension::Dimension;

/// An amount in every dimension. Arithmetic is checked and never saturates; an overflow is an error.
#[derive(
    Clone, Debug, PartialEq, Eq, Default, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[serde(default, deny_unknown_fields)]
pub struct Resources {
    /// Thousandths of a core, normalised over processor types by the node's `cpu_speed`.
    #[n(0)]
    pub cpu_millis: u64,
    #[n(1)]
    pub memory_bytes: u64,
    /// Bytes of local disk.
    #[n(2)]
    pub disk_bytes: u64,
    /// Bytes per second of disk access.
    #[n(3)]
    pub disk_bytes_per_s: u64,
    /// Bytes per second of network.
    #[n(4)]
    pub network_bytes_per_s: u64,
    /// Countable devices by kind (such as `gpu`), in thousandths of a device. For a node and an attempt's share of it,
    /// also the single cards by kind and place (`gpu/0`): see [`crate::node::Card`].
    #[n(5)]
    pub device_millis: BTreeMap<String, u64>,
}

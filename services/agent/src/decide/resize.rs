//! The resize of a running attempt on its node: pure.
//!
//! The agent carries out an order, records its result, and only then reports it. An agent that dies before that
//! finds no record, gets the order again, and sets the same limits again.

use std::sync::Arc;

use borough_proto::bounds::{SESSION_ERROR_BYTES_MAX, text_cut};
use borough_proto::v1;
use borough_proto::v1::task_status::Phase;
use serde::{Deserialize, Serialize};

use super::state::AttemptState;

/// The orders of an attempt so far: the last one with its result, and what is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResizeRecord {
    /// The last order that was carried out or refused.
    pub order: u64,
    /// Absent: it was carried out.
    pub refused: Option<ResizeRefusal>,
    /// What is in force; absent: what the assignment asks for.
    pub in_force: Option<ResizedAmounts>,
}

/// Why an order was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResizeRefusal {
    /// The attempt uses more memory than it is to have.
    MemoryInUse { used_bytes: u64, asked_bytes: u64 },
    /// The machine could not apply it.
    Failed(String),
}

/// The amounts of an attempt that change while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResizedAmounts {
    pub cpu_millis: u64,
    pub memory_bytes: u64,
    pub disk_bytes_per_s: u64,
    pub network_bytes_per_s: u64,
}

impl ResizedAmounts {
    /// Those of an order or an assignment.
    pub fn of(resources: &v1::Resources) -> Self {
        let v1::Resources { cpu_millis, memory_bytes, disk_bytes_per_s, network_bytes_per_s, .. } =
            *resources;
        Self { cpu_millis, memory_bytes, disk_bytes_per_s, network_bytes_per_s }
    }
}

impl ResizeRecord {
    /// The record after an order for `asked`.
    pub fn after(&self, order: u64, asked: ResizedAmounts, refused: Option<ResizeRefusal>) -> Self {
        let in_force = if refused.is_none() { Some(asked) } else { self.in_force };
        Self { order, refused, in_force }
    }

    /// What the agent reports; `None` before the first order.
    pub(super) fn settled(&self) -> Option<v1::ResizeSettled> {
        let mut settled = v1::ResizeSettled { order: self.order, ..v1::ResizeSettled::default() };
        match &self.refused {
            None => {}
            Some(ResizeRefusal::MemoryInUse { used_bytes, asked_bytes }) => {
                settled.memory_used_bytes = *used_bytes;
                settled.memory_asked_bytes = *asked_bytes;
            }
            Some(ResizeRefusal::Failed(error)) => {
                settled.error.clone_from(error);
                text_cut(&mut settled.error, SESSION_ERROR_BYTES_MAX);
            }
        }
        (self.order > 0).then_some(settled)
    }
}

/// The order that is due for an attempt: one after the last that it knows.
pub(super) fn resize_due<'a>(
    attempt: &AttemptState,
    assignment: Option<&'a Arc<v1::Assignment>>,
) -> Option<&'a v1::ResizeOrder> {
    let order = assignment?.resize.as_ref().filter(|order| order.order > attempt.resize.order);
    order.filter(|_| attempt.phase() == Phase::Running && attempt.assignment.is_some())
}

/// An assignment with the amounts that are in force.
pub(crate) fn assignment_resized(
    assignment: &Arc<v1::Assignment>,
    record: &ResizeRecord,
) -> Arc<v1::Assignment> {
    let (Some(amounts), Some(spec)) = (record.in_force, &assignment.spec) else {
        return Arc::clone(assignment);
    };
    let ResizedAmounts { cpu_millis, memory_bytes, disk_bytes_per_s, network_bytes_per_s } = amounts;
    let resources = v1::Resources {
        cpu_millis,
        memory_bytes,
        disk_bytes_per_s,
        network_bytes_per_s,
        ..spec.resources.clone().unwrap_or_default()
    };
    let spec = v1::TaskSpec { resources: Some(resources), ..spec.clone() };
    Arc::new(v1::Assignment { spec: Some(spec), ..(**assignment).clone() })
}

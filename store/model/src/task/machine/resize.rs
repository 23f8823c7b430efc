//! Changes of a running attempt in place. A resize is ordered, and its agent confirms or refuses it. Another version is
//! adopted at once if the attempt runs as that version would run it.

use super::EXIT_MESSAGE_BYTES_MAX;
use super::event::{EndpointEffect, ResizeOrder, TransitionRefused};
use super::step::{Decided, TransitionDraft, illegal, stale, unchanged};
use crate::task::{Health, Resize, ResizeRefused, TaskRow, TaskState};

pub(super) fn resize_ordered(row: &TaskRow, order: &ResizeOrder, now_ms: i64) -> Decided {
    match row.state {
        TaskState::Running if row.resize_ordered().is_some() => {
            illegal(row, "resize_ordered", "an attempt has one order at a time")
        }
        TaskState::Running => {
            let is_known = |known: &Resize| {
                known.version == order.version
                    && known.granted == order.granted
                    && known.refused == order.refused
            };
            if order.refused.is_some() && row.resize.as_deref().is_some_and(is_known) {
                return unchanged(row);
            }
            let was_refused = |known: &Resize| known.refused.is_some() && known.version == order.version;
            let resize = Resize {
                order: row.revision.saturating_add(1),
                version: order.version,
                granted: order.granted.clone(),
                in_force: order.in_force.clone(),
                at_ms: now_ms,
                refused: order.refused.clone(),
                again: row.resize.as_deref().is_some_and(was_refused),
            };
            let charge = resize.charge();
            TransitionDraft::new(row, now_ms)
                .with(|row| row.resize = Some(Box::new(resize)))
                .charge(charge)
                .done()
        }
        TaskState::Stopping
        | TaskState::Releasing
        | TaskState::Lost
        | TaskState::Assigned
        | TaskState::Starting
        | TaskState::Held => illegal(row, "resize_ordered", "only what runs is resized"),
        TaskState::Pending | TaskState::Dead => stale(row),
    }
}

/// The agent has carried out an order, or refused it. What it says of an earlier order is no news.
pub(super) fn resize_settled(
    row: &TaskRow,
    order: u64,
    refused: Option<&ResizeRefused>,
    now_ms: i64,
) -> Decided {
    let step = TransitionDraft::new(row, now_ms);
    match row.state {
        TaskState::Running => {
            let Some(resize) = row.resize_ordered().filter(|resize| resize.order == order) else {
                return unchanged(row);
            };
            let mut settled = resize.clone();
            let Some(refused) = refused else {
                let granted = resize.granted.clone();
                let step = step.with(|row| {
                    row.spec_version = settled.version;
                    row.resize = None;
                    row.failures_of_another();
                });
                // The version may also have another weight.
                return step.charge(granted).endpoint(endpoint_in_place(row)).done();
            };
            settled.refused = Some(bounded(refused));
            settled.at_ms = now_ms;
            let charge = settled.charge();
            step.with(|row| row.resize = Some(Box::new(settled))).charge(charge).done()
        }
        // It ends with the most of what it may have.
        TaskState::Stopping | TaskState::Releasing => unchanged(row),
        TaskState::Assigned | TaskState::Starting => {
            illegal(row, "resize_settled", "its process has not been reported yet")
        }
        TaskState::Held => illegal(row, "resize_settled", "nothing starts while held"),
        TaskState::Lost => Err(TransitionRefused::NodeReturnFirst),
        TaskState::Pending | TaskState::Dead => stale(row),
    }
}

/// The attempt has this version from now on. Nothing else of it changes, and its endpoint is written with the weight of
/// the version.
pub(super) fn version_adopted(row: &TaskRow, version: u32, now_ms: i64) -> Decided {
    match row.state {
        TaskState::Running if row.resize_ordered().is_some() => {
            illegal(row, "version_adopted", "an order to resize it is on its way")
        }
        TaskState::Running if row.spec_version >= version => unchanged(row),
        TaskState::Running => {
            let step = TransitionDraft::new(row, now_ms).with(|next| {
                next.spec_version = version;
                // Another version has asked for it.
                next.resize = None;
                // Its process runs as before.
                next.failures_continue(row);
            });
            step.endpoint(endpoint_in_place(row)).done()
        }
        TaskState::Stopping
        | TaskState::Releasing
        | TaskState::Lost
        | TaskState::Assigned
        | TaskState::Starting
        | TaskState::Held => illegal(row, "version_adopted", "only what runs adopts a version"),
        TaskState::Pending | TaskState::Dead => stale(row),
    }
}

/// The endpoint of an attempt that goes on with another version.
fn endpoint_in_place(row: &TaskRow) -> EndpointEffect {
    if row.health == Health::Healthy { EndpointEffect::Publish } else { EndpointEffect::Keep }
}

/// A row stays small, whatever an agent reports.
fn bounded(refused: &ResizeRefused) -> ResizeRefused {
    match refused {
        ResizeRefused::Failed { message } => {
            let end = message.floor_char_boundary(EXIT_MESSAGE_BYTES_MAX);
            ResizeRefused::Failed { message: message.get(..end).unwrap_or_default().to_owned() }
        }
        ResizeRefused::NoRoom { .. } | ResizeRefused::MemoryInUse { .. } => refused.clone(),
    }
}

//! Resizes a running attempt on the machine that the agent runs on.

use std::path::Path;

use borough_shim::cgroup::{ResizeError, ResizeLimits};
use borough_shim::file::{Durability, json_write};
use rustix::process::Signal;

use super::sample;
use crate::decide::cores::Cores;
use crate::disk::RESIZE_FILE;
use crate::machine::{AttemptResize, ResizeRecord, ResizeRefusal, ResizedAmounts};

/// Carries out an order and records its result in the attempt's directory. Returns the record.
pub(super) fn resize_apply(resize: AttemptResize, cores: &Cores, directory: &Path) -> ResizeRecord {
    let AttemptResize { order, record, before, after, place, signal } = resize;
    let limits = |amounts: ResizedAmounts| ResizeLimits {
        cpu_millis: cores.own_millis(amounts.cpu_millis),
        memory_bytes: amounts.memory_bytes,
    };
    let used = || {
        let without_cgroup = place.leaf.is_none().then(|| sample::measure_one(&place)).flatten();
        without_cgroup.map_or(0, |sample| sample.memory_bytes)
    };
    let shrinks =
        after.memory_bytes > 0 && (before.memory_bytes == 0 || after.memory_bytes < before.memory_bytes);
    let used_bytes = if shrinks { used() } else { 0 };
    let result = if used_bytes > after.memory_bytes {
        Err(ResizeError::MemoryInUse { used_bytes, asked_bytes: after.memory_bytes })
    } else {
        place.leaf.resize(limits(before), limits(after))
    };
    let refused = match result {
        Ok(()) => None,
        Err(ResizeError::MemoryInUse { used_bytes, asked_bytes }) => {
            Some(ResizeRefusal::MemoryInUse { used_bytes, asked_bytes })
        }
        Err(ResizeError::Refused(error)) => Some(ResizeRefusal::Failed(error.to_string())),
    };
    // Before the record: an agent that dies in between gets the order and sends the signal again.
    if let Some((task, number)) = signal.filter(|_| refused.is_none())
        && let Some(signal) = Signal::from_named_raw(number)
        && let Err(error) = task.signal(signal)
    {
        tracing::debug!(attempt = %place.id, %error, "the signal of a resize was not sent");
    }
    let record = record.after(order, after, refused);
    if let Err(error) = json_write(directory, RESIZE_FILE, &record, Durability::Process) {
        // Memory has it. A restarted agent sets the same limits again.
        tracing::warn!(attempt = %place.id, %error, "the result of a resize cannot be written");
    }
    record
}

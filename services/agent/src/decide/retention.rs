//! Decides which ended attempts lose their logs.

use std::collections::BTreeMap;

use crate::attempt::AttemptId;

/// The limits for files of ended attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Attempts of one task.
    pub attempts_per_task: usize,
    /// Attempts of all tasks.
    pub attempts: usize,
    /// Bytes of all logs.
    pub bytes: u64,
    /// Milliseconds after the end.
    pub age_ms: i64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { attempts_per_task: 5, attempts: 2000, bytes: 4 << 30, age_ms: 24 * 60 * 60 * 1000 }
    }
}

/// An ended attempt that the control plane has forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub id: AttemptId,
    /// When it was released, milliseconds since 1970.
    pub at_ms: i64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// The attempts to remove at `now_ms`: too old, too many of one task, or too many in all, the oldest first.
pub(crate) fn excess(mut ended: Vec<Ended>, limits: Retention, now_ms: i64) -> Vec<AttemptId> {
    // The newest first. Those beyond the limits are removed.
    ended.sort_by(|a, b| (b.at_ms, &b.id).cmp(&(a.at_ms, &a.id)));
    let mut of_task: BTreeMap<(String, u32), usize> = BTreeMap::new();
    let (mut attempts, mut bytes) = (0_usize, 0_u64);
    let mut gone = Vec::new();
    for attempt in ended {
        let same = of_task.entry((attempt.id.job_id.clone(), attempt.id.index)).or_default();
        let old = now_ms.saturating_sub(attempt.at_ms) > limits.age_ms;
        let many = *same >= limits.attempts_per_task || attempts >= limits.attempts;
        if old || many || bytes.saturating_add(attempt.bytes) > limits.bytes {
            gone.push(attempt.id);
        } else {
            *same += 1;
            attempts += 1;
            bytes = bytes.saturating_add(attempt.bytes);
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(index: u32, incarnation: u64, at_ms: i64, bytes: u64) -> Ended {
        Ended { id: AttemptId::new("j0000000000000001", index, incarnation).unwrap(), at_ms, bytes }
    }

    fn limits() -> Retention {
        Retention { attempts_per_task: 2, attempts: 3, bytes: 100, age_ms: 1000 }
    }

    fn gone(attempts: &[Ended], now_ms: i64) -> Vec<(u32, u64)> {
        let gone = excess(attempts.to_vec(), limits(), now_ms);
        gone.into_iter().map(|id| (id.index, id.incarnation)).collect()
    }

    #[test]
    fn each_limit_takes_the_oldest() {
        assert_eq!(gone(&[ended(0, 1, 10, 1), ended(0, 2, 20, 1), ended(0, 3, 30, 1)], 40), [(0, 1)]);
        assert_eq!(gone(&[ended(0, 1, 10, 1), ended(1, 1, 2000, 1)], 2500), [(0, 1)]);
        assert_eq!(gone(&[ended(0, 1, 10, 60), ended(1, 1, 20, 60)], 40), [(0, 1)]);
        let four: Vec<Ended> = (0..4).map(|index| ended(index, 1, i64::from(index), 1)).collect();
        assert_eq!(gone(&four, 40), [(0, 1)]);
        assert_eq!(gone(&[], 40), []);
    }
}

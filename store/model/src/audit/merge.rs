//! Counts refusals that are alike, so that a storm of them is a line.

use std::collections::BTreeMap;

use super::{AuditRefusal, AuditedCall};

/// How many kinds of refusals are kept apart until they are taken. Whoever is refused in many ways must not fill the
/// audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalBounds {
    /// Of one caller. Further ones count together, in the caller's name.
    pub of_a_caller: usize,
    /// Of all callers. Further ones count together.
    pub in_all: usize,
}

/// Refusals that were alike, since they were last taken.
#[derive(Clone, Debug, Default)]
pub struct RefusalCounts {
    counts: BTreeMap<RefusalKind, AuditedCall>,
}

/// Who was refused what. Objects and request ids may differ: the first of them is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RefusalKind {
    by: String,
    from: Option<String>,
    method: String,
    refusal: AuditRefusal,
}

/// The method of refusals that had no room of their own.
const OTHER: &str = "other";

impl RefusalCounts {
    /// Counts a refusal.
    pub fn push(&mut self, call: AuditedCall, bounds: RefusalBounds) {
        if self.count(&call) {
            return;
        }
        if self.counts.len() >= bounds.in_all {
            let others = other("others");
            if !self.count(&others) {
                self.insert(others);
            }
        } else if self.kinds_of(&call.by) >= bounds.of_a_caller {
            let others = other(&call.by);
            if !self.count(&others) {
                self.insert(others);
            }
        } else {
            self.insert(call);
        }
    }

    /// Counts a refusal that is known; returns false if it is not.
    fn count(&mut self, call: &AuditedCall) -> bool {
        let known = kind_of(call)
            .and_then(|kind| self.counts.get_mut(&kind))
            .and_then(|first| first.refused.as_mut());
        known.map(|first| first.times = first.times.saturating_add(1)).is_some()
    }

    fn insert(&mut self, call: AuditedCall) {
        if let Some(kind) = kind_of(&call) {
            self.counts.insert(kind, call);
        }
    }

    fn kinds_of(&self, by: &str) -> usize {
        let begin = RefusalKind {
            by: by.to_owned(),
            from: None,
            method: String::new(),
            refusal: AuditRefusal::default(),
        };
        self.counts
            .range(begin..)
            .take_while(|(kind, _)| kind.by == by)
            .filter(|(kind, _)| kind.method != OTHER)
            .count()
    }

    /// Takes what was counted.
    pub fn take(&mut self) -> Vec<AuditedCall> {
        std::mem::take(&mut self.counts).into_values().collect()
    }
}

/// `None` for a call that was done.
fn kind_of(call: &AuditedCall) -> Option<RefusalKind> {
    let refusal = AuditRefusal { times: 0, ..call.refused.clone()? };
    Some(RefusalKind { by: call.by.clone(), from: call.from.clone(), method: call.method.clone(), refusal })
}

/// Stands for refusals of a caller that had no room.
fn other(by: &str) -> AuditedCall {
    AuditedCall {
        method: OTHER.to_owned(),
        by: by.to_owned(),
        user: None,
        from: None,
        request: None,
        object: None,
        revisions: None,
        refused: Some(AuditRefusal { code: "OTHER".to_owned(), reason: String::new(), times: 1 }),
        at_ms: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(by: &str, object: &str) -> AuditedCall {
        AuditedCall {
            method: "JobService/StopJob".to_owned(),
            by: by.to_owned(),
            user: None,
            from: Some("127.0.0.1".to_owned()),
            request: None,
            object: Some(object.to_owned()),
            revisions: None,
            refused: Some(AuditRefusal {
                code: "PERMISSION_DENIED".to_owned(),
                reason: "ACCESS_REFUSED".to_owned(),
                times: 1,
            }),
            at_ms: None,
        }
    }

    const BOUNDS: RefusalBounds = RefusalBounds { of_a_caller: 2, in_all: 5 };

    fn taken(counts: &mut RefusalCounts) -> Vec<(String, String, u32)> {
        let calls = counts.take().into_iter();
        calls.map(|call| (call.by, call.method, call.refused.map_or(0, |refused| refused.times))).collect()
    }

    #[test]
    fn a_storm_of_refusals_is_a_line_and_hides_nobody_else() {
        let mut counts = RefusalCounts::default();
        for number in 0..1_000 {
            counts.push(refused("user/eve", &format!("job/bob/{number}")), BOUNDS);
            counts.push(AuditedCall { method: format!("m{number}"), ..refused("user/eve", "x") }, BOUNDS);
        }
        counts.push(refused("user/ann", "job/eve/x"), BOUNDS);
        let line = |by: &str, method: &str, times| (by.to_owned(), method.to_owned(), times);
        let stop = "JobService/StopJob";
        assert_eq!(
            taken(&mut counts),
            [
                line("user/ann", stop, 1),
                line("user/eve", "other", 999),
                line("user/eve", stop, 1_000),
                line("user/eve", "m0", 1),
            ]
        );
        assert!(counts.take().is_empty());
    }

    #[test]
    fn refusals_of_many_callers_have_a_bound_and_all_count() {
        let mut counts = RefusalCounts::default();
        for number in 0..100 {
            counts.push(refused(&format!("user/u{number:02}"), "x"), BOUNDS);
        }
        let lines = taken(&mut counts);
        assert_eq!(lines.len(), 6);
        assert_eq!(lines.iter().map(|(_, _, times)| times).sum::<u32>(), 100);
        assert_eq!(lines[0], ("others".to_owned(), "other".to_owned(), 95));
    }
}

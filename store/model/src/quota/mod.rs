//! What an operator says about a quota: how much a user may have admitted in a band at once.

use crate::field_error::{FieldError, FieldErrors};
use crate::node::device_kind_check;
use crate::resource::Resources;

/// The most kinds of devices that a quota limits.
const DEVICE_KINDS_MAX: usize = 32;

/// The limits of a user in a band. Without any amount nothing is limited.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct QuotaLimit {
    /// The most that may be admitted at once. An amount of 0 is no limit.
    pub resources: Resources,
    /// The most tasks; absent: no limit.
    pub tasks_max: Option<u64>,
    /// The window in which it holds, wall time, milliseconds since 1970; absent: without a beginning or an end.
    pub from_ms: Option<i64>,
    pub until_ms: Option<i64>,
}

impl QuotaLimit {
    /// Returns true if it limits nothing.
    pub fn is_empty(&self) -> bool {
        self.tasks_max.is_none() && self.resources.is_zero()
    }
}

/// Returns an error for each field that an operator cannot have meant. Amounts fit counters with a sign.
pub fn quota_limit_check(limit: &QuotaLimit) -> Result<(), Vec<FieldError>> {
    let mut fields = FieldErrors::default();
    let QuotaLimit { resources, tasks_max, from_ms, until_ms } = limit;
    let kinds = resources.device_millis.len();
    let path = "limit.resources.devices";
    let accepted = format!("{DEVICE_KINDS_MAX} at most");
    fields.require(kinds <= DEVICE_KINDS_MAX, path, format!("{kinds} kinds"), accepted);
    for kind in resources.device_millis.keys() {
        device_kind_check(&mut fields, path, kind);
    }
    for (dimension, amount) in resources.amounts() {
        let path = format!("limit.resources.{dimension}");
        fields.require(i64::try_from(amount).is_ok(), &path, amount, format!("0 to {}", i64::MAX));
    }
    let tasks = tasks_max.unwrap_or(0);
    fields.require(i64::try_from(tasks).is_ok(), "limit.tasks_max", tasks, format!("0 to {}", i64::MAX));
    let accepted = "an amount of at least one resource, or `tasks_max`; or no limit at all, which removes it";
    fields.require(!limit.is_empty(), "limit", "{}", accepted);
    if let (Some(from), Some(until)) = (from_ms, until_ms) {
        let accepted = format!("after {from}, the begin of the window");
        fields.require(until > from, "limit.until_ms", until, accepted);
    }
    fields.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_limits_something_at_some_time() {
        let paths = |limit: QuotaLimit| -> Vec<String> {
            quota_limit_check(&limit).err().into_iter().flatten().map(|error| error.path).collect()
        };
        let none = QuotaLimit::default();
        assert_eq!(paths(none.clone()), ["limit"]);
        let tasks = QuotaLimit { tasks_max: Some(0), ..none };
        assert_eq!(paths(tasks.clone()), [""; 0]);
        assert_eq!(paths(QuotaLimit { tasks_max: Some(u64::MAX), ..tasks.clone() }), ["limit.tasks_max"]);
        let (from_ms, until_ms) = (Some(5), Some(5));
        assert_eq!(paths(QuotaLimit { from_ms, until_ms, ..tasks.clone() }), ["limit.until_ms"]);
        let resources = Resources {
            cpu_millis: u64::MAX,
            device_millis: [("g u".to_owned(), 1_000)].into(),
            ..Resources::default()
        };
        assert_eq!(
            paths(QuotaLimit { resources, ..tasks }),
            ["limit.resources.devices", "limit.resources.cpu"]
        );
    }
}

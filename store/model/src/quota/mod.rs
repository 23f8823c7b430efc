//! What an operator says about a quota: how much a holder may have admitted in a band at once, and which group's quota
//! counts it too.

mod oversell;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

pub use self::oversell::{
    GrantBound, GrantExcess, GrantPool, GrantShort, GrantStep, OVERSELL_PERCENT_MAX, OVERSELL_WHOLE,
    OversellFactors, QuotaGrant, grant_check, grants_excess, grants_peak,
};
use crate::access::AccessSubject;
use crate::field_error::{FieldError, FieldErrors};
use crate::id::Name;
use crate::node::device_kind_check;
use crate::resource::Resources;

/// The most kinds of devices that a quota limits.
const DEVICE_KINDS_MAX: usize = 32;
/// The most groups above a user.
pub const QUOTA_GROUPS_MAX: usize = 4;

/// The limits of a holder in a band. Without any amount nothing is limited.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct QuotaLimit {
    /// The most that may be admitted at once. An amount of 0 is no limit.
    pub resources: Resources,
    /// The most tasks; absent: no limit.
    pub tasks_max: Option<u64>,
    /// The window in which it holds, wall time, milliseconds since 1970; absent: without a beginning or an end.
    pub from_ms: Option<i64>,
    pub until_ms: Option<i64>,
    /// The group whose line in the same band is charged too; absent: none.
    pub parent: Option<Name>,
    /// What the holder may have beyond the limit while its parent has room; absent: nothing.
    pub borrow: Option<QuotaBorrow>,
}

/// What a holder may have admitted beyond its own limit. The parent must have room for it in any case.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaBorrow {
    /// All that the parent has room for.
    #[n(0)]
    All,
    /// These amounts. An amount of 0 is nothing.
    #[n(1)]
    UpTo {
        #[n(0)]
        resources: Resources,
        #[n(1)]
        tasks: u64,
    },
}

impl QuotaLimit {
    /// Returns true if it limits nothing, and has no parent that does.
    pub fn is_empty(&self) -> bool {
        self.tasks_max.is_none() && self.resources.is_zero() && self.parent.is_none()
    }
}

/// Whom a text of a request means: `group/<name>`, `user/<name>`, or the plain name of a user.
///
/// # Errors
/// What would be accepted.
pub fn quota_holder_parse(text: &str) -> Result<AccessSubject, String> {
    let accepted = || "NAME or user/NAME of a user, or group/NAME, such as ann or group/web-team".to_owned();
    if text.contains('/') {
        return text.parse().map_err(|_| accepted());
    }
    Name::new(text).map(AccessSubject::User).map_err(|error| format!("{}; {error}", accepted()))
}

/// A holder as messages and commands name it: a user by the plain name, a group as `group/<name>`.
pub fn quota_holder_text(holder: &AccessSubject) -> String {
    match holder {
        AccessSubject::User(name) => name.to_string(),
        AccessSubject::Group(_) => holder.to_string(),
    }
}

/// Returns an error for each field that an operator cannot have meant. Amounts fit counters with a sign.
pub fn quota_limit_check(limit: &QuotaLimit) -> Result<(), Vec<FieldError>> {
    let mut fields = FieldErrors::default();
    let QuotaLimit { resources, tasks_max, from_ms, until_ms, parent, borrow } = limit;
    amounts_check(&mut fields, "limit", resources, tasks_max.unwrap_or(0), "tasks_max");
    let accepted = "an amount of at least one resource, or `tasks_max`, or a `parent`; or no limit at all, which removes it";
    fields.require(!limit.is_empty(), "limit", "{}", accepted);
    if let (Some(from), Some(until)) = (from_ms, until_ms) {
        let accepted = format!("after {from}, the begin of the window");
        fields.require(until > from, "limit.until_ms", until, accepted);
    }
    if borrow.is_some() {
        let accepted = "only with a `parent`: what is borrowed is the parent's room";
        fields.require(parent.is_some(), "limit.borrow", "{}", accepted);
    }
    if let Some(QuotaBorrow::UpTo { resources, tasks }) = borrow {
        amounts_check(&mut fields, "limit.borrow", resources, *tasks, "tasks");
        let accepted = "an amount of at least one resource, or `tasks`, or `all`";
        fields.require(*tasks > 0 || !resources.is_zero(), "limit.borrow", "{}", accepted);
    }
    fields.done()
}

fn amounts_check(
    fields: &mut FieldErrors,
    within: &str,
    resources: &Resources,
    tasks: u64,
    tasks_path: &str,
) {
    let kinds = resources.device_millis.len();
    let path = format!("{within}.resources.devices");
    let accepted = format!("{DEVICE_KINDS_MAX} at most");
    fields.require(kinds <= DEVICE_KINDS_MAX, &path, format!("{kinds} kinds"), accepted);
    for kind in resources.device_millis.keys() {
        device_kind_check(fields, &path, kind);
    }
    let accepted = || format!("0 to {}", i64::MAX);
    for (dimension, amount) in resources.amounts() {
        let path = format!("{within}.resources.{dimension}");
        fields.require(i64::try_from(amount).is_ok(), &path, amount, accepted());
    }
    let path = format!("{within}.{tasks_path}");
    fields.require(i64::try_from(tasks).is_ok(), &path, tasks, accepted());
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

    #[test]
    fn borrowing_needs_a_parent_and_an_amount() {
        let paths = |parent: Option<&str>, borrow| -> Vec<String> {
            let parent = parent.map(|name| Name::new(name).unwrap());
            let limit =
                QuotaLimit { tasks_max: Some(1), parent, borrow: Some(borrow), ..QuotaLimit::default() };
            quota_limit_check(&limit).err().into_iter().flatten().map(|error| error.path).collect()
        };
        let up_to = |tasks| QuotaBorrow::UpTo { resources: Resources::default(), tasks };
        assert_eq!(paths(None, QuotaBorrow::All), ["limit.borrow"]);
        assert_eq!(paths(Some("shop"), QuotaBorrow::All), [""; 0]);
        assert_eq!(paths(Some("shop"), up_to(0)), ["limit.borrow"]);
        assert_eq!(paths(Some("shop"), up_to(3)), [""; 0]);
        assert_eq!(paths(Some("shop"), up_to(u64::MAX)), ["limit.borrow.tasks"]);
    }

    #[test]
    fn a_holder_is_a_user_or_a_group() {
        let text = |text: &str| quota_holder_parse(text).map(|holder| quota_holder_text(&holder));
        assert_eq!(text("ann").unwrap(), "ann");
        assert_eq!(text("user/ann").unwrap(), "ann");
        assert_eq!(text("group/shop").unwrap(), "group/shop");
        for wrong in ["", "node/n1", "group/", "group/a/b", "Ann"] {
            assert!(text(wrong).unwrap_err().contains("or group/NAME"), "{wrong}");
        }
    }
}

//! Quotas: what a user may have admitted in a band, and what is.
//!
//! A task that is admitted is charged until it is over. A charge has one owner at any time: the task's row, or, while
//! the task was never placed, its job's unplaced remainder. Only the owner's terminal transition gives it back, in a
//! transaction that has read the owner with a conflict, so nothing is given back twice.
//!
//! Two kinds of keys keep admissions and endings from failing each other. `quota_used` is written by admission only.
//! Endings add to the counters of `quota_released`, one per dimension, atomically and without reading; the next
//! admission of the same user and band folds them in: it reads them without a conflict and takes from each exactly what
//! it has read, so that an ending that commits in between is left for the admission after it.
//!
//! Where a user has no limit in a band, admissions do not read the sum either: they take from the same counters, so that
//! many submissions at once never meet, and the first admission under a limit that is set later folds that in.
//!
//! No limit is no limit. What a band has as its limit by default is a later policy.

mod charge;
mod limit;
mod row;
#[cfg(test)]
mod tests;
mod usage;

pub(crate) use charge::{charges_guard, charges_touch};
pub use charge::{job_charge, job_remainder, task_charge};
pub use limit::{QuotaShort, quota_check, quota_get, quota_set};
pub use row::{QuotaRow, QuotaUsed};
pub(crate) use usage::overflow;
pub use usage::{dimension_text, quota_charge, quota_fold, quota_give_back, quota_usage};

//! Quotas: how much a user or a group may have admitted in a band, and how much is.
//!
//! An admitted task is charged until it is over. A charge has one owner at any time: the task's row, or, while the task
//! was never placed, its job's unplaced remainder. Only the owner's terminal transition releases it, in a transaction
//! that has read the owner with a conflict, so nothing is released twice.
//!
//! Two kinds of keys keep admissions and endings from failing each other. Only admission writes `quota_used`. Endings
//! add to the counters of `quota_released`, one per dimension, atomically and without reading. The next admission of
//! the same user and band folds them in: it reads them without a conflict and subtracts exactly what it has read. An
//! ending that commits in between stays for the admission after it.
//!
//! If a user has no limit in a band, admissions do not read the sum either. They subtract from the same counters, so
//! that many submissions at once never conflict. The first admission under a later limit folds that in.
//!
//! Without a limit a user may admit anything.
//!
//! Lines form a tree: a line may have a group's line in the same band as its parent. A job is charged to its user's
//! line and to every line above. Its row keeps the groups, and everything that the job charges or releases later goes
//! to the same lines. A new parent therefore holds for new jobs.
//!
//! `quota_below` has what each line grants, by its parent. Those without a parent together grant no more than the
//! cell's capacity by the factor of their band.

mod below;
mod charge;
mod grant;
mod limit;
mod line;
mod room;
#[cfg(test)]
mod tests;
mod tree;
mod usage;

pub(crate) use below::below_rows;
pub use charge::{ChargeBasis, job_charge, job_held, job_remainder, task_charge};
pub(crate) use charge::{charges_guard, charges_touch};
pub use grant::{PoolGrants, oversell_check, pool_grants};
pub use limit::{AmountShort, LineAsk, QuotaShort, quota_check, quota_get, quota_set};
pub use line::{LineChange, QuotaFilter, QuotaLine, QuotaPage, quota_change, quota_line, quota_page};
pub(crate) use room::{QuotaRooms, lines_of};
pub use usage::{dimension_text, quota_charge, quota_fold, quota_give_back, quota_usage};
pub(crate) use usage::{overflow, quota_admit, quota_charge_each, quota_charge_part, quota_recharge};

pub use crate::row::{QUOTA_CHANGES_MAX, QuotaChange, QuotaRow, QuotaUsed};

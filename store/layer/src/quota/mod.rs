//! Quotas: what a user may have admitted in a band, and what is.

mod row;

pub use row::{QuotaRow, QuotaUsed};

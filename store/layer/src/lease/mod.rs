//! Leases: who does a piece of work now, fenced by an epoch that protected transactions read.

mod row;

pub use row::{LeaseBeat, LeaseRow};

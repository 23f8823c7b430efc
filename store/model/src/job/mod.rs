//! A job: what its owner wrote (the spec, cold) and what became of it (the row, hot).

mod row;
mod spec;

pub use row::{JobOutcome, JobRow, JobState};
pub use spec::{
    After, AfterCondition, Band, Constraint, ConstraintOperator, HealthCheck, JobKind, JobSpec, LogSpec,
    PortSpec, Probe, RestartMode, RestartSpec, Spread, TaskOverride, TaskSpec,
};

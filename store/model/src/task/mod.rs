//! Tasks: the row, its states, and the one state machine that every role uses.

mod gang;
pub mod machine;
mod row;

pub use gang::{GangRow, GangState};
pub use machine::{
    Attempt, CapacityEffect, CapacityShare, Effects, EndpointEffect, OwnerEffect, Placement, TaskEnd,
    TaskEvent, TaskRules, Transition, TransitionRefused, task_transition,
};
pub use row::{
    Charge, ChargeOwner, EndReason, Endpoint, EndpointPort, Evicted, Exit, Health, PortAssignment,
    StopReason, TaskRow, TaskState, Verdict,
};

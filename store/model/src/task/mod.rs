//! A task's life: the row, its states, and the one state machine every role uses.

pub mod machine;
mod row;
mod unit;

pub use machine::{
    CapacityEffect, CapacityShare, Effects, EndpointEffect, Life, OwnerEffect, Placement, TaskEnd, TaskEvent,
    TaskRules, Transition, TransitionRefused, task_transition,
};
pub use row::{
    Charge, ChargeOwner, EndReason, Endpoint, EndpointPort, Evicted, Exit, Health, PortAssignment,
    StopReason, TaskRow, TaskState, Verdict,
};
pub use unit::{UnitRow, UnitState};

//! Tasks: the row, its states, and the one state machine that every role uses.

mod gang;
pub mod machine;
mod on_node;
mod over;
mod row;

pub use gang::{GangRow, GangState};
pub use machine::{
    Attempt, Effects, EndpointEffect, OwnerEffect, Placement, StartedProcess, TaskEvent, TaskRules,
    Transition, TransitionRefused, task_transition,
};
pub use on_node::{
    LEAVE_MARGIN_MS, holds_ready, leave_asked_ms, leave_due_after_ms, leave_due_ms, node_alloc_sum,
};
pub use row::{
    Charge, ChargeOwner, EndReason, Endpoint, EndpointPort, Evicted, Exit, Health, PortAssignment,
    StopReason, TaskRow, TaskState, Verdict,
};

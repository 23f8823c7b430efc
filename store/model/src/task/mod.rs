//! Tasks: the row, its states, and the one state machine that every role uses.

mod endpoint;
mod gang;
mod helper;
mod in_alloc;
pub mod machine;
mod on_node;
mod over;
mod resize;
mod row;
mod stop;

pub use endpoint::{Endpoint, EndpointPort};
pub use gang::{GangRow, GangState};
pub use helper::{HELPER_MESSAGE_BYTES_MAX, HelperExit, HelperState, HelperStatus};
pub use in_alloc::InAlloc;
pub use machine::{
    Attempt, Effects, EndpointEffect, OwnerEffect, Placement, ResizeOrder, StartedProcess, TaskEvent,
    TaskRules, Transition, TransitionRefused, task_transition,
};
pub use on_node::{
    LEAVE_MARGIN_MS, holds_ready, leave_asked_ms, leave_due_after_ms, leave_due_ms, node_alloc_sum,
};
pub use resize::{
    RESIZE_DUE_MS, RESIZE_RETRY_MS, Resize, ResizeNext, ResizeRefused, ResizeWish, resize_next,
};
pub use row::{
    Charge, ChargeOwner, EndReason, Evicted, Exit, Health, PortAssignment, StartFailure, TaskRow, TaskState,
    Verdict,
};
pub use stop::StopReason;

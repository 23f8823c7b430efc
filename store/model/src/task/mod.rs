//! A task's life: the row, its states, and the one state machine every role uses.

mod row;

pub use row::{
    Charge, ChargeOwner, EndReason, Endpoint, EndpointPort, Exit, Health, PortAssignment, StopReason,
    TaskRow, TaskState, UnitRow, UnitState,
};

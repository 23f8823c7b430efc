//! What a cell does by itself: nodes that fall silent are declared lost, tasks nobody wants are ended, jobs whose turn
//! has come are let go, drained nodes are emptied, gangs whose worker is gone are let go, and what is old is forgotten.
//!
//! Level-triggered: what is to be done follows from the state alone ([`decide`]), whatever event woke the controller;
//! it wakes on the journal and on a timer and does the same either way. One controller leads a cell, by lease; every
//! transaction of it checks the lease, so that a successor is never disturbed.

mod act;
mod capacity;
mod config;
pub mod decide;
mod gang;
mod garbage;
mod lead;
mod liveness;

pub use config::ControllerConfig;
pub use lead::Controller;

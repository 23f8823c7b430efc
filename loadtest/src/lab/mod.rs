//! The policy lab: the same work placed by the production core under each scoring policy, on traces that others
//! recorded. Nothing here runs tasks or keeps a store, except `replay`, which is about the whole scheduler.

mod alibaba;
mod arrival;
pub mod balance;
mod cell;
mod openb;
pub mod packing;
mod policy;
pub mod replay;
mod table;

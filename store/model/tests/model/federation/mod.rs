//! Federated jobs: their part of a job file, and how their tasks are divided among cells.

mod complaint;
mod example;
mod failover;
mod property;
mod release;
pub(crate) mod sample;
mod settle;
mod spec;

//! Federated jobs: their part of a job file, and how their tasks are divided among cells.

mod complaint;
mod example;
mod property;
mod sample;
mod spec;

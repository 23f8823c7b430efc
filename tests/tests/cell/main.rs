//! A cell as its users meet it: real processes, real clients, faults in the store. One file per noun.

mod guard;
mod task;
mod web;

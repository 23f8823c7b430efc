//! One attempt: start the process, keep its output, end it when told to, remember how it ended, leave nothing behind.

mod attempt;
mod child;
mod leftover;
mod output;
mod termination;

pub use attempt::attempt_run;
pub use child::child_become;
pub(crate) use child::{inherited_reset, program_execute, user_assume};
pub use leftover::attempt_clean;

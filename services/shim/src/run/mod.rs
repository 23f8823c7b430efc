//! One attempt: starts the process, keeps its output, ends it on request, records how it ended, and leaves nothing
//! behind.

mod attempt;
mod child;
mod helper;
mod helper_step;
mod leftover;
mod output;
mod termination;

pub use attempt::attempt_run;
pub use child::{child_become, helper_become};
pub(crate) use child::{inherited_reset, program_execute, user_assume};
pub use leftover::attempt_clean;

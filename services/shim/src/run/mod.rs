//! One life: start the process, keep its output, end it when told to, remember how it ended, leave nothing behind.

mod child;
mod course;
mod leftover;
mod life;
mod output;

pub use child::child_become;
pub(crate) use child::{inherited_reset, program_execute, user_assume};
pub use leftover::life_clean;
pub use life::life_run;

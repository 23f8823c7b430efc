//! The check against cells that live, and against cells that are damaged.

mod damage;
pub(crate) mod load;

//! The check against cells that change, and against damaged cells.

mod damage;
pub(crate) mod load;

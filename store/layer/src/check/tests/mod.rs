//! The check against cells that live, and against cells that are damaged.

mod damage;
mod load;

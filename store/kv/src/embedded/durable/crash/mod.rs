//! The crash programme: a seeded workload over a simulated disk whose power is cut anywhere, again and again, and what
//! must be true of what is found afterwards.
//!
//! After every cut, kill or failed flush the store opens (never *damaged*), and holds all that was acknowledged, nothing
//! that was refused, and of the one batch whose fate was open all or nothing: a prefix of what was submitted, in the
//! order of versions. Versions never go back. The power may be cut, and the disk may fail, while it opens, too.
//!
//! `BOROUGH_CRASH_SEEDS` says how many seeds are run, or which (`first..end`); `BOROUGH_SEED` runs one.

mod client;
mod damage;
mod disk;
mod full;
mod inode;
mod model;
mod names;
mod programme;
mod turns;

//! The crash programme: a seeded workload over a simulated disk. The power is cut at any call, again and again, and the
//! programme checks what is found afterwards.
//!
//! After every cut, kill or failed flush the store opens (never *damaged*). It has every acknowledged batch and no
//! refused one. Only a power cut may take the last batches of those whose flush may wait. Of a batch without an answer
//! it has all or nothing. Its content is always a prefix of the submitted batches, in the order of versions, and
//! versions never go back. The power may also be cut, and the disk may fail, during an opening.
//!
//! `BOROUGH_CRASH_SEEDS` sets how many seeds are run, or which (`first..end`); `BOROUGH_SEED` runs one.

mod client;
mod damage;
mod disk;
mod full;
mod inode;
mod later;
mod model;
mod names;
mod programme;
mod turns;

//! The borough program.

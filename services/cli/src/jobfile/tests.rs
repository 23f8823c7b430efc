//! Job files as people get them wrong.

//! The client library.

//! The wire: borough/v1 .proto files, their generated Rust, and conversions to the model.

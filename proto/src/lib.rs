//! The wire of Borough: `borough/v1` as generated Rust, its descriptors for reflection, and the conversions between
//! messages and the model.
//!
//! `v1` has the messages, `convert` checks and converts them, and `bounds` states the size limit of each.

/// `borough.v1`: messages, clients and servers, documented in the `.proto` files.
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    // A change of a watch is passed on at once, and kept in a box where it is kept.
    clippy::large_enum_variant,
    clippy::too_many_lines,
    reason = "generated from the .proto files"
)]
pub mod v1 {
    tonic::include_proto!("borough.v1");
}

/// The encoded `FileDescriptorSet` of every `.proto` file, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/borough.bin"));

pub mod bounds;
pub mod connect;
pub mod convert;
pub mod file;
mod greeting;
pub mod signal;
pub mod tls;

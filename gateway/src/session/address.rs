//! Where other gateways reach this one.

use std::sync::OnceLock;

/// The address of this gateway for others. The leases of its nodes have it.
#[derive(Debug, Default)]
pub struct OwnAddress(OnceLock<String>);

impl OwnAddress {
    /// Keeps the address. It does not change.
    pub(super) fn set(&self, address: &str) {
        self.0.get_or_init(|| address.to_owned());
    }

    /// The address; empty: this gateway vouches for no node yet.
    pub fn as_str(&self) -> &str {
        self.0.get().map_or("", String::as_str)
    }
}

//! The FoundationDB backend of the key-value contract.
//!
//! Without the feature `fdb` this crate is an empty shell that links nothing, so that callers name it
//! unconditionally and learn at run time what their build lacks.

mod error;

pub use error::OpenError;

use std::sync::Arc;

use borough_kv::Engine;

/// Opens a FoundationDB cluster: `cluster` is the path of a cluster file, a connection string
/// (`description:id@address,…`), or empty for the machine's default cluster file.
#[cfg(not(feature = "fdb"))]
pub fn open(cluster: &str) -> Result<Arc<dyn Engine>, OpenError> {
    Err(OpenError::NotBuilt { cluster: cluster.to_owned() })
}

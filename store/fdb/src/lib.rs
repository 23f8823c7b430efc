//! The FoundationDB backend of the key-value contract: a thin wrapper over the `foundationdb` crate, and the only crate
//! that links `libfdb_c`.
//!
//! Without the feature `fdb` this crate is an empty shell that links nothing. Callers name it unconditionally and learn
//! at run time what their build lacks.

#[cfg(feature = "fdb")]
mod convert;
#[cfg(feature = "fdb")]
mod engine;
mod error;
#[cfg(feature = "fdb")]
mod network;
#[cfg(feature = "fdb")]
mod status;
#[cfg(feature = "fdb")]
mod transaction;

pub use error::FdbOpenError;

use std::sync::Arc;

use borough_kv::Engine;

/// Opens a FoundationDB cluster: `cluster` is the path of a cluster file, a connection string
/// (`description:id@address,…`), or empty for the machine's default cluster file.
///
/// It does not contact the cluster: if that cannot be reached, the first transaction fails with 1031.
#[cfg(feature = "fdb")]
pub fn open(cluster: &str) -> Result<Arc<dyn Engine>, FdbOpenError> {
    Ok(Arc::new(engine::FdbEngine::open(cluster)?))
}

/// Opens a FoundationDB cluster: `cluster` is the path of a cluster file, a connection string
/// (`description:id@address,…`), or empty for the machine's default cluster file.
#[cfg(not(feature = "fdb"))]
pub fn open(cluster: &str) -> Result<Arc<dyn Engine>, FdbOpenError> {
    Err(FdbOpenError::NotBuilt { cluster: cluster.to_owned() })
}

/// Stops FoundationDB's client for good. Call it as the last step of a program, after its databases are dropped. Does
/// nothing if none was opened.
#[cfg(feature = "fdb")]
pub fn shutdown() {
    network::network_stop();
}

/// Stops FoundationDB's client for good. Call it as the last step of a program, after its databases are dropped. Does
/// nothing if none was opened.
#[cfg(not(feature = "fdb"))]
pub fn shutdown() {}

#[cfg(all(test, not(feature = "fdb")))]
mod tests {
    #[test]
    fn a_build_without_the_client_reports_that() {
        let error = super::open("/etc/foundationdb/fdb.cluster").err().map(|error| error.to_string());
        assert!(error.is_some_and(|text| text.contains("without the feature `fdb`")));
    }
}

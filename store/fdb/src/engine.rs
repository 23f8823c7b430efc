//! One cluster, opened.

use std::io::Write as _;
use std::sync::Arc;

use borough_kv::contract::EngineInfo;
use borough_kv::{Engine, EngineTransaction};
use foundationdb::options::DatabaseOption;
use foundationdb::{Database, default_config_path};
use tempfile::TempPath;

use crate::OpenError;
use crate::network::network_start;
use crate::transaction::FdbTransaction;

/// A transaction with all its attempts ends with 1031 after this. The client by itself waits for an unreachable
/// cluster for ever.
const TRANSACTION_TIMEOUT_MS: i32 = 30_000;
/// Attempts of one transaction.
const TRANSACTION_RETRIES: i32 = 200;

/// A FoundationDB cluster.
pub(crate) struct FdbEngine {
    database: Arc<Database>,
    location: String,
    /// The cluster file made for a connection string. The client reads and rewrites it while the database lives.
    _file: Option<TempPath>,
}

impl FdbEngine {
    pub(crate) fn open(cluster: &str) -> Result<Self, OpenError> {
        let client = |detail: String| OpenError::Client { cluster: cluster.to_owned(), detail };
        let file = connection_file(cluster)?;
        let path = match &file {
            Some(file) => file.to_string_lossy().into_owned(),
            None if cluster.is_empty() => default_config_path().to_owned(),
            None => cluster.to_owned(),
        };
        // The client would take a missing file for one it may write, and then wait for nobody.
        std::fs::metadata(&path)
            .map_err(|source| OpenError::Cluster { cluster: cluster.to_owned(), source })?;
        network_start().map_err(client)?;
        let describe = |error: foundationdb::FdbError| client(format!("{error} (code {})", error.code()));
        let database = Database::from_path(&path).map_err(describe)?;
        for option in [
            DatabaseOption::TransactionTimeout(TRANSACTION_TIMEOUT_MS),
            DatabaseOption::TransactionRetryLimit(TRANSACTION_RETRIES),
        ] {
            database.set_option(option).map_err(describe)?;
        }
        let location = if cluster.is_empty() { path } else { cluster.to_owned() };
        Ok(Self { database: Arc::new(database), location, _file: file })
    }
}

/// A cluster file for a connection string; `None` for anything that is the path of one.
fn connection_file(cluster: &str) -> Result<Option<TempPath>, OpenError> {
    let is_string = cluster.contains('@') && cluster.contains(':') && !cluster.contains('/');
    if !is_string {
        return Ok(None);
    }
    let write = || {
        let mut file = tempfile::Builder::new().prefix("borough-").suffix(".cluster").tempfile()?;
        writeln!(file, "{cluster}")?;
        Ok(file.into_temp_path())
    };
    write()
        .map(Some)
        .map_err(|source: std::io::Error| OpenError::Cluster { cluster: cluster.to_owned(), source })
}

impl Engine for FdbEngine {
    fn begin(&self) -> Box<dyn EngineTransaction> {
        Box::new(FdbTransaction::new(Arc::clone(&self.database)))
    }

    fn info(&self) -> EngineInfo {
        EngineInfo { name: "fdb", location: self.location.clone() }
    }
}

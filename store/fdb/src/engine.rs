//! One cluster, opened.

use std::io::Write as _;
use std::sync::Arc;

use borough_kv::contract::EngineInfo;
use borough_kv::{Engine, EngineTransaction};
use foundationdb::options::DatabaseOption;
use foundationdb::{Database, default_config_path};
use prometheus_client::registry::Registry;
use tempfile::TempPath;

use crate::FdbOpenError;
use crate::network::network_start;
use crate::status::status_register;
use crate::transaction::FdbTransaction;

/// A transaction with all its tries ends with 1031 after this. The client by itself waits for an unreachable cluster
/// for ever.
const TRANSACTION_TIMEOUT_MS: i32 = 30_000;
/// Tries of one transaction.
const TRANSACTION_RETRIES: i32 = 200;

pub(crate) struct FdbEngine {
    database: Arc<Database>,
    location: String,
    /// The cluster file made for a connection string. The client reads and rewrites it while the database is open.
    _file: Option<TempPath>,
}

impl FdbEngine {
    pub(crate) fn open(cluster: &str) -> Result<Self, FdbOpenError> {
        let client = |detail: String| FdbOpenError::Client { cluster: cluster.to_owned(), detail };
        let file = connection_file(cluster)?;
        let path = match &file {
            Some(file) => file.to_string_lossy().into_owned(),
            None if cluster.is_empty() => default_config_path().to_owned(),
            None => cluster.to_owned(),
        };
        // The client would create a missing file, and then wait for ever. It reports a malformed one only with the
        // first transaction.
        let text = std::fs::read_to_string(&path)
            .map_err(|source| FdbOpenError::Cluster { cluster: cluster.to_owned(), source })?;
        connection_check(&text)
            .map_err(|detail| FdbOpenError::Malformed { cluster: cluster.to_owned(), detail })?;
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

/// Checks that the first non-empty line is `description:id@address,…`; the error says what is wrong with it.
fn connection_check(text: &str) -> Result<(), &'static str> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let (names, addresses) =
        line.ok_or("it is empty")?.split_once('@').ok_or("there is no @ before the coordinators")?;
    let (description, id) = names.split_once(':').ok_or("there is no : between description and id")?;
    let word =
        |text: &str| !text.is_empty() && text.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
    if !word(description) || !word(id) {
        return Err("description and id are letters, digits and underscores");
    }
    let port = |address: &str| {
        let address = address.trim().trim_end_matches(":tls");
        address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    };
    if addresses.split(',').all(port) { Ok(()) } else { Err("a coordinator is an address and a port") }
}

/// A cluster file for a connection string; `None` if `cluster` is a path.
fn connection_file(cluster: &str) -> Result<Option<TempPath>, FdbOpenError> {
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
        .map_err(|source: std::io::Error| FdbOpenError::Cluster { cluster: cluster.to_owned(), source })
}

impl Engine for FdbEngine {
    fn begin(&self) -> Box<dyn EngineTransaction> {
        Box::new(FdbTransaction::new(Arc::clone(&self.database)))
    }

    fn info(&self) -> EngineInfo {
        EngineInfo { name: "fdb", location: self.location.clone() }
    }

    fn metrics_register(&self, registry: &mut Registry) {
        status_register(&self.database, registry);
    }
}

#[cfg(test)]
mod tests {
    use super::connection_check;

    #[test]
    fn connection_strings_are_distinguished_from_other_text() {
        for good in
            ["a:b@127.0.0.1:4500", "# why\n\na_1:b2@1.2.3.4:1:tls,[::1]:4501\n", "a:b@host.example:4500"]
        {
            assert_eq!(connection_check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "# nothing",
            "a:b",
            "ab@1.2.3.4:5",
            "a:@1.2.3.4:5",
            "a b:c@1.2.3.4:5",
            "a:b@",
            "a:b@1.2.3.4",
            "a:b@h:99999",
        ] {
            assert!(connection_check(bad).is_err(), "{bad}");
        }
    }
}

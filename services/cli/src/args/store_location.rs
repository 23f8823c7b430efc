//! Stores by their names: `embedded:DIRECTORY` for one process, `fdb:CLUSTER` for many.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use borough_model::resource::bytes_parse;
use clap::Args;

/// The least memory for an embedded store.
const MEMORY_MIN: u64 = 16 << 20;

/// How an embedded store is opened.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct EmbeddedArguments {
    /// Keep rows up to this amount in memory, such as 2GiB, and read others from the disk; only for an embedded store
    /// [default: 512MiB]
    #[arg(long, value_name = "AMOUNT", value_parser = memory_parse)]
    pub store_memory: Option<usize>,
}

fn memory_parse(text: &str) -> Result<usize, String> {
    let bytes = bytes_parse(text).map_err(|error| error.to_string())?;
    let amount = usize::try_from(bytes).ok().filter(|_| bytes >= MEMORY_MIN);
    amount.ok_or_else(|| "accepted: 16MiB and more".to_owned())
}

/// Begins the name of a store of the embedded engine.
pub(crate) const EMBEDDED: &str = "embedded:";
const FDB: &str = "fdb:";

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLocation {
    /// A directory of the embedded engine, for one process at a time.
    Embedded(PathBuf),
    /// A FoundationDB cluster: the path of its cluster file, a connection string (`description:id@address,…`), or
    /// empty for the machine's default cluster file.
    Fdb(String),
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(directory) => write!(f, "{EMBEDDED}{}", directory.display()),
            Self::Fdb(cluster) => write!(f, "{FDB}{cluster}"),
        }
    }
}

impl FromStr for StoreLocation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(directory) = text.strip_prefix(EMBEDDED) {
            if directory.is_empty() {
                return Err(format!(
                    "{EMBEDDED} needs a directory, such as {EMBEDDED}/var/lib/borough/store"
                ));
            }
            return Ok(Self::Embedded(directory.into()));
        }
        if let Some(cluster) = text.strip_prefix(FDB) {
            return Ok(Self::Fdb(cluster.to_owned()));
        }
        Err(format!(
            "accepted: {EMBEDDED}DIRECTORY, or {FDB}CLUSTER with a cluster file or a connection string"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_read_as_they_are_written() {
        for text in [
            "embedded:/var/lib/borough/store",
            "embedded:a",
            "fdb:",
            "fdb:/etc/fdb.cluster",
            "fdb:a:b@1.2.3.4:1",
        ] {
            let location: StoreLocation = text.parse().unwrap();
            assert_eq!(location.to_string(), text);
        }
        for wrong in ["", "embedded:", "/var/lib/borough", "redis:x", "FDB:x"] {
            assert!(wrong.parse::<StoreLocation>().is_err(), "{wrong}");
        }
    }
}

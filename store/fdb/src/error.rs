//! Why a cluster is not opened.

/// Why a cluster is not opened.
#[derive(Debug, thiserror::Error)]
pub enum FdbOpenError {
    /// This program was built without the feature `fdb`. Use the build that has it, or the embedded engine.
    #[error("cannot open FoundationDB {cluster:?}: this program was built without the feature `fdb`")]
    NotBuilt {
        /// The requested cluster.
        cluster: String,
    },
    /// The name is not that of a cluster. Give a cluster file or a connection string.
    #[error("{cluster:?} is neither the path of a cluster file nor a connection string")]
    Cluster {
        cluster: String,
        #[source]
        source: std::io::Error,
    },
    /// The cluster file or the connection string is malformed. Correct it: it contains `description:id@address:port,…`.
    #[error("{cluster:?} does not name a cluster: {detail}")]
    Malformed { cluster: String, detail: &'static str },
    /// FoundationDB's client refused. Its message says why.
    #[error("FoundationDB's client cannot open {cluster:?}: {detail}")]
    Client {
        cluster: String,
        /// The client's message, with its code.
        detail: String,
    },
}

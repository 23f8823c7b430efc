//! Why a cluster is not opened.

/// Why a cluster is not opened.
#[derive(Debug, thiserror::Error)]
pub enum FdbOpenError {
    /// This program was built without the feature `fdb`. Use the build that has it, or the embedded engine.
    #[error("cannot open FoundationDB {cluster:?}: this program was built without the feature `fdb`")]
    NotBuilt {
        /// What was asked for.
        cluster: String,
    },
    /// The cluster is not named the way a cluster is. Name a cluster file or a connection string.
    #[error("{cluster:?} is neither the path of a cluster file nor a connection string")]
    Cluster {
        /// What was asked for.
        cluster: String,
        /// What the machine said.
        #[source]
        source: std::io::Error,
    },
    /// The cluster file, or the connection string, is not one. Correct it: it holds `description:id@address:port,…`.
    #[error("{cluster:?} does not name a cluster: {detail}")]
    Malformed {
        /// What was asked for.
        cluster: String,
        /// What is wrong with it.
        detail: &'static str,
    },
    /// FoundationDB's client refused. Its message says why.
    #[error("FoundationDB's client cannot open {cluster:?}: {detail}")]
    Client {
        /// What was asked for.
        cluster: String,
        /// What the client said, with its code.
        detail: String,
    },
}

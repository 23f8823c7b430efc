//! The FoundationDB backend of the key-value contract.

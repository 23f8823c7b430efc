//! The limits of the contract, enforced by every engine. Values are FoundationDB's defaults.

/// Longest key, in bytes (2102 above it).
pub const KEY_BYTES_MAX: usize = 10_000;
/// Longest value, in bytes (2103 above it).
pub const VALUE_BYTES_MAX: usize = 100_000;
/// Largest transaction, in bytes of keys, values and conflict ranges (2101 above it).
pub const TRANSACTION_BYTES_MAX: usize = 10_000_000;
/// Versions a transaction may span between its read version and its commit (1007 beyond): five seconds.
pub const TRANSACTION_LIFE_VERSIONS: i64 = 5_000_000;
/// How far versions jump at a restart: further than any version that a client may have seen.
pub const RECOVERY_VERSION_JUMP: i64 = 100_000_000;
/// Transactions in one commit batch: the batch index has two bytes.
pub const BATCH_TRANSACTIONS_MAX: usize = 32_768;
/// Watches outstanding on one database handle (1032 above it).
pub const WATCHES_MAX: usize = 10_000;
/// First key that is not a user's.
pub const USER_KEYS_END: &[u8] = b"\xff";
/// The one key beyond [`USER_KEYS_END`] that every transaction may read, watch and add a read conflict for. Its value
/// is a stamp that changes when clients must check their caches. It comes with the read version, so reading it costs
/// nothing and works however old the transaction is.
pub const METADATA_VERSION_KEY: &[u8] = b"\xff/metadataVersion";
/// The only legal write to [`METADATA_VERSION_KEY`], and only by
/// [`AtomicOp::SetVersionstampedValue`](super::AtomicOp::SetVersionstampedValue): ten bytes for the stamp and its
/// offset, 0. Anything else is 2000.
pub const METADATA_VERSION_OPERAND: [u8; 14] = [0; 14];

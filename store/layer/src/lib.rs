//! The keyspace: one folder per durable noun.

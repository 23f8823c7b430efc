//! The federation's directory: which cells there are, and where their keys live.

mod row;

pub use row::FederationCell;

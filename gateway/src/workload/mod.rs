//! Identities of tasks: tokens by which programs elsewhere know which task they speak with.
//!
//! Every gateway of a cell signs, with a key that all of them have from the store ([`keyring`]), and publishes the
//! public keys over HTTP (`crate::http`). An agent asks in its session, and only for attempts of its own node
//! (`crate::session`). [`token`] has the claims.

mod issuer;
mod keyring;
mod token;

pub(crate) use issuer::WorkloadIssuer;
pub use issuer::{IdentityUrl, IdentityUrlError};
pub(crate) use keyring::{Keyring, KeysAbsent, WorkloadStore, key_new};
pub(crate) use token::{IdentifiedTask, Issue, claims, sign};

//! Identities of tasks: tokens by which programs elsewhere know which task they speak with.
//!
//! Every gateway of a cell signs, with a key that all of them have from the store ([`keyring`]), and publishes the
//! public keys over HTTP ([`publish`]). An agent asks in its session, and only for attempts of its own node
//! ([`answer`]). [`token`] has the claims.

pub(crate) mod answer;
mod issuer;
mod keyring;
pub(crate) mod publish;
mod token;

pub(crate) use issuer::WorkloadIssuer;
pub use issuer::{IdentityUrl, IdentityUrlError};
pub(crate) use keyring::KeyringMirror;

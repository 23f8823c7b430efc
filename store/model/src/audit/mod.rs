//! The audit of a cell: which calls changed it, which were refused, and the chain that shows tampering.
//!
//! An entry of the journal names the calls that it is made of ([`AuditedCall`]). The controller seals them in chunks,
//! each of which has the hash of the one before, as in the log of RFC 6962. Whoever keeps one hash elsewhere can prove
//! that nothing before it has changed.

mod chunk;
mod merge;
mod request_text;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::id::RequestId;

pub use chunk::{AUDIT_BODY_BYTES_MAX, AuditHash, AuditSeal, SealBroken, audit_chunks, seal_check};
pub use merge::{RefusalBounds, RefusalCounts};

/// The longest text of a call that its caller has chosen, in bytes.
pub const AUDIT_TEXT_BYTES_MAX: usize = 200;

/// A call of the API that has changed something, or was refused. It has no content of the request, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct AuditedCall {
    /// Such as `JobService/StopJob`.
    #[n(0)]
    pub method: String,
    /// What the credential proves: `operator`, `user/ann`, `node`, or `nobody`.
    #[n(1)]
    pub by: String,
    /// In whose name the call was made; absent: it is not known.
    #[n(2)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The address that the gateway has seen; absent: there is none.
    #[n(3)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its request id; absent: it had none.
    #[n(4)]
    #[serde(skip_serializing_if = "Option::is_none", with = "request_text", default)]
    pub request: Option<RequestId>,
    /// What it was about, such as `job/ann/web`; absent: nothing by a name.
    #[n(5)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The revision of the object before and after; absent: it has none, or nothing changed.
    #[n(6)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revisions: Option<AuditRevisions>,
    /// Why nothing was done; absent: it was.
    #[n(7)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<AuditRefusal>,
    /// When it was made, wall time, milliseconds since 1970; absent: at the time of its entry. Calls without a
    /// transaction of their own are written together, some seconds later. An [`AuditRecord`] has this time.
    #[n(8)]
    #[serde(skip)]
    pub at_ms: Option<i64>,
}

/// The revisions of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct AuditRevisions {
    /// 0: it was not there.
    #[n(0)]
    pub before: u64,
    #[n(1)]
    pub after: u64,
}

/// Why a call was refused, and how often within a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct AuditRefusal {
    /// The code of gRPC, such as `PERMISSION_DENIED`.
    #[n(0)]
    pub code: String,
    /// The reason in the details, such as `ACCESS_REFUSED`; empty: it had none.
    #[n(1)]
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub reason: String,
    /// Calls that were alike, this one included.
    #[n(2)]
    pub times: u32,
}

/// A call with its time, as a line of a chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Wall time, milliseconds since 1970.
    pub at_ms: i64,
    #[serde(flatten)]
    pub call: AuditedCall,
}

//! What a gateway learns of a call while it runs, for the audit.

use std::net::IpAddr;
use std::sync::OnceLock;

use borough_model::RequestId;
use borough_model::audit::{AUDIT_TEXT_BYTES_MAX, AuditedCall};
use borough_proto::bounds::text_cut;
use borough_proto::convert::request_id_from_text;
use borough_proto::v1;

/// A call, in the extensions of its request. Each layer adds what it learns.
#[derive(Debug, Default)]
pub(crate) struct CallTrace {
    from: Option<IpAddr>,
    /// What the credential has proven, in words.
    by: OnceLock<String>,
    kind: OnceLock<CallKind>,
    about: OnceLock<CallAbout>,
    /// The method that a dry run asks about.
    dry_run: OnceLock<&'static str>,
}

/// What a call is about, as its message says. Nothing of it is checked yet.
#[derive(Clone, Debug)]
pub(crate) struct CallAbout {
    /// The name of the cell.
    pub(crate) cell: String,
    pub(crate) user: String,
    pub(crate) request: Option<RequestId>,
    /// Such as `job/ann/web`; empty: nothing by a name.
    pub(crate) object: String,
}

/// Whether a call changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// Every refusal is recorded.
    Change,
    /// Refusals of rights are recorded.
    Read,
}

impl CallAbout {
    /// Keeps what a request says of itself.
    pub(crate) fn new(cell: &str, context: Option<&v1::RequestContext>, object: String) -> Self {
        let user = context.map(|context| context.user.clone()).unwrap_or_default();
        let request = context.and_then(|context| request_id_from_text("request", &context.request_id).ok());
        Self { cell: cell.to_owned(), user, request, object }
    }
}

impl CallTrace {
    pub(crate) fn new(from: Option<IpAddr>) -> Self {
        Self { from, ..Self::default() }
    }

    /// Notes what the credential of the caller proves, such as `user/ann`.
    pub(crate) fn authenticated(&self, by: &impl std::fmt::Display) {
        self.by.get_or_init(|| by.to_string());
    }

    /// Notes whether the call changes something.
    pub(crate) fn is_of(&self, kind: CallKind) {
        self.kind.set(kind).ok();
    }

    /// Returns `None` if its message was not read.
    pub(crate) fn kind(&self) -> Option<CallKind> {
        self.kind.get().copied()
    }

    /// Notes that the call is a dry run of this method.
    pub(crate) fn is_dry_run_of(&self, method: &'static str) {
        self.dry_run.set(method).ok();
    }

    /// Notes what the call is about. A read that was let in need not.
    pub(crate) fn is_about(&self, about: CallAbout) {
        self.about.set(about).ok();
    }

    /// The name of the cell that it is for, if that is noted.
    pub(crate) fn cell(&self) -> Option<&str> {
        self.about.get().map(|about| about.cell.as_str())
    }

    /// The call as the audit has it.
    pub(crate) fn call(&self, method: &str) -> AuditedCall {
        let (by, about) = (self.by.get().map_or("nobody", String::as_str), self.about.get());
        let text = |text: &str| {
            let mut text = text.to_owned();
            text_cut(&mut text, AUDIT_TEXT_BYTES_MAX);
            Some(text).filter(|text| !text.is_empty())
        };
        let of = self.dry_run.get().map(|of| format!("{of} (dry run)"));
        AuditedCall {
            method: text(of.as_deref().unwrap_or(method)).unwrap_or_default(),
            by: by.to_owned(),
            user: about.and_then(|about| text(&about.user)),
            from: self.from.map(|from| from.to_string()),
            request: about.and_then(|about| about.request),
            object: about.and_then(|about| text(&about.object)),
            revisions: None,
            refused: None,
            at_ms: None,
        }
    }
}

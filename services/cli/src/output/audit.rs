//! Calls of the audit.

use borough_proto::v1;
use serde::Serialize;

use super::Foreign;
use super::table::Tabular;
use super::text::time;

/// A call that changed something, or was refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct AuditedCallView {
    pub(crate) at_ms: i64,
    pub(crate) by: Foreign,
    /// In whose name; empty: it is not known.
    pub(crate) user: Foreign,
    pub(crate) from: Foreign,
    pub(crate) method: Foreign,
    pub(crate) object: Foreign,
    /// Null: it has none, or nothing changed.
    pub(crate) revisions: Option<RevisionsView>,
    /// Null: it was done.
    pub(crate) refused: Option<RefusalView>,
    pub(crate) request_id: Foreign,
    /// The chunk that it is sealed in.
    pub(crate) chunk: u64,
}

/// The revisions of an object.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct RevisionsView {
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// Why a call was refused, and how many were alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RefusalView {
    pub(crate) code: Foreign,
    pub(crate) reason: Foreign,
    pub(crate) times: u32,
}

impl From<v1::AuditedCall> for AuditedCallView {
    fn from(call: v1::AuditedCall) -> Self {
        let revisions = RevisionsView { before: call.revision_before, after: call.revision_after };
        Self {
            at_ms: call.at_ms,
            by: call.by.into(),
            user: call.user.into(),
            from: call.from.into(),
            method: call.method.into(),
            object: call.object.into(),
            revisions: Some(revisions).filter(|revisions| revisions.after > 0),
            refused: call.refused.map(|refused| RefusalView {
                code: refused.code.into(),
                reason: refused.reason.into(),
                times: refused.times,
            }),
            request_id: call.request_id.into(),
            chunk: call.chunk,
        }
    }
}

impl AuditedCallView {
    fn who(&self) -> String {
        let (by, user) = (self.by.to_string(), self.user.to_string());
        let is_own = user.is_empty() || by.strip_prefix("user/") == Some(&user);
        if is_own { by } else { format!("{by} as {user}") }
    }

    fn outcome(&self) -> String {
        match (&self.refused, self.revisions) {
            (Some(refused), _) => {
                let reason = refused.reason.to_string();
                let why = if reason.is_empty() { refused.code.to_string() } else { reason };
                let times =
                    if refused.times > 1 { format!(" ({} times)", refused.times) } else { String::new() };
                format!("refused: {why}{times}")
            }
            (None, Some(RevisionsView { before: 0, after })) => format!("done: new, revision {after}"),
            (None, Some(RevisionsView { before, after })) => format!("done: revision {before} to {after}"),
            (None, None) => "done".to_owned(),
        }
    }
}

impl Tabular for AuditedCallView {
    const PLURAL: &'static str = "calls";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["TIME", "BY", "METHOD", "OBJECT", "OUTCOME"], vec!["FROM", "REQUEST", "CHUNK"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let method = self.method.to_string();
        let name = method.split_once('/').map_or(method.as_str(), |(_, name)| name).to_owned();
        let cells = vec![time(self.at_ms), self.who(), name, self.object.to_string(), self.outcome()];
        (cells, vec![self.from.to_string(), self.request_id.to_string(), self.chunk.to_string()])
    }
}

/// A chain that was checked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct AuditChainView {
    /// The numbers of the first and the last chunk; null: there is none.
    pub(crate) first: Option<u64>,
    pub(crate) last: Option<u64>,
    pub(crate) calls: u64,
    /// The hash of the last chunk: keep it elsewhere.
    pub(crate) hash: Option<String>,
}

impl Tabular for AuditChainView {
    const PLURAL: &'static str = "chains";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["FIRST", "LAST", "CALLS", "HASH"], Vec::new())
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let hash = self.hash.clone().unwrap_or_default();
        (vec![number(self.first), number(self.last), self.calls.to_string(), hash], Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> v1::AuditedCall {
        v1::AuditedCall {
            at_ms: 1_700_000_000_000,
            method: "JobService/StopJob".to_owned(),
            by: "operator".to_owned(),
            user: "ann".to_owned(),
            object: "job/ann/web".to_owned(),
            revision_before: 3,
            revision_after: 4,
            ..v1::AuditedCall::default()
        }
    }

    #[test]
    fn a_call_says_who_did_what_and_how_it_ended() {
        let (cells, _) = AuditedCallView::from(call()).cells();
        assert_eq!(cells[1..], ["operator as ann", "StopJob", "job/ann/web", "done: revision 3 to 4"]);
        let refused = v1::AuditRefusal {
            code: "PERMISSION_DENIED".to_owned(),
            reason: "ACCESS_REFUSED".to_owned(),
            times: 312,
        };
        let by = "user/ann".to_owned();
        let call = v1::AuditedCall { by, refused: Some(refused), ..call() };
        let (cells, _) = AuditedCallView::from(call).cells();
        assert_eq!((&*cells[1], &*cells[4]), ("user/ann", "refused: ACCESS_REFUSED (312 times)"));
    }

    #[test]
    fn what_a_caller_has_chosen_cannot_move_the_cursor() {
        let object = "job/\u{1b}[2J/x".to_owned();
        let (cells, _) = AuditedCallView::from(v1::AuditedCall { object, ..call() }).cells();
        assert!(!cells[3].contains('\u{1b}'), "{:?}", cells[3]);
    }
}

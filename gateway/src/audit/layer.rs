//! The layer that sees every answer, and notes the refusals among them.

use std::sync::Arc;
use std::task::{Context, Poll};

use borough_model::audit::{AUDIT_TEXT_BYTES_MAX, AuditRefusal, AuditedCall};
use borough_proto::bounds::text_cut;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use tower::{Layer, Service};

use crate::call::{CallKind, CallTrace, code_text};
use crate::cell::Cells;
use crate::connection::ConnectionMark;

/// Notes refusals in the cells that they concern. It stands in front of the layer that knows the caller.
#[derive(Clone)]
pub(crate) struct AuditLayer(Arc<Cells>);

impl AuditLayer {
    pub(crate) fn new(cells: Arc<Cells>) -> Self {
        Self(cells)
    }
}

impl<S> Layer<S> for AuditLayer {
    type Service = Audit<S>;

    fn layer(&self, inner: S) -> Audit<S> {
        Audit { inner, cells: Arc::clone(&self.0) }
    }
}

/// A service behind an [`AuditLayer`].
#[derive(Clone)]
pub(crate) struct Audit<S> {
    inner: S,
    cells: Arc<Cells>,
}

impl<S, B> Service<Request<B>> for Audit<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let from = request.extensions().get::<ConnectionMark>().map(ConnectionMark::peer);
        let trace = Arc::new(CallTrace::new(from));
        request.extensions_mut().insert(Arc::clone(&trace));
        let uri = request.uri().clone();
        let (cells, answer) = (Arc::clone(&self.cells), self.inner.call(request));
        let noted = answer.map(move |answer| {
            if let (Ok(answer), Some(method)) = (&answer, method_of(uri.path())) {
                note(&cells, &trace, method, answer.headers());
            }
            answer
        });
        noted.boxed()
    }
}

/// `SERVICE/METHOD` of a path of this API; `None` for another one, such as that of probes.
fn method_of(path: &str) -> Option<&str> {
    path.strip_prefix("/borough.v1.").filter(|rest| rest.contains('/'))
}

fn note(cells: &Cells, trace: &CallTrace, method: &str, headers: &HeaderMap) {
    // Most answers are none: the status of a call that was done follows its body.
    if let Some(status) = Status::from_header_map(headers) {
        refusal_note(cells, trace, method, &status);
    }
}

/// Notes what a caller was refused, in the cells that the call concerns.
pub(crate) fn refusal_note(cells: &Cells, trace: &CallTrace, method: &str, status: &Status) {
    if !is_refusal(status.code(), trace.kind()) {
        return;
    }
    let refused = AuditRefusal { code: code_text(status.code()), reason: reason_of(status), times: 1 };
    let call = AuditedCall { refused: Some(refused), ..trace.call(method) };
    match trace.cell() {
        Some(cell) => {
            if let Ok(cell) = cells.get(cell) {
                cell.audit.refused(call, cell.clock.wall_ms());
            }
        }
        // Its message was not read, so it may have been for any cell.
        None => cells.0.values().for_each(|cell| cell.audit.refused(call.clone(), cell.clock.wall_ms())),
    }
}

/// Returns true if the audit has answers of this code. Failures of the gateway or the store are no decisions.
fn is_refusal(code: Code, kind: Option<CallKind>) -> bool {
    match code {
        Code::PermissionDenied | Code::Unauthenticated => true,
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Aborted => kind == Some(CallKind::Change),
        // A call that was not let in is not read.
        Code::ResourceExhausted => kind != Some(CallKind::Read),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Unimplemented
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => false,
    }
}

/// The reason in the details, and the first field that is refused: never a value, which may be secret.
fn reason_of(status: &Status) -> String {
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| info.reason.clone()).unwrap_or_default();
    let field =
        details.bad_request().and_then(|bad| bad.field_violations.first()).map(|one| one.field.clone());
    let mut text = format!("{reason} {}", field.unwrap_or_default()).trim().to_owned();
    text_cut(&mut text, AUDIT_TEXT_BYTES_MAX);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_decisions_about_the_caller() {
        let change = |code| is_refusal(code, Some(CallKind::Change));
        let read = |code| is_refusal(code, Some(CallKind::Read));
        for code in [Code::PermissionDenied, Code::Unauthenticated] {
            assert!(change(code) && read(code) && is_refusal(code, None), "{code:?}");
        }
        for code in [Code::FailedPrecondition, Code::InvalidArgument, Code::Aborted] {
            assert!(change(code) && !read(code) && !is_refusal(code, None), "{code:?}");
        }
        assert!(is_refusal(Code::ResourceExhausted, None) && !read(Code::ResourceExhausted));
        for code in [Code::Ok, Code::Unavailable, Code::DeadlineExceeded, Code::Internal] {
            assert!(!change(code) && !read(code) && !is_refusal(code, None), "{code:?}");
        }
        assert_eq!(code_text(Code::PermissionDenied).to_lowercase(), "permission_denied");
        assert_eq!(code_text(Code::Aborted), "ABORTED");
    }

    #[test]
    fn a_reason_names_the_field_and_never_its_value() {
        let refused =
            borough_proto::convert::FieldRefused::new("spec.task.env", "PASSWORD=hunter2", "a name");
        let status = crate::status::status_from_field(&refused);
        let reason = reason_of(&status);
        assert!(reason.ends_with("spec.task.env") && !reason.contains("hunter2"), "{reason}");
    }

    #[test]
    fn probes_and_reflection_are_no_calls_of_the_api() {
        assert_eq!(method_of("/borough.v1.JobService/StopJob"), Some("JobService/StopJob"));
        assert_eq!(method_of("/grpc.health.v1.Health/Check"), None);
        assert_eq!(method_of("/borough.v1."), None);
    }
}

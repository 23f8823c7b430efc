//! Orders to the proxy, as they come in JSON.

use std::time::Duration;

use serde_json::Value;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// The domain of the reasons of a gateway.
const DOMAIN: &str = "borough";

/// An order.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// The gateways that it is for.
    pub(crate) gateways: Vec<usize>,
    pub(crate) kind: FaultKind,
}

#[derive(Clone, Debug)]
pub(crate) enum FaultKind {
    /// Closes all connections once.
    Cut,
    /// How connections behave from now on.
    Line(LineState),
    /// What becomes of the next calls.
    Script { method: String, count: u64, what: Scripted },
    /// Everything is as at the begin.
    Heal,
}

/// How the connections of one address behave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LineState {
    #[default]
    Open,
    /// Nobody gets in.
    Refused,
    /// Nothing passes.
    Silent,
    /// Each part passes so much later.
    Delayed(Duration),
    /// A new connection waits until a later one has passed something.
    Reordered,
}

/// What becomes of one call.
#[derive(Clone, Debug)]
pub(crate) enum Scripted {
    /// The proxy answers it.
    Answer(Box<Status>),
    /// The gateway answers, and the connection is cut before the answer passes.
    Swallow,
    /// The stream ends after so many messages.
    End { after: u64 },
}

/// A fault for the next calls of a method.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) gateways: Vec<usize>,
    pub(crate) method: String,
    pub(crate) count: u64,
    pub(crate) what: Scripted,
}

impl Script {
    /// Returns true if it is for a call of `method`, as `JobService/GetJob`, at a gateway.
    pub(crate) fn applies(&self, gateway: usize, method: &str) -> bool {
        self.gateways.contains(&gateway) && (self.method == "*" || self.method == method)
    }
}

impl Fault {
    /// Reads an order.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(crate) fn read(order: &Value) -> Result<Self, String> {
        let gateways = match &order["gateway"] {
            Value::Null => vec![0, 1],
            Value::String(all) if all == "all" => vec![0, 1],
            Value::Number(one) if one.as_u64().is_some_and(|one| one < 2) => {
                vec![usize::try_from(one.as_u64().unwrap_or_default()).unwrap_or_default()]
            }
            other => return Err(format!("`gateway` is {other}; accepted: 0, 1 or \"all\"")),
        };
        let kind = match text(order, "kind")? {
            "cut" => FaultKind::Cut,
            "refuse" => FaultKind::Line(LineState::Refused),
            "silent" => FaultKind::Line(LineState::Silent),
            "delay" => FaultKind::Line(LineState::Delayed(Duration::from_millis(number(order, "for")?))),
            "reorder" => FaultKind::Line(LineState::Reordered),
            "heal" => FaultKind::Heal,
            "answer" => script(order, Scripted::Answer(Box::new(status(order)?)))?,
            "swallow" => script(order, Scripted::Swallow)?,
            "end" => script(order, Scripted::End { after: number(order, "after")? })?,
            other => return Err(format!("`kind` is {other:?}")),
        };
        Ok(Self { gateways, kind })
    }
}

fn script(order: &Value, what: Scripted) -> Result<FaultKind, String> {
    let count = number(order, "count")?;
    if count == 0 {
        return Err("`count` is 0; accepted: 1 or more".to_owned());
    }
    Ok(FaultKind::Script { method: text(order, "method")?.to_owned(), count, what })
}

fn status(order: &Value) -> Result<Status, String> {
    let code = code_of(text(order, "code")?)?;
    let message = order["message"].as_str().unwrap_or("the proxy of a test answers");
    let mut details = ErrorDetails::new();
    if let Some(reason) = order["reason"].as_str() {
        let facts: [(String, String); 0] = [];
        details.set_error_info(reason, DOMAIN, facts);
    }
    if let Some(retry) = order["retry"].as_u64() {
        details.set_retry_info(Some(Duration::from_millis(retry)));
    }
    Ok(Status::with_error_details(code, message, details))
}

fn code_of(name: &str) -> Result<Code, String> {
    // The names of the codes, as gRPC writes them, are those of the library without underscores.
    let plain = name.replace('_', "");
    let codes = (1..=16).map(Code::from_i32);
    let is = |code: &Code| format!("{code:?}").eq_ignore_ascii_case(&plain);
    codes
        .into_iter()
        .find(is)
        .ok_or_else(|| format!("`code` is {name:?}; accepted: a code such as UNAVAILABLE"))
}

fn text<'a>(order: &'a Value, field: &str) -> Result<&'a str, String> {
    order[field].as_str().ok_or_else(|| format!("`{field}` is {}; accepted: a text", order[field]))
}

fn number(order: &Value, field: &str) -> Result<u64, String> {
    order[field].as_u64().ok_or_else(|| format!("`{field}` is {}; accepted: a whole number", order[field]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_order_is_read_whole_or_refused_with_its_field() {
        let order = json!({"kind": "answer", "gateway": 1, "method": "JobService/GetJob", "count": 2,
            "code": "RESOURCE_EXHAUSTED", "reason": "OVERLOADED", "retry": 250});
        let fault = Fault::read(&order).unwrap();
        assert_eq!(fault.gateways, [1]);
        let FaultKind::Script { method, count, what: Scripted::Answer(status) } = fault.kind else {
            panic!("{fault:?}")
        };
        assert_eq!(
            (method.as_str(), count, status.code()),
            ("JobService/GetJob", 2, Code::ResourceExhausted)
        );
        let retry = status.get_details_retry_info().and_then(|info| info.retry_delay);
        assert_eq!(retry, Some(Duration::from_millis(250)));
        for (order, field) in [
            (json!({"kind": "melt"}), "`kind`"),
            (json!({"kind": "cut", "gateway": 2}), "`gateway`"),
            (json!({"kind": "delay"}), "`for`"),
            (json!({"kind": "swallow", "method": "*", "count": 0}), "`count`"),
            (json!({"kind": "answer", "method": "*", "count": 1, "code": "OK_NOT"}), "`code`"),
        ] {
            assert!(Fault::read(&order).unwrap_err().starts_with(field), "{order}");
        }
    }
}

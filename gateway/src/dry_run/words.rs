//! What a request asks for, for changes that no event tells of.

use borough_model::job::file::duration_text;
use borough_proto::convert::capacity_from_message;
use borough_proto::signal::signal_name;
use borough_proto::v1;
use prost::Message;

use crate::cell::Ask as _;

/// What the request of a method asks for. `method` is such as `TaskService/SignalTask`.
///
/// The request was accepted before, so a part that cannot be read is left out.
pub(super) fn asked_text(method: &str, request: &[u8]) -> String {
    let text = match method {
        v1::SignalTaskRequest::METHOD => read(request, |asked: v1::SignalTaskRequest| {
            format!("its process gets {}", signal_name(asked.signal))
        }),
        v1::SetQuotaRequest::METHOD => {
            read(request, |asked: v1::SetQuotaRequest| quota_text(asked.limit.as_ref()))
        }
        v1::SetGrantRequest::METHOD => {
            read(request, |asked: v1::SetGrantRequest| grant_text(&asked.grant.unwrap_or_default()))
        }
        v1::RotateIdentityKeysRequest::METHOD => read(request, |asked| keys_text(&asked)),
        v1::CreateJoinTokenRequest::METHOD => read(request, |asked: v1::CreateJoinTokenRequest| {
            format!("a join token for node {}, for {}", asked.name, duration_text(asked.lasts_ms))
        }),
        v1::RevokeJoinTokenRequest::METHOD => read(request, |asked: v1::RevokeJoinTokenRequest| {
            let identity = if asked.identity { ", and its identity ends" } else { "" };
            format!("the join token of node {} ends{identity}", asked.name)
        }),
        _ => None,
    };
    text.unwrap_or_else(|| "as the request says".to_owned())
}

fn read<M: Message + Default>(request: &[u8], text: impl FnOnce(M) -> String) -> Option<String> {
    M::decode(request).ok().map(text)
}

/// The amounts and conditions of a limit.
fn quota_text(limit: Option<&v1::QuotaLimit>) -> String {
    let Some(limit) = limit else { return "no limit any more".to_owned() };
    let mut parts: Vec<String> = limit.tasks_max.map(|tasks| format!("tasks {tasks}")).into_iter().collect();
    let amounts = capacity_from_message(limit.resources.as_ref()).unwrap_or_default();
    if !amounts.is_zero() {
        parts.push(amounts.to_string());
    }
    let mut text = if parts.is_empty() {
        "no amounts are limited".to_owned()
    } else {
        format!("limited to {}", parts.join(", "))
    };
    if !limit.parent.is_empty() {
        text.push_str(&format!("; charged to {} too", limit.parent));
    }
    if limit.borrow.is_some() {
        text.push_str("; may borrow");
    }
    if limit.from_ms.is_some() || limit.until_ms.is_some() {
        text.push_str("; within its window of time");
    }
    text
}

/// The roles and rights of a grant.
fn grant_text(grant: &v1::Grant) -> String {
    let v1::Grant { roles, allow, deny, .. } = grant;
    let lists = [("roles", roles), ("rights", allow), ("denied", deny)];
    let parts = lists.into_iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> = parts.map(|(what, names)| format!("{what}: {}", names.join(", "))).collect();
    if parts.is_empty() { "no grant any more".to_owned() } else { parts.join("; ") }
}

fn keys_text(asked: &v1::RotateIdentityKeysRequest) -> String {
    let now = "a new key signs the identities of tasks at once";
    if asked.withdraw {
        return format!("{now}, and all keys before it are withdrawn");
    }
    if asked.ahead_ms == 0 {
        return now.to_owned();
    }
    let ahead = duration_text(asked.ahead_ms);
    format!("a new key is published, and signs the identities of tasks in {ahead}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_without_events_are_told_by_their_requests() {
        let signal = v1::SignalTaskRequest { signal: 1, ..Default::default() };
        assert_eq!(
            asked_text(v1::SignalTaskRequest::METHOD, &signal.encode_to_vec()),
            "its process gets SIGHUP"
        );
        let keys = v1::RotateIdentityKeysRequest { ahead_ms: 3_600_000, ..Default::default() };
        let text = asked_text(v1::RotateIdentityKeysRequest::METHOD, &keys.encode_to_vec());
        assert_eq!(text, "a new key is published, and signs the identities of tasks in 1h");
        let none = v1::SetQuotaRequest::default();
        assert_eq!(asked_text(v1::SetQuotaRequest::METHOD, &none.encode_to_vec()), "no limit any more");
        let resources = v1::Resources { cpu_millis: 4_000, ..Default::default() };
        let limit = v1::QuotaLimit {
            resources: Some(resources),
            tasks_max: Some(3),
            parent: "group/shop".to_owned(),
            ..Default::default()
        };
        let text = quota_text(Some(&limit));
        assert_eq!(text, "limited to tasks 3, cpu 4; charged to group/shop too");
        let grant = v1::Grant { roles: vec!["runner".to_owned()], ..Default::default() };
        let grant = v1::SetGrantRequest { grant: Some(grant), ..Default::default() };
        assert_eq!(asked_text(v1::SetGrantRequest::METHOD, &grant.encode_to_vec()), "roles: runner");
        assert_eq!(asked_text("JobService/StopJob", b"\xff"), "as the request says");
    }
}

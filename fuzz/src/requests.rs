//! Requests as a gateway decodes them. The first byte chooses the message.
//!
//! Property: no bytes make the decoder, the conversion or the checks panic. A spec that is accepted is the same after
//! its conversion to a message and back.

use borough_proto::convert::{job_spec_from_message, job_spec_to_message, taints_from_message};
use borough_proto::v1;
use prost::Message;

/// One request.
pub fn run(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind % 6 {
        0 => submitted(bytes),
        1 => drop(v1::AgentMessage::decode(bytes)),
        2 => drop(v1::SetGrantRequest::decode(bytes)),
        3 => drop(v1::SetQuotaRequest::decode(bytes)),
        4 => drop(v1::ExecRequest::decode(bytes)),
        _ => {
            if let Ok(request) = v1::TaintNodeRequest::decode(bytes) {
                drop(taints_from_message(&request.taints, 0));
            }
        }
    }
}

fn submitted(bytes: &[u8]) {
    let Ok(request) = v1::SubmitJobRequest::decode(bytes) else { return };
    let Ok(spec) = job_spec_from_message(&request.spec.unwrap_or_default()) else { return };
    drop(spec.validate());
    let again = job_spec_from_message(&job_spec_to_message(&spec));
    assert_eq!(again.as_ref(), Ok(&spec));
}

/// A request of each kind.
pub fn corpus() -> Vec<Vec<u8>> {
    let context = Some(v1::RequestContext {
        request_id: "00000000000000000000000000000001".to_owned(),
        user: "ann".to_owned(),
    });
    let task = v1::TaskSpec { command: vec!["sleep".to_owned(), "1".to_owned()], ..v1::TaskSpec::default() };
    let spec = v1::JobSpec {
        user: "ann".to_owned(),
        name: "web".to_owned(),
        count: 2,
        priority: 200,
        task: Some(task),
        ..v1::JobSpec::default()
    };
    let grant = v1::Grant {
        subject: "group/web".to_owned(),
        roles: vec!["runner".to_owned()],
        deny: vec!["read".to_owned()],
        ..v1::Grant::default()
    };
    let limit = v1::QuotaLimit { tasks_max: Some(3), ..v1::QuotaLimit::default() };
    let taint = v1::Taint { key: "disk".to_owned(), value: "slow".to_owned(), ..v1::Taint::default() };
    let submit = v1::SubmitJobRequest { context: context.clone(), spec: Some(spec), ..Default::default() };
    let set_grant =
        v1::SetGrantRequest { context: context.clone(), grant: Some(grant), ..Default::default() };
    let set_quota =
        v1::SetQuotaRequest { context: context.clone(), limit: Some(limit), ..Default::default() };
    let taint = v1::TaintNodeRequest { context, taints: vec![taint], ..Default::default() };
    let of = |kind: u8, message: Vec<u8>| [vec![kind], message].concat();
    vec![
        of(0, submit.encode_to_vec()),
        of(1, v1::AgentMessage::default().encode_to_vec()),
        of(2, set_grant.encode_to_vec()),
        of(3, set_quota.encode_to_vec()),
        of(4, v1::ExecRequest::default().encode_to_vec()),
        of(5, taint.encode_to_vec()),
    ]
}

//! The codes of failures, and what they say.

use super::*;

#[test]
fn a_wait_tries_no_longer_than_it_lasts() {
    let error = std::sync::Arc::new(ClientError::NoGateway);
    let absence = GatewayAbsence { error, gives_up_in: Some(Duration::from_secs(57)) };
    let of = |left: Option<u64>| absence_text_within(&absence, left.map(Duration::from_secs));
    assert!(of(None).ends_with("; trying again for 57s") && absence_text(&absence) == of(None));
    assert!(of(Some(3)).ends_with("; trying again for 3s"));
    assert!(of(Some(600)).ends_with("; trying again for 57s"));
    let patient = GatewayAbsence { gives_up_in: None, ..absence.clone() };
    let text = absence_text_within(&patient, Some(Duration::from_secs(3)));
    assert!(text.ends_with("; trying again for 3s"), "{text}");
}

#[test]
fn the_numbers_are_those_of_the_table() {
    let codes = [
        (Code::Done, 0),
        (Code::Changed, 1),
        (Code::WouldBeRefused, 2),
        (Code::Failed, 1),
        (Code::Usage, 2),
        (Code::NotFound, 3),
        (Code::Refused, 4),
        (Code::Unreachable, 5),
        (Code::NotAllowed, 6),
        (Code::NotDone, 7),
        (Code::StoreFailed, 74),
        (Code::Interrupted, 130),
        (Code::Command(17), 17),
    ];
    for (code, number) in codes {
        assert_eq!(code.number(), number, "{code:?}");
    }
}

#[test]
fn a_plan_that_cannot_be_made_is_told_apart_from_a_job_that_would_be_refused() {
    let plan = |code| FailureNumbers::Plan.number(code);
    assert_eq!([Code::Usage, Code::Refused].map(plan), [2, 2]);
    assert_eq!([Code::Unreachable, Code::NotAllowed, Code::Failed].map(plan), [VERB_FAILED; 3]);
    assert_eq!(FailureNumbers::One.number(Code::NotFound), VERB_FAILED);
    assert_eq!(FailureNumbers::One.number(Code::Usage), 2, "a wrong command line");
    assert_eq!(FailureNumbers::Table.number(Code::NotFound), 3);
}

#[test]
fn an_option_is_named_instead_of_the_field_that_it_sets() {
    let options = [("settings.queues", "--queue"), ("page.page", "--page")];
    for (line, named) in [
        ("page.page: \"zzz\"; accepted: x", "--page: \"zzz\"; accepted: x"),
        ("settings.queues[0].path: \"A B\": c", "--queue: \"A B\": c"),
        ("settings.queueing: \"x\"", "settings.queueing: \"x\""),
        ("page.page", "page.page"),
    ] {
        assert_eq!(Failure::new(Code::Usage, line).with_fields_as(&options).message, named);
    }
}

#[test]
fn what_a_message_says_is_not_said_again() {
    let field = |description: &str| borough_client::FieldViolation {
        field: "spec.profile".to_owned(),
        description: description.to_owned(),
    };
    let refusal = GatewayRefusal {
        code: tonic::Code::InvalidArgument,
        message: "spec.profile: \"besst\"; accepted: best-fit".to_owned(),
        reason: String::new(),
        metadata: Default::default(),
        fields: vec![field("spec.profile: \"besst\"; accepted: best-fit"), field("is new")],
        preconditions: Vec::new(),
        retry_after: None,
    };
    assert_eq!(refused(&refusal).details, ["spec.profile: is new"]);
}

#[test]
fn a_refusal_that_a_command_explains_has_it() {
    let of = |reason: &str, message: &str| {
        let refusal = GatewayRefusal {
            code: tonic::Code::FailedPrecondition,
            message: message.to_owned(),
            reason: reason.to_owned(),
            metadata: Default::default(),
            fields: Vec::new(),
            preconditions: Vec::new(),
            retry_after: None,
        };
        refused(&refusal).hint().map(str::to_owned)
    };
    assert_eq!(of("QUOTA_EXCEEDED", "the quota of ann").as_deref(), Some("borough quota status"));
    assert_eq!(of("REFUSED", "task ann/web/0: its job does not run").as_deref(), Some(RUN_AGAIN));
    assert_eq!(of("REFUSED", "no"), None);
}

#[test]
fn an_empty_token_of_the_dev_cell_is_written_anew() {
    let of = |token: &str| {
        let error = ClientError::TokenText { token: token.to_owned(), problem: "is empty" };
        of_client(&error).hint().unwrap_or_default().to_owned()
    };
    assert!(of("the file t (of the dev cell)").starts_with("remove the file, and start `borough dev` again"));
    assert_eq!(of("the file t (--token-file)"), TOKEN_HINT);
}

#[test]
fn a_token_file_that_is_none_is_named_in_a_sentence() {
    let of = |source: std::io::Error| {
        of_client(&ClientError::TokenFile { path: "bad".into(), source }).message().to_owned()
    };
    assert_eq!(of(std::io::Error::other("is no regular file")), "the token file \"bad\" is no regular file");
    let missing = of(std::io::ErrorKind::NotFound.into());
    assert!(missing.starts_with("cannot read the token file \"bad\": "), "{missing}");
}

#[test]
fn an_unavailable_part_of_a_gateway_is_not_the_gateway() {
    let of = |status: tonic::Status| {
        let source = Some(Box::new(status));
        let gateways = vec!["127.0.0.1:7400".to_owned()];
        Failure::from(ClientError::Unreachable { gateways, attempts: 3, source })
    };
    let answered = of(tonic::Status::unavailable("the agent of node n1 has no session"));
    assert_eq!(answered.message, "the agent of node n1 has no session");
    assert!(answered.hint.is_none());
    let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    let broken = of(tonic::Status::from_error(Box::new(refused)));
    assert!(broken.message.starts_with("no gateway answers at 127.0.0.1:7400"), "{}", broken.message);
    assert!(broken.hint.is_some());
}

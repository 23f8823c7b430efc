//! What a removal says of labels and taints that were not there. It is done all the same: a script may repeat it.

use borough_client::Client;
use borough_proto::v1::{Taint, TaintEffect, TaintMatch};

use crate::exit::Failure;
use crate::output::{Foreign, Printer, word};

/// Says which keys are no labels of the object.
pub(super) fn labels_absent<'k>(
    object: &str,
    wanted: &[String],
    there: impl IntoIterator<Item = &'k String>,
    printer: &Printer,
) {
    let there: Vec<&str> = there.into_iter().map(String::as_str).collect();
    let absent: Vec<&str> =
        wanted.iter().map(String::as_str).filter(|wanted| !there.contains(wanted)).collect();
    if let Some(text) = absent_text(object, "label", &absent, &there) {
        printer.remark(&text);
    }
}

/// Says which of the taints to remove the node does not have.
pub(super) async fn taints_absent(
    client: &Client,
    node: &str,
    wanted: &[TaintMatch],
    printer: &Printer,
) -> Result<(), Failure> {
    let there = client.node_get(node).await?.taints;
    let absent = wanted.iter().filter(|wanted| !there.iter().any(|taint| is_met(wanted, taint)));
    let absent: Vec<String> = absent.map(match_text).collect();
    let there: Vec<String> =
        there.iter().map(|taint| taint_text(&taint.key, &taint.value, taint.effect())).collect();
    let (absent, there): (Vec<&str>, Vec<&str>) =
        (absent.iter().map(String::as_str).collect(), there.iter().map(String::as_str).collect());
    if let Some(text) = absent_text(node, "taint", &absent, &there) {
        printer.remark(&text);
    }
    Ok(())
}

fn is_met(wanted: &TaintMatch, taint: &Taint) -> bool {
    wanted.key == taint.key
        && wanted.value.as_ref().is_none_or(|value| *value == taint.value)
        && (wanted.effect() == TaintEffect::Unspecified || wanted.effect() == taint.effect())
}

fn match_text(wanted: &TaintMatch) -> String {
    taint_text(&wanted.key, wanted.value.as_deref().unwrap_or_default(), wanted.effect())
}

fn taint_text(key: &str, value: &str, effect: TaintEffect) -> String {
    let value = if value.is_empty() { String::new() } else { format!("={value}") };
    let effect = match effect {
        TaintEffect::Unspecified => String::new(),
        effect => format!(":{}", word(effect.as_str_name(), "TAINT_EFFECT_")),
    };
    format!("{key}{value}{effect}")
}

/// What was not there, and what is; `None` if all was there.
fn absent_text(object: &str, what: &str, absent: &[&str], there: &[&str]) -> Option<String> {
    if absent.is_empty() {
        return None;
    }
    let absent: Vec<String> = absent.iter().map(|absent| format!("{absent:?}")).collect();
    let there: Vec<String> = there.iter().map(|there| Foreign::from(*there).to_string()).collect();
    let known = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    Some(format!("{object} had no {what} {}; its {what}s: {known}", absent.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_there_is_told_with_what_is() {
        assert_eq!(absent_text("n1", "label", &[], &["tier"]), None);
        let text = absent_text("n1", "label", &["k"], &["tier", "a\u{1b}"]).unwrap();
        assert_eq!(text, "n1 had no label \"k\"; its labels: tier, a\\u{1b}");
        let text = absent_text("n1", "taint", &["a", "b"], &[]).unwrap();
        assert_eq!(text, "n1 had no taint \"a\", \"b\"; its taints: none");
    }

    #[test]
    fn a_taint_is_there_if_all_that_is_named_fits() {
        let taint = Taint {
            key: "k".to_owned(),
            value: "v".to_owned(),
            effect: TaintEffect::NoSchedule.into(),
            added_ms: 0,
        };
        let wanted = |key: &str, value: Option<&str>, effect: TaintEffect| TaintMatch {
            key: key.to_owned(),
            value: value.map(str::to_owned),
            effect: effect.into(),
        };
        for (wanted, met, text) in [
            (wanted("k", None, TaintEffect::Unspecified), true, "k"),
            (wanted("k", Some("v"), TaintEffect::NoSchedule), true, "k=v:no_schedule"),
            (wanted("k", Some("w"), TaintEffect::Unspecified), false, "k=w"),
            (wanted("k", None, TaintEffect::NoExecute), false, "k:no_execute"),
            (wanted("j", None, TaintEffect::Unspecified), false, "j"),
        ] {
            assert_eq!((is_met(&wanted, &taint), match_text(&wanted).as_str()), (met, text));
        }
    }
}

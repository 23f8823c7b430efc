//! Taints on the command line: `dedicated=db:no_schedule`.

use borough_model::node::TaintEffect;
use borough_proto::v1;

use super::label::parts_check;

const ACCEPTED: &str = "accepted: no_schedule, prefer_no_schedule or no_execute";

/// An effect as it is written here, or as Kubernetes writes it.
fn effect(text: &str) -> Result<v1::TaintEffect, String> {
    let plain = |text: &str| text.replace('_', "").to_ascii_lowercase();
    let known = TaintEffect::NAMES.into_iter().find(|(name, _)| plain(name) == plain(text));
    match known {
        Some((_, TaintEffect::NoSchedule)) => Ok(v1::TaintEffect::NoSchedule),
        Some((_, TaintEffect::PreferNoSchedule)) => Ok(v1::TaintEffect::PreferNoSchedule),
        Some((_, TaintEffect::NoExecute)) => Ok(v1::TaintEffect::NoExecute),
        None => Err(format!("has the effect {text:?}; {ACCEPTED}")),
    }
}

/// The key, the value if there is one, and the text after the colon.
fn parts(text: &str) -> Result<(String, Option<String>, Option<&str>), String> {
    let (taint, effect) = match text.rsplit_once(':') {
        Some((taint, effect)) => (taint, Some(effect)),
        None => (text, None),
    };
    let (key, value) = match taint.split_once('=') {
        Some((key, value)) => (key, Some(value.to_owned())),
        None => (taint, None),
    };
    if key.is_empty() {
        return Err("has no key; accepted: KEY[=VALUE]:EFFECT".to_owned());
    }
    parts_check(key, value.as_deref().unwrap_or_default())?;
    Ok((key.to_owned(), value, effect))
}

/// A taint to set.
pub(super) fn taint(text: &str) -> Result<v1::Taint, String> {
    let (key, value, of_effect) = parts(text)?;
    let of_effect = of_effect.ok_or_else(|| format!("has no effect behind a colon; {ACCEPTED}"))?;
    let effect = effect(of_effect)?.into();
    Ok(v1::Taint { key, value: value.unwrap_or_default(), effect, added_ms: 0 })
}

/// What an `untaint` removes.
pub(crate) fn taint_match(text: &str) -> Result<v1::TaintMatch, String> {
    let (key, value, of_effect) = parts(text)?;
    let effect = of_effect.map(effect).transpose()?.unwrap_or(v1::TaintEffect::Unspecified);
    Ok(v1::TaintMatch { key, value, effect: effect.into() })
}

/// The first word of `node taint`. No name has a colon.
pub(super) fn node_or_taint(
    text: &str,
) -> Result<super::NameOrChange<String, borough_proto::v1::Taint>, String> {
    if text.contains(':') {
        return taint(text).map(super::NameOrChange::Change);
    }
    Ok(super::NameOrChange::Name(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_are_read_in_every_form() {
        let read = taint("dedicated=db:no_execute").unwrap();
        assert_eq!((read.key.as_str(), read.value.as_str()), ("dedicated", "db"));
        assert_eq!(read.effect(), v1::TaintEffect::NoExecute);
        assert_eq!(taint("old:PreferNoSchedule").unwrap().effect(), v1::TaintEffect::PreferNoSchedule);
        let gone = taint_match("a").unwrap();
        assert_eq!((gone.value.as_deref(), gone.effect()), (None, v1::TaintEffect::Unspecified));
        let gone = taint_match("a=:NoSchedule").unwrap();
        assert_eq!((gone.value.as_deref(), gone.effect()), (Some(""), v1::TaintEffect::NoSchedule));
    }

    #[test]
    fn what_is_no_taint_says_what_would_be() {
        for (text, problem) in [
            ("a", "no effect"),
            ("a=b", "no effect"),
            ("a:never", "has the effect \"never\""),
            (":no_schedule", "no key"),
            ("=b:no_schedule", "no key"),
            ("a b:no_schedule", "has the key \"a b\""),
            ("a=\u{202e}:no_schedule", "has the value \"\\u{202e}\""),
        ] {
            let error = taint(text).unwrap_err();
            assert!(error.contains(problem) && error.contains("accepted: "), "{text}: {error}");
        }
        assert!(taint_match("a:never").is_err() && taint_match("").is_err());
    }
}

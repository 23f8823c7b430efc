//! What a change would do, if it were made.

use borough_proto::v1::DryRunResponse;
use serde::Serialize;

use super::Foreign;
use super::text::tally;

/// The answer of a dry run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct DryRunView {
    /// Whether anything would change.
    changes: bool,
    /// What would happen to each object.
    effects: Vec<EffectView>,
    /// How many further objects are left out.
    effects_left_out: u32,
}

/// What would happen to one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct EffectView {
    subject: Foreign,
    text: Foreign,
}

impl From<&DryRunResponse> for DryRunView {
    fn from(answer: &DryRunResponse) -> Self {
        let effects = answer.effects.iter().map(|effect| EffectView {
            subject: effect.subject.as_str().into(),
            text: effect.text.as_str().into(),
        });
        Self {
            changes: answer.changes,
            effects: effects.collect(),
            effects_left_out: answer.effects_left_out,
        }
    }
}

impl DryRunView {
    pub(crate) fn text(&self) -> String {
        let begin = "dry run: the cell takes the change, and nothing was changed";
        if !self.changes {
            return format!("{begin}; there is nothing to change");
        }
        if self.effects.is_empty() {
            return begin.to_owned();
        }
        let mut text = format!("{begin}; it would do this:");
        for EffectView { subject, text: what } in &self.effects {
            text.push_str(&format!("\n  {subject}: {what}"));
        }
        if self.effects_left_out > 0 {
            let left = usize::try_from(self.effects_left_out).unwrap_or(usize::MAX);
            text.push_str(&format!("\n  and more: {}", tally(left, "object")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use borough_proto::v1::DryRunEffect;

    use super::*;

    #[test]
    fn a_dry_run_says_what_would_happen() {
        let of = |answer: &DryRunResponse| DryRunView::from(answer).text();
        let mut answer = DryRunResponse::default();
        assert!(of(&answer).ends_with("nothing was changed; there is nothing to change"));
        answer.changes = true;
        assert!(of(&answer).ends_with("and nothing was changed"));
        answer.effects =
            vec![DryRunEffect { subject: "job ann/web".to_owned(), text: "stopping".to_owned() }];
        answer.effects_left_out = 2;
        assert!(
            of(&answer).ends_with("; it would do this:\n  job ann/web: stopping\n  and more: 2 objects"),
            "{}",
            of(&answer)
        );
    }
}

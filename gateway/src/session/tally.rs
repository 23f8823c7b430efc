//! Writes one log line for any number of the same events. An agent decides how much it reports, but must not decide how
//! much is logged of it.

/// The number of events, and the first one.
#[derive(Debug, Default)]
pub struct FirstAndCount {
    count: usize,
    first: String,
}

impl FirstAndCount {
    /// Counts one more. `text` is called for the first only.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if self.count == 0 {
            self.first = text();
        }
        self.count = self.count.saturating_add(1);
    }

    /// The number of events and the first of them, if any.
    pub fn first_and_count(&self) -> Option<(usize, &str)> {
        (self.count > 0).then_some((self.count, &*self.first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_logged_and_the_others_are_counted() {
        let mut tally = FirstAndCount::default();
        assert_eq!(tally.first_and_count(), None);
        for number in 1..=1_000 {
            tally.note(|| format!("number {number}"));
        }
        assert_eq!(tally.first_and_count(), Some((1_000, "number 1")));
    }
}

//! One line of a log for any number of the same: an agent decides how much it reports, and not how much is logged of
//! it.

/// How many there were, and the first.
#[derive(Debug, Default)]
pub struct FirstAndCount {
    count: usize,
    first: String,
}

impl FirstAndCount {
    /// Counts one more; `text` is called for the first.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if self.count == 0 {
            self.first = text();
        }
        self.count = self.count.saturating_add(1);
    }

    /// How many there were and the first of them, where there was one.
    pub fn told(&self) -> Option<(usize, &str)> {
        (self.count > 0).then_some((self.count, &*self.first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_and_the_others_are_counted() {
        let mut tally = FirstAndCount::default();
        assert_eq!(tally.told(), None);
        for number in 1..=1_000 {
            tally.note(|| format!("number {number}"));
        }
        assert_eq!(tally.told(), Some((1_000, "number 1")));
    }
}

//! How long resolvers may keep answers: a setting of each cell.

/// How long resolvers may keep an answer, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerTimes {
    /// One with records.
    pub ttl_s: u32,
    /// That a name has no records, or does not exist.
    pub negative_ttl_s: u32,
}

impl Default for AnswerTimes {
    fn default() -> Self {
        Self { ttl_s: 1, negative_ttl_s: 1 }
    }
}

impl AnswerTimes {
    /// The lesser of each time.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        Self {
            ttl_s: self.ttl_s.min(other.ttl_s),
            negative_ttl_s: self.negative_ttl_s.min(other.negative_ttl_s),
        }
    }
}

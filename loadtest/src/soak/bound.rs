//! Decides whether a value grows without bound: the verdict of a soak, as a function of its samples.

/// Growth without meaning, besides a share of the value.
const SLACK_BYTES: u64 = 32 << 20;
/// Fewer samples give no verdict.
const SAMPLES_MIN: usize = 30;

/// The maxima of a value in the middle third of a run and in the last one. The first third fills caches and the
/// population. For a value that swings (a log that is cut at every checkpoint), peaks are comparable and single samples
/// are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peaks {
    pub middle: u64,
    pub last: u64,
}

impl Peaks {
    /// From the samples in their order; `None` if they are too few.
    pub(crate) fn of(samples: &[u64]) -> Option<Self> {
        if samples.len() < SAMPLES_MIN {
            return None;
        }
        let third = samples.len() / 3;
        let most = |samples: &[u64]| samples.iter().copied().max().unwrap_or(0);
        let (middle, last) = samples.get(third..)?.split_at_checked(third)?;
        Some(Self { middle: most(middle), last: most(last) })
    }

    /// Returns true if the last third exceeds the middle one by more than a fifth and the slack.
    pub(crate) fn grows(self) -> bool {
        self.last.saturating_sub(self.middle) > self.middle / 5 + SLACK_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn growth_is_distinguished_from_swinging() {
        let flat: Vec<u64> = (0..90).map(|at| 100 * MIB + at % 7 * MIB).collect();
        assert!(!Peaks::of(&flat).unwrap().grows());
        let saw: Vec<u64> = (0..90).map(|at| 50 * MIB + at % 13 * 20 * MIB).collect();
        assert!(!Peaks::of(&saw).unwrap().grows());
        let filling: Vec<u64> = (0..90).map(|at| 100 * MIB + at.min(29) * 10 * MIB).collect();
        assert!(!Peaks::of(&filling).unwrap().grows(), "what the first third fills");
        let leak: Vec<u64> = (0..90).map(|at| 100 * MIB + at * 3 * MIB).collect();
        assert!(Peaks::of(&leak).unwrap().grows());
        assert_eq!(Peaks::of(&[1; 10]), None);
    }
}

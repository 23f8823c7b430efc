//! Arguments of `borough top`.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::Args;

/// The shortest and the longest time between two questions to the gateway.
const INTERVALS_MS: RangeInclusive<u64> = 500..=60_000;

/// Arguments of `borough top`.
#[derive(Clone, Debug, Args)]
pub struct TopArguments {
    /// Ask the gateway again after this time, 500ms to 60s
    #[arg(long, default_value = "2s", value_parser = interval, value_name = "TIME")]
    pub interval: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    super::number::time_within(text, &INTERVALS_MS, "500ms to 60s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_bounded_and_a_refusal_says_what_is_accepted() {
        for (text, ms) in [("500ms", 500), ("2s", 2_000), ("60s", 60_000), ("1m", 60_000)] {
            assert_eq!(interval(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["0s", "499ms", "61s", "2", "", "soon", "-1s"] {
            let refused = interval(bad).unwrap_err();
            assert!(refused.ends_with("accepted: 500ms to 60s"), "{bad}: {refused}");
            assert_eq!(refused.matches("accepted").count(), 1, "{bad}: {refused}");
        }
    }
}

//! Arguments of `borough top`.

use std::time::Duration;

use clap::Args;

/// The shortest and the longest time between two questions to the gateway.
const INTERVAL_MIN: Duration = Duration::from_millis(500);
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Arguments of `borough top`.
#[derive(Clone, Debug, Args)]
pub struct TopArguments {
    /// Ask the gateway again after this time, 500ms to 60s
    #[arg(long, default_value = "2s", value_parser = interval, value_name = "TIME")]
    pub interval: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    let accepted = "accepted: 500ms to 60s";
    let interval = super::job::duration(text).map_err(|error| format!("{error}; {accepted}"))?;
    if (INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) { Ok(interval) } else { Err(accepted.to_owned()) }
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
            assert!(refused.contains("accepted: 500ms to 60s"), "{bad}: {refused}");
        }
    }
}

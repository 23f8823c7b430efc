//! Numbers and times on the command line. A refusal has one range, whatever is wrong with the text.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use borough_model::job::file::duration_ms;

/// The longest time of any option: a year.
const TIME_MS_MAX: u64 = 365 * 86_400_000;

/// Reads whole numbers within `bounds`.
pub(super) fn whole<T>(
    bounds: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        // `+1` reads as one more, which no option means.
        let plain = Some(text).filter(|text| !text.starts_with('+'));
        let number = plain.and_then(|text| text.parse::<T>().ok()).filter(|number| bounds.contains(number));
        number.ok_or_else(|| format!("accepted: a whole number, {} to {}", bounds.start(), bounds.end()))
    }
}

/// A time within bounds, which `accepted` says for people.
pub(super) fn time_within(
    text: &str,
    bounds_ms: &RangeInclusive<u64>,
    accepted: &str,
) -> Result<Duration, String> {
    match duration_ms(text) {
        Ok(ms) if bounds_ms.contains(&ms) => Ok(Duration::from_millis(ms)),
        Ok(_) => Err(format!("accepted: {accepted}")),
        Err(problem) => {
            let what = problem.split("; accepted: ").next().unwrap_or_default();
            Err(format!("{what}; accepted: {accepted}"))
        }
    }
}

/// How long a verb waits at most. It cannot be no time at all: `--detach` does not wait.
pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    time_within(text, &(1..=TIME_MS_MAX), "1ms to 365d, such as 30s or 5m")
}

/// A time after which something happens; 0s: at once.
pub(super) fn delay(text: &str) -> Result<Duration, String> {
    time_within(text, &(0..=TIME_MS_MAX), "0s to 365d, such as 30s or 5m")
}

/// A time before now, not a date.
pub(super) fn ago(text: &str) -> Result<Duration, String> {
    let is_date = text.contains(':') || text.matches('-').count() == 2;
    delay(text).map_err(|refused| {
        if is_date {
            "is no length of time; accepted: how long ago, such as 30s, 5m or 2h".to_owned()
        } else {
            refused
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_number_has_its_own_bounds() {
        let limit = whole(1..=9_u32);
        assert_eq!(limit("9"), Ok(9));
        for bad in ["0", "10", "-1", "+1", "few", "", "1.5", "99999999999999999999"] {
            assert_eq!(limit(bad), Err("accepted: a whole number, 1 to 9".to_owned()), "{bad}");
        }
    }

    #[test]
    fn a_date_is_told_apart_from_a_slip() {
        assert_eq!(ago("5m"), Ok(Duration::from_secs(300)));
        for date in ["2099-01-01T00:00:00Z", "2099-01-01", "12:30"] {
            assert!(
                ago(date).unwrap_err().starts_with("is no length of time; accepted: how long ago"),
                "{date}"
            );
        }
        assert!(ago("-5").unwrap_err().ends_with("accepted: 0s to 365d, such as 30s or 5m"));
    }

    #[test]
    fn a_refused_time_has_one_range() {
        assert_eq!(timeout("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(delay("0s"), Ok(Duration::ZERO));
        for bad in ["0s", "366d", "5", "soon", "-1s", "", "99999999999999999999d"] {
            let refused = timeout(bad).unwrap_err();
            assert!(refused.ends_with("accepted: 1ms to 365d, such as 30s or 5m"), "{bad}: {refused}");
            assert_eq!(refused.matches("accepted").count(), 1, "{bad}: {refused}");
        }
    }
}

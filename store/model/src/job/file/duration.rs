//! Durations as people write them: `250ms`, `5s`, `1m30s`, `2h`.

const ACCEPTED: &str = "accepted: a duration such as 250ms, 5s, 2m or 1h30m";

/// The milliseconds of a duration. A number needs its unit, because 5 could be seconds or milliseconds.
///
/// # Errors
/// What is wrong, and what is accepted.
pub fn duration_ms(text: &str) -> Result<u64, String> {
    duration(text).map_err(|problem| {
        let shown: String = text.chars().take(40).collect();
        format!("{shown:?} {problem}; {ACCEPTED}")
    })
}

/// A duration as people write it, in the largest units: `1m30s`. [`duration_ms`] reads it as the same.
pub fn duration_text(ms: u64) -> String {
    let mut rest = ms;
    let mut text = String::new();
    for (unit, factor) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
        let number = rest / factor;
        rest %= factor;
        if number > 0 {
            text.push_str(&format!("{number}{unit}"));
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

fn duration(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let bare = text.trim_start_matches(['-', '+', '.']).to_ascii_lowercase();
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if ["nan", "inf", "infinity"].contains(&bare.as_str()) {
        return Err("is not finite".to_owned());
    }
    if text.starts_with(['-', '\u{2212}']) {
        return Err("is negative".to_owned());
    }
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (part, after) = part_ms(rest)?;
        total = total.checked_add(part).ok_or("is too long")?;
        rest = after.trim_start();
    }
    Ok(total)
}

/// The first number with its unit, and the rest of the text.
fn part_ms(text: &str) -> Result<(u64, &str), String> {
    let number_end = text.find(|each: char| !each.is_ascii_digit() && each != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(number_end);
    let rest = rest.trim_start();
    let unit_end = rest.find(|each: char| !each.is_alphabetic()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    if number.is_empty() {
        return Err("is no duration".to_owned());
    }
    let factor: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" => return Err("has no unit".to_owned()),
        _ => return Err(format!("has the unit {unit:?}")),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err("is no duration".to_owned());
    }
    let whole: u64 = whole.parse().map_err(|_| "is too long")?;
    let whole = whole.checked_mul(factor).ok_or("is too long")?;
    let fraction = fraction_ms(fraction.trim_end_matches('0'), factor)?;
    Ok((whole.checked_add(fraction).ok_or("is too long")?, rest))
}

/// `0.fraction × factor`, exactly.
fn fraction_ms(fraction: &str, factor: u64) -> Result<u64, String> {
    const FINER: &str = "is finer than a millisecond";
    if fraction.is_empty() {
        return Ok(0);
    }
    let divisor = u32::try_from(fraction.len()).ok().and_then(|length| 10_u64.checked_pow(length));
    let divisor = divisor.ok_or(FINER)?;
    let scaled = fraction.parse::<u64>().ok().and_then(|digits| digits.checked_mul(factor)).ok_or(FINER)?;
    if scaled.is_multiple_of(divisor) { Ok(scaled / divisor) } else { Err(FINER.to_owned()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_exact() {
        let cases = [
            ("250ms", 250),
            ("5s", 5_000),
            ("0s", 0),
            ("1.5s", 1_500),
            ("1m30s", 90_000),
            ("1h 30m", 5_400_000),
            ("2d", 172_800_000),
            ("0.001s", 1),
        ];
        for (text, ms) in cases {
            assert_eq!(duration_ms(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn the_text_of_a_duration_is_short() {
        let cases = [(0, "0s"), (250, "250ms"), (90_000, "1m30s"), (86_400_000, "1d"), (43_200_000, "12h")];
        for (ms, text) in cases {
            assert_eq!(duration_text(ms), text);
        }
    }

    #[test]
    fn what_is_no_duration_says_why() {
        let cases = [
            ("", "is empty"),
            ("5", "has no unit"),
            ("-5s", "is negative"),
            ("5 seconds", "has the unit \"seconds\""),
            ("5sec", "has the unit \"sec\""),
            ("nan", "is not finite"),
            ("inf", "is not finite"),
            ("0.0001s", "is finer than a millisecond"),
            ("18446744073709551616ms", "is too long"),
            ("99999999999999999999d", "is too long"),
            ("soon", "is no duration"),
            ("1..5s", "is no duration"),
        ];
        for (text, problem) in cases {
            let error = duration_ms(text).unwrap_err();
            assert!(error.contains(problem) && error.contains("accepted: "), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_text_means_its_duration(ms: u64) {
            prop_assert_eq!(duration_ms(&duration_text(ms)), Ok(ms));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _outcome = duration_ms(&text);
        }
    }
}

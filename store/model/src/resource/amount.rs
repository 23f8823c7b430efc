//! Amounts as people write them in job files, and back. Exact in both directions: a text without a whole value in the
//! dimension's unit is refused rather than rounded.

/// An invalid amount. The message names the amount and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {problem}; accepted: {accepted}")]
pub struct AmountError {
    /// The given text, cut after 40 characters.
    pub text: String,
    pub problem: AmountProblem,
    /// What would be accepted, for people.
    pub accepted: &'static str,
}

/// Why an amount is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountProblem {
    #[error("is empty")]
    Empty,
    /// It is less than zero.
    #[error("is negative")]
    Negative,
    /// It is infinite, or not a number in the sense of floating point.
    #[error("is not finite")]
    NotFinite,
    /// It does not begin with a decimal number.
    #[error("is not a decimal number with a unit")]
    NotANumber,
    /// The unit is not one of this dimension.
    #[error("has the unit {0:?}, which is not one of this amount")]
    Unit(String),
    /// The unit is one of this dimension in other letters; the second text is the amount with that unit.
    #[error("has the unit {0:?}, did you mean {1:?}?")]
    UnitNear(String, String),
    /// It is more than can be counted.
    #[error("is too large")]
    TooLarge,
    /// It has no whole value in the smallest unit.
    #[error("is finer than the smallest unit")]
    TooFine,
}

/// Units with their factor; the first is that of a bare number.
struct AmountFormat {
    units: &'static [(&'static str, u64)],
    accepted: &'static str,
}

const KIBI: u64 = 1 << 10;
const MEBI: u64 = 1 << 20;
const GIBI: u64 = 1 << 30;
const TEBI: u64 = 1 << 40;
const PEBI: u64 = 1 << 50;
const KILO: u64 = 1_000;
const MEGA: u64 = 1_000_000;
const GIGA: u64 = 1_000_000_000;
const TERA: u64 = 1_000_000_000_000;
const PETA: u64 = 1_000_000_000_000_000;

const CPU: AmountFormat = AmountFormat {
    units: &[("", 1000), ("m", 1)],
    accepted: "cores such as 2, 0.5 or 500m, in steps of one thousandth",
};

const DEVICE: AmountFormat = AmountFormat {
    units: &[("", 1000)],
    accepted: "a number of devices such as 1 or 0.5, in steps of one thousandth",
};

const BYTES: AmountFormat = AmountFormat {
    units: &[
        ("", 1),
        ("B", 1),
        ("k", KILO),
        ("K", KILO),
        ("kB", KILO),
        ("KB", KILO),
        ("M", MEGA),
        ("MB", MEGA),
        ("G", GIGA),
        ("GB", GIGA),
        ("T", TERA),
        ("TB", TERA),
        ("P", PETA),
        ("PB", PETA),
        ("Ki", KIBI),
        ("KiB", KIBI),
        ("Mi", MEBI),
        ("MiB", MEBI),
        ("Gi", GIBI),
        ("GiB", GIBI),
        ("Ti", TEBI),
        ("TiB", TEBI),
        ("Pi", PEBI),
        ("PiB", PEBI),
    ],
    accepted: "bytes such as 1048576, 512k, 64Mi, 64MiB or 1.5G (k M G T P by 1000, Ki Mi Gi Ti Pi by 1024)",
};

const RATE_ACCEPTED: &str =
    "bytes per second such as 1048576, 512k/s or 10MiB/s (k M G T P by 1000, Ki Mi Gi Ti Pi by 1024)";

/// Thousandths of a core from `2`, `0.5` or `500m`.
pub fn cpu_parse(text: &str) -> Result<u64, AmountError> {
    amount_parse(text, text, &CPU)
}

/// Bytes from `1048576`, `512k`, `64Mi`, `64MiB` or `1.5G`.
pub fn bytes_parse(text: &str) -> Result<u64, AmountError> {
    amount_parse(text, text, &BYTES)
}

/// Thousandths of a device from `1` or `0.5`.
pub fn device_parse(text: &str) -> Result<u64, AmountError> {
    amount_parse(text, text, &DEVICE)
}

/// Bytes per second from `1048576`, `512k/s` or `10MiB/s`: a unit is always per second.
pub fn rate_parse(text: &str) -> Result<u64, AmountError> {
    let rate = AmountFormat { units: BYTES.units, accepted: RATE_ACCEPTED };
    let trimmed = text.trim();
    match trimmed.strip_suffix("/s") {
        Some(amount) => amount_parse(text, amount, &rate),
        None => {
            let amount = amount_parse(text, trimmed, &rate)?;
            match trimmed.find(|character: char| character.is_ascii_alphabetic()) {
                None => Ok(amount),
                Some(at) => {
                    let unit = trimmed.get(at..).unwrap_or_default().to_owned();
                    Err(refusal(text, AmountProblem::Unit(unit), RATE_ACCEPTED))
                }
            }
        }
    }
}

/// `amount` is parsed; `text` is for the error message.
fn amount_parse(text: &str, amount: &str, format: &AmountFormat) -> Result<u64, AmountError> {
    let near = |problem| unit_near(text, problem, format.units);
    amount_decide(amount.trim(), format).map_err(|problem| refusal(text, near(problem), format.accepted))
}

/// A unit that is right except for the case of its letters leads to the right one.
fn unit_near(text: &str, problem: AmountProblem, units: &[(&str, u64)]) -> AmountProblem {
    let AmountProblem::Unit(unit) = &problem else { return problem };
    match units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
        Some((name, _)) => {
            AmountProblem::UnitNear(unit.clone(), text.trim().replacen(unit.as_str(), name, 1))
        }
        None => problem,
    }
}

fn refusal(text: &str, problem: AmountProblem, accepted: &'static str) -> AmountError {
    AmountError { text: text.chars().take(40).collect(), problem, accepted }
}

fn amount_decide(amount: &str, format: &AmountFormat) -> Result<u64, AmountProblem> {
    if amount.is_empty() {
        return Err(AmountProblem::Empty);
    }
    if is_not_finite(amount) {
        return Err(AmountProblem::NotFinite);
    }
    if amount.starts_with(['-', '\u{2212}']) {
        return Err(AmountProblem::Negative);
    }
    let number_end = amount.find(|character: char| !character.is_ascii_digit() && character != '.');
    let (number, unit) = amount.split_at(number_end.unwrap_or(amount.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits_only = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.is_empty() || !digits_only(fraction) {
        return Err(AmountProblem::NotANumber);
    }
    let unit = unit.trim_start();
    let known = format.units.iter().find(|(name, _)| *name == unit);
    let Some(&(_, factor)) = known else { return Err(AmountProblem::Unit(unit.chars().take(40).collect())) };
    amount_scale(whole, fraction, factor)
}

fn is_not_finite(amount: &str) -> bool {
    let bare = amount.trim_start_matches(['-', '+', '.']).to_ascii_lowercase();
    bare == "nan" || bare == "inf" || bare == "infinity"
}

/// `whole.fraction × factor`, exactly.
fn amount_scale(whole: &str, fraction: &str, factor: u64) -> Result<u64, AmountProblem> {
    let fraction = fraction.trim_end_matches('0');
    let whole = whole.trim_start_matches('0');
    // A longer one cannot have a whole value: no factor contains that many tens.
    if fraction.len() > 18 {
        return Err(AmountProblem::TooFine);
    }
    if whole.len() > 20 {
        return Err(AmountProblem::TooLarge);
    }
    let divisor = (0..fraction.len()).fold(1u128, |power, _| power * 10);
    let digits = format!("0{whole}{fraction}");
    let scaled = digits
        .parse::<u128>()
        .ok()
        .and_then(|mantissa| mantissa.checked_mul(u128::from(factor)))
        .ok_or(AmountProblem::TooLarge)?;
    if !scaled.is_multiple_of(divisor) {
        return Err(AmountProblem::TooFine);
    }
    u64::try_from(scaled / divisor).map_err(|_| AmountProblem::TooLarge)
}

/// Thousandths of a core, exactly, as [`cpu_parse`] reads them: `2`, `500m`.
pub fn cpu_display(millis: u64) -> String {
    if millis.is_multiple_of(1000) { format!("{}", millis / 1000) } else { format!("{millis}m") }
}

/// Thousandths of a device, exactly, as [`device_parse`] reads them: `1`, `0.5`.
pub fn device_display(millis: u64) -> String {
    let text = format!("{}.{:03}", millis / 1000, millis % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Bytes, exactly, as [`bytes_parse`] reads them, in the largest unit that loses nothing: `64MiB`, `1G`, `1000001`.
pub fn bytes_display(bytes: u64) -> String {
    const UNITS: [(&str, u64); 10] = [
        ("PiB", PEBI),
        ("P", PETA),
        ("TiB", TEBI),
        ("T", TERA),
        ("GiB", GIBI),
        ("G", GIGA),
        ("MiB", MEBI),
        ("M", MEGA),
        ("KiB", KIBI),
        ("k", KILO),
    ];
    let exact = UNITS.iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    match exact {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => format!("{bytes}"),
    }
}

/// Bytes with three significant digits at most, for people: `1.5GiB`.
pub fn bytes_rounded(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let step = (63_u32.saturating_sub(bytes.leading_zeros())) / 10;
    let unit = usize::try_from(step).ok().and_then(|step| UNITS.get(step)).unwrap_or(&"B");
    if step == 0 {
        return format!("{bytes}B");
    }
    let tenths = (u128::from(bytes) * 10) >> (10 * step);
    match tenths {
        0..1000 if !tenths.is_multiple_of(10) => format!("{}.{}{unit}", tenths / 10, tenths % 10),
        _ => format!("{}{unit}", tenths / 10),
    }
}

/// Bytes per second, exactly, as [`rate_parse`] reads them: `10MiB/s`.
pub fn rate_display(bytes_per_s: u64) -> String {
    format!("{}/s", bytes_display(bytes_per_s))
}

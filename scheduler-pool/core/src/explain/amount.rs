//! Amounts of resources in their units.

use std::fmt;

use borough_model::resource::Dimension;

/// Bytes in the largest binary unit that leaves at least one, cut to two decimals. The text never shows more than the
/// amount.
pub(super) struct Bytes(pub(super) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u32); 5] = [("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        match UNITS.into_iter().find(|&(_, shift)| self.0 >> shift > 0) {
            Some((unit, shift)) => {
                let hundredths = (u128::from(self.0) * 100) >> shift;
                hundredths_written(f, hundredths)?;
                f.write_str(unit)
            }
            None => write!(f, "{}B", self.0),
        }
    }
}

/// `2 cores`, `1 core`, `0.25 cores`.
fn cores_written(f: &mut fmt::Formatter<'_>, millis: u64) -> fmt::Result {
    match (millis / 1_000, millis % 1_000) {
        (1, 0) => f.write_str("1 core"),
        (cores, 0) => write!(f, "{cores} cores"),
        (cores, part) => {
            let part = format!("{part:03}");
            write!(f, "{cores}.{} cores", part.trim_end_matches('0'))
        }
    }
}

fn hundredths_written(f: &mut fmt::Formatter<'_>, hundredths: u128) -> fmt::Result {
    let (integer, part) = (hundredths / 100, hundredths % 100);
    match part {
        0 => write!(f, "{integer}"),
        _ if part.is_multiple_of(10) => write!(f, "{integer}.{}", part / 10),
        _ => write!(f, "{integer}.{part:02}"),
    }
}

/// An amount of a dimension in its unit.
pub(super) struct Amount<'a>(pub(super) &'a Dimension, pub(super) u64);

impl fmt::Display for Amount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Dimension::Memory | Dimension::Disk => write!(f, "{}", Bytes(self.1)),
            Dimension::DiskRate | Dimension::NetworkRate => write!(f, "{}/s", Bytes(self.1)),
            Dimension::Cpu => cores_written(f, self.1),
            Dimension::Device(_) => f.write_str(&self.0.amount_display(self.1)),
        }
    }
}

//! Amounts and durations, as job files and the command line have them.
//!
//! Property: no text makes a parser panic, and the text that a value is shown as has the same value.

use borough_model::job::file::duration_ms;
use borough_model::resource as amount;

use crate::text;

/// One text for every parser.
pub fn run(data: &[u8]) {
    let text = text(data);
    round_trip(&text, amount::cpu_parse, amount::cpu_display);
    round_trip(&text, amount::bytes_parse, amount::bytes_display);
    round_trip(&text, amount::device_parse, amount::device_display);
    round_trip(&text, amount::rate_parse, amount::rate_display);
    if let Ok(ms) = duration_ms(&text) {
        assert_eq!(duration_ms(&format!("{ms}ms")), Ok(ms), "{text:?}");
    }
}

fn round_trip<E>(text: &str, parse: fn(&str) -> Result<u64, E>, display: fn(u64) -> String) {
    if let Ok(value) = parse(text) {
        let shown = display(value);
        assert_eq!(parse(&shown).ok(), Some(value), "{text:?} is shown as {shown:?}");
    }
}

/// Texts with every unit.
pub fn corpus() -> Vec<Vec<u8>> {
    let texts = [
        "2", "0.5", "500m", "1Gi", "64MiB", "1.5GB", "10Mi/s", "1Gbit/s", "250ms", "1h30m", "2d", "1e3", "-1",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

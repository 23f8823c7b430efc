//! Names, and the other short texts that people and programs write: cursors, stamps, policies of a cell.
//!
//! Property: no text makes a parser panic, and the text that a value is shown as has the same value.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use borough_kv::Versionstamp;
use borough_model::Name;
use borough_model::node::AgentIdentity;
use borough_scheduler_core::{Queueing, ScoringProfile};
use borough_store::Cursor;

use crate::text;

/// One text for every parser.
pub fn run(data: &[u8]) {
    let text = text(data);
    round_trip::<Name>(&text);
    round_trip::<Cursor>(&text);
    round_trip::<Versionstamp>(&text);
    round_trip::<ScoringProfile>(&text);
    let _ = text.parse::<Queueing>();
    let _ = text.parse::<AgentIdentity>();
}

fn round_trip<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    let Ok(value) = text.parse::<T>() else { return };
    let shown = value.to_string();
    assert_eq!(shown.parse::<T>().ok(), Some(value), "{text:?} is shown as {shown:?}");
}

/// A text of each kind.
pub fn corpus() -> Vec<Vec<u8>> {
    let profiles = ScoringProfile::all().into_iter().map(|profile| profile.to_string().into_bytes());
    let texts = [
        "web",
        "a-b9",
        "1-00000000000000000001",
        "00000000000000000001",
        "fair-share:ann=3,bob=1",
        "drf",
        "fifo",
    ];
    texts.map(|text| text.as_bytes().to_vec()).into_iter().chain(profiles).collect()
}

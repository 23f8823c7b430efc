//! Samples of what the journal has beside rows.

use std::collections::BTreeMap;

use borough_model::MergedServiceId;
use borough_model::journal::{JournalEntry, ValueChange};
use borough_model::merged::{LabelCondition, LabelOperator, MergedServiceRow};
use borough_model::node::{LoadMeasured, NodeLoad};

use crate::sample::name;

/// A measured load.
pub(crate) fn node_load() -> NodeLoad {
    let (covered_cpu_millis, covered_memory_bytes) = (4_000, 2 << 30);
    let (cpu_millis, memory_bytes) = (1_500, 1 << 30);
    let measured = LoadMeasured { cpu_millis, memory_bytes, covered_cpu_millis, covered_memory_bytes };
    NodeLoad { revision: 3, changed_ms: 1_700_000_000_000, measured: Some(measured), unjournalled: None }
}

/// An entry that has changed labels.
pub(crate) fn journal_values(entry: JournalEntry) -> JournalEntry {
    let value = |text: &str| Some(text.to_owned());
    let values = vec![
        ValueChange { key: "tier".to_owned(), old: None, new: value("db") },
        ValueChange { key: "app".to_owned(), old: value("shop"), new: None },
    ];
    JournalEntry { deltas: Vec::new(), values: Some(values), ..entry }
}

/// A merged service.
pub(crate) fn merged_row() -> MergedServiceRow {
    let condition = |operator| LabelCondition { key: "app".to_owned(), value: "shop".to_owned(), operator };
    MergedServiceRow {
        id: MergedServiceId(8),
        user: name("ada"),
        name: name("shop"),
        selector: vec![condition(LabelOperator::Is), condition(LabelOperator::IsNot)],
        shares: BTreeMap::from([(name("canary"), 5)]),
        revision: 3,
        changed_ms: 1_700_000_000_000,
        changed_by: "user/ada".to_owned(),
    }
}

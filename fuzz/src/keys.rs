//! Keys and whole rows of the keyspace. The first byte is the number of bytes of the key after the cell's prefix. The
//! key and the value follow.
//!
//! Property: no bytes make a decoder panic. A row that decodes encodes to bytes that decode to the same row, and that
//! encode to themselves. The bytes themselves may differ: the tuple decoder accepts integers with leading zeros, which
//! the layer never writes.

use borough_model::Name;
use borough_store::keys::{CellSpace, StoredRow};

/// The cell of the golden keys.
const CELL: &str = "alpha";

fn space() -> Option<CellSpace> {
    Name::new(CELL).ok().map(CellSpace::new)
}

/// One key with its value.
pub fn run(data: &[u8]) {
    let Some(space) = space() else { return };
    let Some((&length, rest)) = data.split_first() else { return };
    let (fields, value) = rest.split_at(usize::from(length).min(rest.len()));
    let key = [space.prefix(), fields].concat();
    let Ok(row) = StoredRow::decode(&space, &key, value) else { return };
    let encoded = row.encode(&space).ok();
    let again = encoded.as_ref().and_then(|(key, value)| StoredRow::decode(&space, key, value).ok());
    assert_eq!(again.as_ref(), Some(&row), "a row that its own encoding changes");
    assert_eq!(again.and_then(|again| again.encode(&space).ok()), encoded, "an encoding that is not stable");
}

/// The golden rows of every kind.
pub fn corpus() -> Vec<Vec<u8>> {
    let golden = include_str!("../../store/layer/src/keys/golden_values.txt");
    let prefix = space().map_or(0, |space| space.prefix().len());
    let row = |line: &str| {
        let mut columns = line.split(' ').skip(1).map(|column| hex::decode(column).ok());
        let (key, value) = (columns.next()??, columns.next().flatten().unwrap_or_default());
        let fields = key.get(prefix..)?;
        Some([&[u8::try_from(fields.len()).ok()?], fields, value.as_slice()].concat())
    };
    golden.lines().filter_map(row).collect()
}

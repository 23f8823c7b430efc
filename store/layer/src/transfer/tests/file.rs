//! The file: its bytes, and damage to them.

use borough_kv::Versionstamp;
use borough_kv::env::SeededRng;

use super::*;
use crate::key_kind::KeyKind;
use crate::keys::{Key, LeaseKey, NodeNameKey, value_encode};
use crate::row::{CellMeta, LeaseRow};

/// A small cell of fixed rows.
fn rows() -> CellRows {
    let meta = CellMeta { profile: "best-fit".to_owned(), ..CellMeta::default() };
    let mut rows = CellRows { meta: Some(meta), ..CellRows::default() };
    for (id, node) in ["n1", "n2", "n3"].into_iter().zip(1..) {
        rows.node_names.insert(name(id), borough_model::NodeId(node));
    }
    rows
}

fn at() -> Cursor {
    Cursor { store_epoch: 3, stamp: Versionstamp::new(77, 1) }
}

fn file() -> Vec<u8> {
    file_of(&rows(), &header(0xab, at()), 2).0
}

/// Files contain these bytes: a difference here changes the format.
#[test]
fn bytes_are_golden() {
    let file = file();
    let lines: Vec<String> = file
        .chunks(32)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n")
        .collect();
    expect_test::expect_file!["golden_export.txt"].assert_eq(&lines.concat());
    let (header_read, end) = file_verify(&file[..]).unwrap();
    assert_eq!(header_read, header(0xab, at()));
    assert_eq!((end.rows, end.blocks), (4, 2));
}

#[test]
fn every_cut_is_found() {
    let file = file();
    for length in 0..file.len() {
        let error = file_verify(&file[..length]).expect_err("a part");
        let matches = match length {
            0 => matches!(error, ExportFileError::NotExport),
            _ => matches!(error, ExportFileError::Truncated { at } if at == length as u64),
        };
        assert!(matches, "{length}: {error:?}");
    }
    let longer = [&file[..], b"x"].concat();
    let error = file_verify(&longer[..]).unwrap_err();
    assert!(matches!(error, ExportFileError::Altered { at, .. } if at == file.len() as u64), "{error:?}");
}

#[test]
fn every_bit_counts() {
    let file = file();
    for at in 0..file.len() * 8 {
        let mut turned = file.clone();
        turned[at / 8] ^= 1 << (at % 8);
        let error = file_verify(&turned[..]).expect_err("altered");
        let matches = match at / 8 {
            0..8 => matches!(error, ExportFileError::NotExport),
            8..12 => matches!(error, ExportFileError::Newer { .. } | ExportFileError::Altered { .. }),
            _ => matches!(error, ExportFileError::Altered { .. } | ExportFileError::Truncated { .. }),
        };
        assert!(matches, "bit {at}: {error:?}");
    }
}

/// Blocks that are moved, doubled or left out are each valid alone.
#[test]
fn blocks_have_their_place() {
    let file = file();
    let mut bounds = vec![0, 12];
    while let Some(&at) = bounds.last().filter(|at| **at < file.len()) {
        let length = u32::from_le_bytes(file[at + 1..at + 5].try_into().unwrap()) as usize;
        bounds.push(at + 9 + length);
    }
    let parts: Vec<&[u8]> = bounds.windows(2).map(|pair| &file[pair[0]..pair[1]]).collect();
    assert_eq!(parts.len(), 5, "a beginning, a header, two blocks and an end");
    let rng = SeededRng::shared(1);
    for _ in 0..200 {
        let mut order: Vec<usize> = (0..parts.len()).collect();
        let (left, right) = (rng.next_u64() as usize % 5, rng.next_u64() as usize % 5);
        match rng.next_u64() % 3 {
            0 => order.swap(left, right),
            1 => drop(order.remove(left)),
            _ => order.insert(left, right),
        }
        let other: Vec<u8> = order.iter().flat_map(|part| parts[*part]).copied().collect();
        assert_eq!(file_verify(&other[..]).is_ok(), other == file, "{order:?}");
    }
}

/// A valid file with rows that no export has, or in the wrong order: made by hand.
#[test]
fn rows_that_no_export_has_are_refused() {
    let space = CellSpace::new(name("alpha"));
    let own = |bytes: Vec<u8>| bytes[space.prefix().len()..].to_vec();
    let named = |text: &str| {
        let key = own(NodeNameKey { name: name(text) }.encode(&space));
        (key, value_encode(KeyKind::NodeName, &borough_model::NodeId(1)).unwrap())
    };
    let lease = LeaseKey { role: "scheduler".to_owned(), shard: 0 };
    let lease = (own(lease.encode(&space)), value_encode(KeyKind::Lease, &LeaseRow::default()).unwrap());
    let wrong_value = (named("n1").0, lease.1.clone());
    let cases: Vec<(Vec<FileRow>, &str)> = vec![
        (vec![lease], "Row"),
        (vec![wrong_value], "Row"),
        (vec![(b"\xff".to_vec(), vec![])], "Row"),
        (vec![named("n2"), named("n1")], "not in order"),
        (vec![named("n1"), named("n1")], "not in order"),
    ];
    for (rows, expected) in cases {
        let mut writer = ExportWriter::begin(Vec::new(), &header(1, at())).unwrap();
        rows.into_iter().for_each(|(key, value)| writer.row(key, value).unwrap());
        let (file, _) = writer.end().unwrap();
        let error = file_verify(&file[..]).expect_err(expected);
        assert!(format!("{error:?}").contains(expected), "{expected}: {error:?}");
    }
}

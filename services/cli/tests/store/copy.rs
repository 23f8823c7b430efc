//! `store export` and `store import`.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Stdio};

use borough_model::NodeId;
use borough_store::CellSpace;
use borough_store::cell::CellState;
use borough_store::journal::Cursor;
use borough_store::keys::{Key as _, KeyKind, NodeNameKey, value_encode};
use borough_store::transfer::{ExportHeader, ExportReader, ExportWriter, FileBlock, FileRow};

use super::cell::{Place, borough, errors, json, name, store_with_cell};

/// The rows of an export, without the stamps of names, which are given again.
pub(crate) fn rows_of(file: &std::path::Path) -> Vec<FileRow> {
    let mut reader = ExportReader::begin(std::fs::File::open(file).unwrap()).unwrap();
    let mut all = Vec::new();
    while let FileBlock::Rows { rows, .. } = reader.block().unwrap() {
        all.extend(rows);
    }
    all.retain(|(_, value)| value.first() != Some(&KeyKind::NameRevision.code()));
    all
}

#[test]
fn a_cell_goes_to_another_store_and_back() {
    let place = Place::new();
    store_with_cell(&place.path("one"));
    let (one, two, file) = (place.store("one"), place.store("two"), place.text("alpha.export"));
    let export = json(0, &["store", "export", "--store", &one, "--cell", "alpha", "--to", &file]);
    assert_eq!(export["violations"], 0);
    assert_eq!(export["file_bytes"].as_u64(), Some(std::fs::metadata(&file).unwrap().len()));
    let import = json(0, &["store", "import", "--store", &two, "--from", &file, "--cell", "gamma"]);
    assert_eq!((&import["cell"], &import["rows"]), (&"gamma".into(), &export["rows"]));
    assert!(import["store_epoch"].as_u64() > Some(1), "{import}");
    let check = json(0, &["store", "check", "--store", &two]);
    assert_eq!((&check["cells"][0]["cell"], &check["cells"][0]["jobs"]), (&"gamma".into(), &3.into()));
    let again = json(0, &["store", "import", "--store", &two, "--from", &file, "--cell", "gamma"]);
    assert_eq!(again["blocks_before"], again["blocks"], "a repetition has nothing to do");
    let back = place.text("gamma.export");
    json(0, &["store", "export", "--store", &two, "--cell", "gamma", "--to", &back]);
    assert_eq!(rows_of(back.as_ref()), rows_of(file.as_ref()));
    let there = borough(&["store", "import", "--store", &one, "--from", &back, "--cell", "alpha"]);
    assert_eq!(there.status.code(), Some(4), "{}", errors(&there));
    assert!(errors(&there).contains("already a cell alpha"), "{}", errors(&there));
    let closed = place.text("closed.export");
    json(0, &["store", "export", "--store", &one, "--cell", "alpha", "--to", &closed, "--close"]);
    let back =
        json(0, &["store", "import", "--store", &one, "--from", &back, "--cell", "alpha", "--replace"]);
    assert_eq!(back["state"], "open");
    json(0, &["store", "check", "--store", &one]);
}

#[test]
fn an_export_is_whole_or_not_there() {
    let place = Place::new();
    store_with_cell(&place.path("one"));
    let (one, file) = (place.store("one"), place.text("alpha.export"));
    let piped = borough(&["store", "export", "--store", &one, "--cell", "alpha", "--to", "-"]);
    assert!(piped.status.success(), "{}", errors(&piped));
    std::fs::write(place.path("piped"), &piped.stdout).unwrap();
    json(0, &["store", "export", "--store", &one, "--cell", "alpha", "--to", &file]);
    assert_eq!(rows_of(&place.path("piped")), rows_of(file.as_ref()));
    assert!(!place.path("alpha.export.partial").exists());
    let twice = borough(&["store", "export", "--store", &one, "--cell", "alpha", "--to", &file]);
    assert_eq!(twice.status.code(), Some(4), "{}", errors(&twice));
    let unnamed = borough(&["store", "export", "--store", &one, "--to", &place.text("other")]);
    assert_eq!(unnamed.status.code(), Some(2));
    let unknown =
        borough(&["store", "export", "--store", &one, "--cell", "nobody", "--to", &place.text("other")]);
    assert_eq!(unknown.status.code(), Some(3), "{}", errors(&unknown));
}

#[test]
fn an_export_is_its_owners_alone_and_follows_no_link() {
    let place = Place::new();
    store_with_cell(&place.path("one"));
    let (one, file) = (place.store("one"), place.path("alpha.export"));
    let export = |to: &str, more: &[&str]| {
        let export = ["store", "export", "--store", &one, "--cell", "alpha", "--to", to];
        borough(&[&export[..], more].concat())
    };
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    // A foreign file where the export is first written, or where it ends.
    let victim = place.path("victim");
    std::fs::write(&victim, "precious").unwrap();
    symlink(&victim, place.path("alpha.export.partial")).unwrap();
    assert_eq!(export(&place.text("alpha.export"), &[]).status.code(), Some(0));
    assert_eq!(mode(&file), 0o600);
    let link = place.path("link.export");
    for target in [victim.clone(), place.path("nowhere")] {
        symlink(&target, &link).unwrap();
        let refused = export(&place.text("link.export"), &[]);
        assert_eq!(refused.status.code(), Some(4), "{}", errors(&refused));
        assert!(errors(&refused).contains("--overwrite"), "{}", errors(&refused));
        let replaced = export(&place.text("link.export"), &["--overwrite"]);
        assert_eq!(replaced.status.code(), Some(0), "{}", errors(&replaced));
        let found = std::fs::symlink_metadata(&link).unwrap();
        assert!(found.is_file() && found.permissions().mode() & 0o777 == 0o600);
        std::fs::remove_file(&link).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert!(!place.path("nowhere").exists());
}

#[test]
fn a_file_that_is_not_whole_changes_nothing() {
    let place = Place::new();
    store_with_cell(&place.path("one"));
    let file = place.text("alpha.export");
    json(0, &["store", "export", "--store", &place.store("one"), "--cell", "alpha", "--to", &file]);
    let bytes = std::fs::read(&file).unwrap();
    let mut turned = bytes.clone();
    turned[bytes.len() / 2] ^= 1;
    let newer = [&bytes[..8], &2_u32.to_le_bytes(), &bytes[12..]].concat();
    let bad = place.text("bad.export");
    for (content, expected) in [
        (&bytes[..bytes.len() - 3], "cut off"),
        (&turned[..], "altered at byte"),
        (&newer[..], "format 2"),
        (b"name: web\n", "no export of a cell"),
        (b"", "no export of a cell"),
    ] {
        std::fs::write(&bad, content).unwrap();
        let refused = borough(&["store", "import", "--store", &place.store("two"), "--from", &bad]);
        assert_eq!(refused.status.code(), Some(2), "{}", errors(&refused));
        assert!(errors(&refused).contains(expected), "{expected}: {}", errors(&refused));
        assert!(!place.path("two").exists(), "{expected}: nothing was made");
    }
}

/// A file of many blocks.
fn large_file(path: &std::path::Path) {
    let header = ExportHeader {
        id: [9; 16],
        cell: name("large"),
        at: Cursor::start(1),
        state: CellState::Open,
        exported_ms: 1,
        program: "test".to_owned(),
    };
    let space = CellSpace::new(name("large"));
    let mut writer =
        ExportWriter::begin(std::io::BufWriter::new(std::fs::File::create(path).unwrap()), &header).unwrap();
    for number in 0..60_000_u64 {
        let key = NodeNameKey { name: name(&format!("n{number:06}")) }.encode(&space);
        let value = value_encode(KeyKind::NodeName, &NodeId(number)).unwrap();
        writer.row(key[space.prefix().len()..].to_vec(), value).unwrap();
    }
    writer.end().unwrap();
}

#[test]
fn an_import_that_is_killed_goes_on_and_opens_nothing_before() {
    let place = Place::new();
    large_file(&place.path("large"));
    let (store, file) = (place.store("store"), place.text("large"));
    let import = ["store", "import", "--store", &store, "--from", &file];
    let mut killed = Command::new(env!("CARGO_BIN_EXE_borough"))
        .args(import)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(killed.stderr.take().unwrap()).lines();
    let seen = lines.map_while(Result::ok).find(|line| line.contains("3 of 30 blocks"));
    assert!(seen.is_some(), "it shows how far it is");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let check = json(0, &["store", "check", "--store", &store]);
    assert_eq!(check["cells"][0]["state"], "importing");
    let named = borough(&["store", "check", "--store", &store, "--cell", "large"]);
    assert_eq!(named.status.code(), Some(255), "{}", errors(&named));
    assert!(errors(&named).contains("importing"), "{}", errors(&named));
    let done = json(0, &import);
    let before = done["blocks_before"].as_u64().unwrap();
    assert!((3..30).contains(&before), "{done}");
    assert_eq!((&done["rows"], &done["state"]), (&60_000.into(), &"open".into()));
}

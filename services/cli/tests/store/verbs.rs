//! `store check` and `store bench`.

use borough_kv::{Idempotency, RangeRequest, Transaction};
use borough_store::keys::{Key as _, NodeNameKey};
use borough_store::{CellSpace, StoreError};

use super::cell::{Place, borough, cell_fill, errors, json, name, store_with_cell, with_store};

#[test]
fn a_sound_store_is_sound() {
    let place = Place::new();
    with_store(&place.path("store"), |db| async move {
        cell_fill(&db, "alpha").await;
        cell_fill(&db, "beta").await;
    });
    let store = place.store("store");
    let view = json(0, &["store", "check", "--store", &store]);
    let cells: Vec<_> = view["cells"].as_array().unwrap().iter().map(|cell| cell["cell"].clone()).collect();
    assert_eq!((cells, &view["violations"]), (vec!["alpha".into(), "beta".into()], &0.into()));
    assert_eq!(view["cells"][0]["jobs"], 3);
    let view = json(0, &["store", "check", "--store", &store, "--cell", "beta", "--settled"]);
    assert_eq!(view["cells"].as_array().unwrap().len(), 1);
    let table = borough(&["store", "check", "--store", &store]);
    assert!(String::from_utf8_lossy(&table.stdout).contains("alpha  open"), "{table:?}");
}

#[test]
fn a_violation_is_reported_with_its_key() {
    let place = Place::new();
    store_with_cell(&place.path("store"));
    with_store(&place.path("store"), |db| async move {
        let key = NodeNameKey { name: name("n1") }.encode(&CellSpace::new(name("alpha")));
        let key = &key;
        let clear = db.run("damage", Idempotency::Natural, |tx: Transaction, _| async move {
            tx.clear(key).map_err(StoreError::from)
        });
        clear.await.unwrap();
    });
    let store = place.store("store");
    let view = json(1, &["store", "check", "--store", &store]);
    let found = &view["cells"][0]["violations"];
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    assert_eq!((&found[0]["rule"], &found[0]["key"]), (&"node_name".into(), &"node_name/n1".into()));
    let table = borough(&["store", "check", "--store", &store]);
    assert_eq!(table.status.code(), Some(1));
    let text = String::from_utf8_lossy(&table.stdout);
    assert!(text.contains("node_name/n1") && text.contains("expected"), "{text}");
}

#[test]
fn a_store_that_cannot_be_looked_at_is_no_sound_one() {
    let place = Place::new();
    let missing = borough(&["store", "check", "--store", &place.store("store")]);
    assert_eq!(missing.status.code(), Some(255));
    assert!(errors(&missing).contains("no store in"), "{}", errors(&missing));
    assert!(!place.path("store").exists(), "looking makes nothing");
    store_with_cell(&place.path("store"));
    let other = borough(&["store", "check", "--store", &place.store("store"), "--cell", "other"]);
    assert_eq!(other.status.code(), Some(255));
    assert!(errors(&other).contains("no cell other"), "{}", errors(&other));
    with_store(&place.path("store"), |_| async {
        let held = borough(&["store", "check", "--store", &place.store("store")]);
        assert_eq!(held.status.code(), Some(255));
        assert!(errors(&held).contains("in use by process"), "{}", errors(&held));
    });
}

fn keys_of(place: &Place) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    with_store(&place.path("store"), |db| {
        let keys = &mut keys;
        async move {
            let all = db.run("keys", Idempotency::ReadOnly, |tx, _| async move {
                Ok::<_, StoreError>(
                    tx.range_all(RangeRequest::between(b"".to_vec(), b"\xff".to_vec())).await?,
                )
            });
            keys.extend(all.await.unwrap().into_iter().map(|(key, _)| key.to_vec()));
        }
    });
    keys
}

#[test]
fn a_measurement_leaves_nothing() {
    let place = Place::new();
    store_with_cell(&place.path("store"));
    let before = keys_of(&place);
    let store = place.store("store");
    let view = json(0, &["store", "bench", "--store", &store, "--time", "30ms", "--clients", "4"]);
    let stats = view["stats"].as_array().unwrap();
    assert_eq!(stats.len(), 6, "{stats:?}");
    for stat in stats {
        assert!(stat["operations"].as_u64() > Some(0) && stat["failed"] == 0, "{stat}");
        assert!(stat["p50_us"].as_u64() <= stat["p99_us"].as_u64(), "{stat}");
    }
    assert_eq!(keys_of(&place), before);
    let names: Vec<_> =
        std::fs::read_dir(place.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["store"], "nothing is left beside the store");
}

/// The newest segment of the log is cut after its first record, as in a bad copy or on a damaged file system.
#[test]
fn a_log_that_was_cut_short_is_refused_with_its_loss_is_accepted() {
    let place = Place::new();
    store_with_cell(&place.path("store"));
    let store = place.store("store");
    let untouched = json(0, &["store", "accept-loss", "--store", &store]);
    assert_eq!(untouched["accepted"], false);
    let entries = std::fs::read_dir(place.path("store")).unwrap().map(|entry| entry.unwrap().path());
    let is_segment =
        |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("log-");
    let segment = entries.filter(is_segment).max().unwrap();
    std::fs::File::options().write(true).open(&segment).unwrap().set_len(2_000).unwrap();
    let refused = borough(&["store", "check", "--store", &store]);
    assert_eq!(refused.status.code(), Some(255));
    let text = errors(&refused);
    assert!(text.contains("lost acknowledged commits: log-") && text.contains("accept-loss"), "{text}");
    let unasked = borough(&["store", "accept-loss", "--store", &store]);
    assert_eq!(unasked.status.code(), Some(2), "nobody can be asked");
    assert!(errors(&unasked).contains("--yes"), "{}", errors(&unasked));
    let accepted = json(0, &["store", "accept-loss", "--yes", "--store", &store]);
    assert_eq!(accepted["accepted"], true);
    assert!(accepted["lost"].as_str().unwrap().contains("2000 of 16777216 bytes"), "{accepted}");
    assert_eq!(json(0, &["store", "accept-loss", "--store", &store])["accepted"], false);
}

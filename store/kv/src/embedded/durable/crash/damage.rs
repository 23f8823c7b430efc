//! Damage, cuts and torn ends, as properties over every position. A sound store is altered somewhere. The opening must
//! then refuse it untouched, or find all of its rows. Only a record whose end no marker has noted may be missing, and
//! only if that one was altered and nothing sound follows it.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::super::OpenError;
use super::super::log::segment_name;
use super::super::marker::{self, marker_read};
use super::super::record::{RecordKind, SEGMENT_HEADER_BYTES, SegmentHeader, record_decode, record_encode};
use super::super::recover::log_read;
use super::client::{batch_run, rows_read};
use super::disk::{DiskImage, SimDisk};
use super::model::ExpectedRows;
use super::programme::{CrashWorld, each_seed};
use crate::embedded::mutation::Mutation;

/// A store that was killed after its last batch was acknowledged.
struct KilledStore {
    world: CrashWorld,
    image: DiskImage,
    /// The rows before each batch, and after the last one.
    states: Vec<ExpectedRows>,
    /// The marker of the log's end after each record.
    markers: Vec<Vec<u8>>,
}

fn store(seed: u64, batches: u32, clean: bool) -> KilledStore {
    store_in(CrashWorld::new(seed), batches, if clean { RunEnd::Closed } else { RunEnd::Killed })
}

/// How the run of a store has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunEnd {
    Closed,
    Killed,
}

fn store_in(mut world: CrashWorld, batches: u32, end: RunEnd) -> KilledStore {
    let attempt = world.try_open().expect("an empty disk");
    let (mut states, mut markers, mut codes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..batches {
        markers.extend(world.disk.shown().get(marker::NAME).cloned());
        states.push(world.model.rows());
        batch_run(&attempt.engine, &mut world.rng, &mut world.model, &mut codes);
        world.disk.turns().grant(1000);
    }
    if end == RunEnd::Closed {
        world.disk.turns().free();
        drop(attempt);
    } else {
        world.disk = world.disk.kill();
    }
    states.push(world.model.rows());
    // Batches whose transactions were all refused change nothing.
    states.dedup();
    let image = world.disk.shown();
    markers.extend(image.get(marker::NAME).cloned());
    markers.dedup();
    KilledStore { world, image, states, markers }
}

impl KilledStore {
    fn last_segment(&self) -> String {
        self.image.keys().rfind(|name| name.starts_with("log-")).expect("a log").clone()
    }

    /// The rows that the store has.
    fn rows(&self) -> &ExpectedRows {
        self.states.last().expect("a state")
    }

    /// The rows before its last batch.
    fn rows_before(&self) -> &ExpectedRows {
        self.states.iter().rev().nth(1).expect("a batch")
    }

    /// The range of the log's last record; that of the header if it has none.
    fn last_record(&self) -> std::ops::Range<usize> {
        let bytes = &self.image[&self.last_segment()];
        let salt = SegmentHeader::decode(bytes).expect("a sound header").salt;
        let (mut begin, mut end) = (0, SEGMENT_HEADER_BYTES);
        while let Some((_, length)) = record_decode(&bytes[end..], salt) {
            (begin, end) = (end, end + length);
        }
        begin..end
    }

    /// Opens the store as `image`. `None` if it is refused, which must leave the image unchanged.
    fn open_as(&mut self, image: DiskImage, what: &str) -> Option<ExpectedRows> {
        self.world.disk = SimDisk::new(image.clone(), 1);
        match self.world.try_open() {
            Ok(attempt) => Some(rows_read(&attempt.engine).expect("an open store is read").1),
            Err(
                OpenError::Damaged { .. }
                | OpenError::Lost { .. }
                | OpenError::Newer { .. }
                | OpenError::Older { .. },
            ) => {
                assert!(self.world.disk.shown() == image, "refusing {what} has changed something");
                None
            }
            Err(other) => panic!("{what}: {other:?}"),
        }
    }
}

/// Alters a few bytes: flips bits, zeros a sector, or writes one to the wrong place.
fn alter(bytes: &mut [u8], rng: &mut ChaCha8Rng) -> std::ops::Range<usize> {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if used == 0 {
        return 0..0;
    }
    let at = rng.random_range(0..used);
    let sector = at / 512 * 512;
    let end = (sector + 512).min(bytes.len());
    match rng.random_range(0..4) {
        0 => bytes[sector..end].fill(0),
        1 => {
            let from = rng.random_range(0..=used.saturating_sub(end - sector)) / 512 * 512;
            bytes.copy_within(from..from + (end - sector), sector);
        }
        _ => {
            bytes[at] ^= 1 << rng.random_range(0..8);
            return at..at + 1;
        }
    }
    sector..end
}

#[test]
fn damage_is_refused_untouched_or_harmless() {
    let (mut refused, mut harmless) = (0, 0);
    each_seed(60, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let clean = rng.random_bool(0.5);
        let mut store = store(seed, rng.random_range(3..30), clean);
        let last_record = store.last_record();
        for _ in 0..40 {
            let mut image = store.image.clone();
            let name = image.keys().nth(rng.random_range(0..image.len())).expect("a file").clone();
            let altered = alter(image.get_mut(&name).expect("a file"), &mut rng);
            let what = format!("{name} at {altered:?}, last record {last_record:?}");
            let same = image == store.image;
            match store.open_as(image, &what) {
                None => {
                    assert!(!same, "a sound store is refused");
                    refused += 1;
                }
                Some(rows) if &rows == store.rows() => harmless += 1,
                Some(_) => panic!("{what}: opened with other rows"),
            }
        }
    });
    eprintln!("{refused} refused, {harmless} harmless");
    assert!(refused > 0 && harmless > 0, "nothing was tried");
}

/// As above, with records that were not flushed. Damage may take the last ones of them, and never a flushed one.
#[test]
fn damage_takes_no_more_than_what_was_not_flushed() {
    let (mut refused, mut harmless, mut taken) = (0, 0, 0);
    each_seed(60, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut world = CrashWorld::new(seed);
        world.model.flushes_later = true;
        let mut store = store_in(world, rng.random_range(3..30), RunEnd::Killed);
        let earlier = store.world.model.earlier();
        for _ in 0..40 {
            let mut image = store.image.clone();
            let name = image.keys().nth(rng.random_range(0..image.len())).expect("a file").clone();
            let altered = alter(image.get_mut(&name).expect("a file"), &mut rng);
            let what = format!("{name} at {altered:?}, {} not flushed", earlier.len());
            match store.open_as(image, &what) {
                None => refused += 1,
                Some(rows) if &rows == store.rows() => harmless += 1,
                Some(rows) => {
                    assert!(earlier.contains(&rows), "{what}: opened with other rows");
                    taken += 1;
                }
            }
        }
    });
    eprintln!("{refused} refused, {harmless} harmless, {taken} without what was not flushed");
    assert!(refused > 0 && harmless > 0 && taken > 0, "nothing was tried");
}

#[test]
fn a_torn_end_is_cut_off_at_every_byte() {
    each_seed(30, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut store = store(seed, rng.random_range(1..12), false);
        let (name, last) = (store.last_segment(), store.last_record());
        // The marker at the time when the last record was written.
        let noted = store.markers.iter().rev().nth(1).expect("a record").clone();
        store.image.insert(marker::NAME.to_owned(), noted);
        let (begin, whole) = (last.start, store.image[&name].clone());
        if begin == 0 {
            // A segment is flushed before its first record is written, so its header is never torn.
            return;
        }
        for _ in 0..30 {
            let mut image = store.image.clone();
            let bytes = image.get_mut(&name).expect("the log");
            let cut = rng.random_range(begin..last.end);
            match rng.random_range(0..4) {
                // It was not written from there on, or only from there on.
                0 | 1 => bytes[cut..last.end].fill(0),
                2 => bytes[begin..=cut].fill(0),
                // Other bytes are there.
                _ => bytes[cut..last.end].iter_mut().for_each(|byte| *byte = rng.random()),
            }
            // The torn bytes may have been zeros.
            let same = bytes == &whole;
            let expected = if same { store.rows().clone() } else { store.rows_before().clone() };
            let what = format!("{name} torn at {cut} of {last:?}");
            let rows = store.open_as(image, &what);
            assert!(
                rows.as_ref() == Some(&expected),
                "{what}: {}",
                if rows.is_none() { "refused" } else { "other rows" }
            );
        }
    });
}

/// Cuts a file off at `at`, or zeros it from there on.
fn cut(image: &mut DiskImage, name: &str, at: usize, zeros: bool) {
    let bytes = image.get_mut(name).expect("a segment");
    if zeros { bytes[at..].fill(0) } else { bytes.truncate(at) }
}

/// Segments of the log in an image, in order.
fn segments(image: &DiskImage) -> Vec<String> {
    image.keys().filter(|name| name.starts_with("log-")).cloned().collect()
}

/// The process was killed, or ended; the machine kept running. Every acknowledged commit that is missing is then
/// noticed.
#[test]
fn a_cut_behind_acknowledged_commits_is_noticed() {
    let (mut refused, mut harmless) = (0, 0);
    each_seed(80, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let clean = rng.random_bool(0.5);
        let mut store = store(seed, rng.random_range(2..30), clean);
        let (names, end) = (segments(&store.image), store.last_record().end);
        for _ in 0..30 {
            let mut image = store.image.clone();
            let index = names.len() - 1 - rng.random_range(0..names.len().min(3));
            let (name, zeros) = (&names[index], rng.random_bool(0.5));
            let last = index + 1 == names.len();
            let at = rng.random_range(0..image[name].len());
            cut(&mut image, name, at, zeros);
            // The rest after the cut may be lost too.
            let without = if last || rng.random_bool(0.5) { names.len() } else { index + 1 };
            names[without..].iter().for_each(|name| drop(image.remove(name)));
            let what = format!(
                "{name} cut at {at} of {end}, zeros {zeros}, last {last}, {without} of {}",
                names.len()
            );
            // A record may end with zeros, and a reused segment has other bytes behind it.
            let same = |end: usize| {
                image.get(name).is_some_and(|cut| cut.get(..end) == store.image[name].get(..end))
            };
            let takes = last && (!same(end) || !zeros) || without < names.len();
            let takes = takes && image != store.image;
            match store.open_as(image, &what) {
                None => refused += 1,
                Some(rows) => {
                    assert!(&rows == store.rows(), "{what}: opened with less");
                    assert!(!takes, "{what}: opened");
                    harmless += 1;
                }
            }
        }
    });
    eprintln!("{refused} cuts refused, {harmless} of nothing but zeros, or of what a checkpoint has");
    assert!(refused > 0 && harmless > 0, "nothing was tried");
}

/// The power was cut: the marker may be older then, but what it says is still checked.
#[test]
fn a_cut_after_a_power_cut_is_noticed_up_to_the_marker() {
    let (mut refused, mut behind) = (0, 0);
    each_seed(80, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut world = CrashWorld::new(seed);
        let attempt = world.try_open().expect("an empty disk");
        for _ in 0..rng.random_range(2..30) {
            batch_run(&attempt.engine, &mut world.rng, &mut world.model, &mut Vec::new());
            world.disk.turns().grant(1000);
            if rng.random_bool(0.2) {
                // An idle engine.
                attempt.engine.step();
            }
        }
        let image = world.disk.power_cut();
        let names: Vec<String> = image.keys().cloned().collect();
        let disk = SimDisk::new(image.clone(), 1);
        let marker = marker_read(&disk, &names).unwrap().expect("a crash leaves a marker").marker;
        let name = super::super::log::segment_name(marker.sequence);
        let mut store = KilledStore { world, image, states: Vec::new(), markers: Vec::new() };
        let whole = store.open_as(store.image.clone(), "no cut").expect("a power cut is no damage");
        for _ in 0..20 {
            let (mut image, zeros) = (store.image.clone(), rng.random_bool(0.5));
            let at = rng.random_range(0..image[&name].len());
            cut(&mut image, &name, at, zeros);
            let what = format!("{name} cut at {at}, zeros {zeros}, {marker:?}");
            let end = usize::try_from(marker.end).unwrap();
            // A record may end with zeros, and a reused segment has other bytes behind it.
            let takes = image[&name].get(..end) != store.image[&name].get(..end) || !zeros;
            let takes = takes && image != store.image;
            match store.open_as(image, &what) {
                None => refused += 1,
                Some(rows) => {
                    assert!(!takes, "{what}: opened with less than was noted");
                    behind += u32::from(rows != whole);
                }
            }
        }
    });
    eprintln!("{refused} cuts refused, {behind} behind the marker");
    assert!(refused > 0 && behind > 0, "nothing was tried");
}

#[test]
fn a_missing_file_is_refused() {
    each_seed(30, |seed| {
        let mut store = store(seed, 25, seed % 2 == 0);
        for name in store.image.clone().into_keys() {
            // The store does not depend on its owner file.
            if name == "OWNER" {
                continue;
            }
            let mut image = store.image.clone();
            image.remove(&name);
            if let Some(rows) = store.open_as(image, &name) {
                assert!(
                    (name.starts_with("log-") || name.starts_with("spare-")) && &rows == store.rows(),
                    "{name} was missing and not missed"
                );
            }
        }
    });
}

/// The creation of a segment failed after its header was durable, and the log went on in the one before. A checkpoint
/// of some of that was written in place. Then a power cut brought the segment back.
#[test]
fn an_abandoned_segment_makes_nothing_obsolete() {
    let segment = |sequence, previous, versions: &[i64]| {
        let header = SegmentHeader { sequence, previous, salt: sequence };
        let mut bytes = header.encode().to_vec();
        for pair in [&[previous], versions].concat().windows(2) {
            let row = Mutation::Set(b"key"[..].into(), pair[1].to_string().into());
            record_encode(&mut bytes, sequence, pair[0], pair[1], RecordKind::Flushed(None), &[row]);
        }
        bytes.resize(4096, 0);
        bytes
    };
    let names = [segment_name(2), segment_name(3)];
    let image = DiskImage::from([
        (names[0].clone(), segment(2, 100, &[110, 120, 130])),
        (names[1].clone(), segment(3, 110, &[])),
    ]);
    let disk = SimDisk::new(image, 1);
    let mut read = Vec::new();
    let end = log_read(&disk, &names, 120, |record| read.push(record.version)).unwrap();
    assert_eq!((read, end.version), (vec![130], 130), "the checkpoint has the others");
    assert_eq!((end.unfinished, end.obsolete, end.missing), (Some(3), 0, None));
    // One that continues the last record is a segment like any other.
    let image = DiskImage::from([
        (names[0].clone(), segment(2, 100, &[110])),
        (names[1].clone(), segment(3, 110, &[])),
    ]);
    let end = log_read(&SimDisk::new(image, 1), &names, 110, |_| {}).unwrap();
    assert_eq!((end.unfinished, end.obsolete), (None, 1));
}

//! When keys are made, when they sign, and when they are gone.

use super::*;
use crate::check::{CheckMode, cell_rows_load, cell_violations};
use crate::testing::{TestCell, change};

const DAY_MS: i64 = 86_400_000;
const HOUR_MS: i64 = 3_600_000;

fn new(number: u64) -> NewWorkloadKey {
    let secret = number.to_be_bytes().to_vec();
    NewWorkloadKey { jwk: format!("{{\"kid\":\"{number}\"}}"), signer: WorkloadSigner { secret } }
}

fn keys_of(rows: &[(u64, i64, bool)]) -> WorkloadKeys {
    let mut keys = WorkloadKeys::default();
    for &(number, signs_from_ms, has_signer) in rows {
        keys.published.insert(number, WorkloadKey { jwk: String::new(), signs_from_ms });
        if has_signer {
            keys.signers.insert(number, new(number).signer);
        }
    }
    keys
}

#[test]
fn the_first_key_signs_at_once_and_a_later_one_is_published_for_a_day_before() {
    assert_eq!(WorkloadKeys::default().step(7).make, Some((1, 7)));
    let one = keys_of(&[(1, 0, true)]);
    assert!(one.step(29 * DAY_MS - 1).is_nothing());
    assert_eq!(one.step(29 * DAY_MS).make, Some((2, 30 * DAY_MS)));
    // After a long time in which nobody signed, the new one is published ahead as well.
    assert_eq!(one.step(90 * DAY_MS).make, Some((2, 91 * DAY_MS)));
    let two = keys_of(&[(1, 0, true), (2, 30 * DAY_MS, true)]);
    assert_eq!((two.signing(30 * DAY_MS - 1), two.signing(30 * DAY_MS)), (Some(1), Some(2)));
    assert!(two.step(31 * DAY_MS).is_nothing());
}

#[test]
fn a_key_stays_until_the_last_token_of_it_has_ended() {
    let two = keys_of(&[(1, 0, true), (2, 30 * DAY_MS, true)]);
    let longest_ms = i64::try_from(*IDENTITY_TTLS_MS.end()).unwrap();
    let over_ms = 30 * DAY_MS + longest_ms + SKEW_MS;
    assert_eq!(two.step(over_ms - 1).over, Vec::<u64>::new());
    assert_eq!(two.step(over_ms).over, [1]);
}

#[test]
fn a_cell_that_was_imported_makes_a_key_and_keeps_the_public_ones() {
    let imported = keys_of(&[(3, 0, false)]);
    assert_eq!(imported.signing(DAY_MS), None);
    assert_eq!(imported.step(DAY_MS), WorkloadKeysStep { make: Some((4, DAY_MS)), over: Vec::new() });
    let made = keys_of(&[(3, 0, false), (4, DAY_MS, true)]);
    assert_eq!((made.signing(DAY_MS), made.step(4 * DAY_MS).over), (Some(4), vec![3]));
}

#[test]
fn a_jump_of_the_clock_leaves_a_key_that_signs() {
    let keys = keys_of(&[(2, 30 * DAY_MS, true), (3, 60 * DAY_MS, true)]);
    assert_eq!(keys.signing(DAY_MS), Some(2));
}

#[test]
fn a_private_key_is_not_shown() {
    assert_eq!(format!("{:?}", new(1).signer), "WorkloadSigner(..)");
    let keys = WorkloadKeys { signers: [(1, new(0x4142).signer)].into(), ..WorkloadKeys::default() };
    assert!(format!("{keys:?}").contains("WorkloadSigner(..)"));
}

#[test]
fn a_key_that_is_rotated_in_is_the_one_that_signs_when_its_time_comes() {
    // The second was made by the calendar, and the third by an administrator.
    let keys = keys_of(&[(1, 0, true), (2, 30 * DAY_MS, true), (3, 29 * DAY_MS + 5, true)]);
    let signing = [29 * DAY_MS, 29 * DAY_MS + 5, 30 * DAY_MS, 31 * DAY_MS].map(|now_ms| keys.signing(now_ms));
    assert_eq!(signing, [Some(1), Some(3), Some(3), Some(3)]);
    assert_eq!(keys.step(31 * DAY_MS).make, None, "the next one is due a month after the last");
}

impl TestCell {
    async fn keys_renewed(&self, new: &NewWorkloadKey, now_ms: i64) -> WorkloadKeys {
        self.run(async |tx| workload_keys_renew(&tx, &self.space, new, now_ms).await).await.unwrap()
    }
}

/// Two gateways that make a key at the same time end with one.
#[tokio::test(start_paused = true)]
async fn gateways_agree_on_one_key() {
    let cell = TestCell::new().await;
    let (first, second) = (new(1), new(2));
    let (one, other) = tokio::join!(cell.keys_renewed(&first, 5), cell.keys_renewed(&second, 5));
    assert_eq!(one, other);
    assert_eq!((one.published.len(), one.signers.len()), (1, 1));
    let read = cell.run(async |tx| workload_keys_read(&tx, &cell.space).await);
    assert_eq!(read.await.unwrap(), one);
    let after = cell.keys_renewed(&new(3), 5 + 32 * DAY_MS).await;
    assert_eq!(after.published.keys().copied().collect::<Vec<_>>(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_private_key_without_its_public_half_is_damage_and_is_not_shown() {
    let cell = TestCell::new().await;
    cell.keys_renewed(&new(1), 5).await;
    cell.run(async |tx| keys::clear(&tx, &cell.space, &WorkloadKeyKey { number: 1 })).await.unwrap();
    let rows = cell_rows_load(&cell.db, &cell.space, 5, |_| {}).await.unwrap().0;
    let found = cell_violations(&rows, CheckMode::Always);
    assert_eq!(found.iter().map(|one| one.rule).collect::<Vec<_>>(), ["workload_signer"]);
    assert!(!found[0].to_string().contains("0000000000000001"), "{}", found[0]);
}

#[tokio::test(start_paused = true)]
async fn a_rotation_adds_a_key_and_a_withdrawal_takes_all_others() {
    let cell = TestCell::new().await;
    let read = async || cell.run(async |tx| workload_keys_read(&tx, &cell.space).await).await.unwrap();
    cell.keys_renewed(&new(1), 5).await;
    let rotate = async |secret: u64, rotation| {
        let new = new(secret);
        let made = cell.change(change(u128::from(secret), "rotate"), async |tx, changes| {
            workload_keys_rotate(tx, changes, &new, rotation).await
        });
        made.await.unwrap()
    };
    assert_eq!(rotate(2, KeyRotation::Ahead(HOUR_MS)).await, 2);
    let keys = read().await;
    let made_ms = keys.published[&2].signs_from_ms - HOUR_MS;
    assert_eq!((keys.signing(made_ms), keys.signing(made_ms + HOUR_MS)), (Some(1), Some(2)));
    assert_eq!(rotate(3, KeyRotation::Ahead(2 * HOUR_MS)).await, 2);
    let same = read().await;
    assert_eq!((same.published.len(), same.published[&2].signs_from_ms), (2, made_ms + HOUR_MS));
    assert_eq!(rotate(4, KeyRotation::Ahead(HOUR_MS / 2)).await, 2);
    let sooner = read().await;
    assert!(sooner.published[&2].signs_from_ms < made_ms + HOUR_MS, "it signs sooner");
    assert_eq!(sooner.signers.len(), 2);
    assert_eq!(rotate(5, KeyRotation::Withdraw).await, 3);
    let keys = read().await;
    assert_eq!(keys.published.keys().chain(keys.signers.keys()).copied().collect::<Vec<_>>(), [3, 3]);
    assert_eq!(keys.signing(made_ms), Some(3));
}

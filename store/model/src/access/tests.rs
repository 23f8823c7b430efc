//! Decisions about rights, against a plain reading of the grants.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::job::{Band, JobKind, JobSpec, TaskOverride};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn identity(user: &str, groups: &[&str]) -> Identity {
    Identity { user: name(user), groups: groups.iter().map(|group| name(group)).collect() }
}

fn grant(roles: &[AccessRole], allow: &[Right], deny: &[Right]) -> AccessGrant {
    let (roles, allow, deny) =
        (roles.iter().copied().collect(), allow.iter().copied().collect(), deny.iter().copied().collect());
    AccessGrant { roles, allow, deny }
}

fn table(grants: &[(&str, AccessGrant)]) -> AccessTable {
    let grants = grants.iter().map(|(subject, grant)| (subject.parse().unwrap(), grant.clone())).collect();
    AccessTable { grants, ..AccessTable::default() }
}

const CHANGE: ActionNeed = ActionNeed::Own { others: Right::ModifyAnyJob };
const LOOK: ActionNeed = ActionNeed::Own { others: Right::Read };

#[test]
fn nobody_may_do_what_no_grant_gives() {
    let empty = AccessTable::default();
    let ann = identity("ann", &["web"]);
    for need in [ActionNeed::Any, LOOK, CHANGE, ActionNeed::Right(Right::Administer)] {
        for owner in [None, Some(name("ann")), Some(name("bob"))] {
            assert!(need.decide(&empty, &ann, owner.as_ref()).is_err(), "{need:?} {owner:?}");
        }
    }
    assert!(ActionNeed::Identity.decide(&empty, &ann, None).is_ok());
}

#[test]
fn who_runs_jobs_has_the_own_ones_and_no_others() {
    let table = table(&[("group/web", grant(&[AccessRole::Runner], &[], &[]))]);
    let ann = identity("ann", &["web"]);
    let (own, other) = (name("ann"), name("bob"));
    for need in [LOOK, CHANGE] {
        let given = need.decide(&table, &ann, Some(&own)).unwrap().unwrap();
        assert_eq!(given.to_string(), "group/web has role runner");
        for owner in [Some(&other), None] {
            let refused = need.decide(&table, &ann, owner).unwrap_err();
            assert!(matches!(refused, AccessRefused::Missing { own_only: true, .. }), "{refused:?}");
        }
    }
    assert!(ActionNeed::Any.decide(&table, &ann, None).is_ok());
    assert!(LOOK.decide(&table, &identity("ann", &[]), Some(&own)).is_err(), "the right is the group's");
}

#[test]
fn who_may_change_every_job_may_change_the_own_ones() {
    let table = table(&[("user/ann", grant(&[], &[Right::ModifyAnyJob], &[]))]);
    let ann = identity("ann", &[]);
    for owner in ["ann", "bob"] {
        let reason = CHANGE.decide(&table, &ann, Some(&name(owner))).unwrap().unwrap();
        assert_eq!(reason.to_string(), "user/ann allows modify_any_job");
    }
    assert!(LOOK.decide(&table, &ann, Some(&name("bob"))).is_err(), "a right gives no other");
}

#[test]
fn a_denial_of_any_group_wins() {
    let table = table(&[
        ("user/ann", grant(&[AccessRole::Admin], &[], &[])),
        ("group/leaving", grant(&[], &[], &[Right::RunJobs, Right::Administer])),
    ]);
    let leaving = identity("ann", &["leaving", "web"]);
    let refused = ActionNeed::Right(Right::Administer).decide(&table, &leaving, None).unwrap_err();
    assert_eq!(refused.to_string(), "ann: administer is denied to group/leaving");
    assert!(CHANGE.decide(&table, &leaving, Some(&name("ann"))).is_err(), "also for the own");
    assert!(CHANGE.decide(&table, &leaving, Some(&name("bob"))).is_ok(), "what is not denied stays");
    assert!(ActionNeed::Right(Right::Administer).decide(&table, &identity("ann", &[]), None).is_ok());
}

#[test]
fn production_needs_a_quota_whose_window_is_open_or_a_right() {
    let mut table = table(&[
        ("user/ann", grant(&[AccessRole::Runner], &[], &[])),
        ("user/eve", grant(&[], &[Right::RaisePriority], &[])),
    ]);
    let window = QuotaWindow { from_ms: Some(10), until_ms: Some(20) };
    let tie = QuotaTie { window: Some(window), parent: None };
    table.quotas.insert((AccessSubject::User(name("ann")), Band::Production), tie);
    let may = |user: &str, owner: &str, priority, now| {
        table.priority_decide(&identity(user, &[]), &name(owner), priority, now).is_ok()
    };
    assert!(may("ann", "ann", 199, 0));
    assert_eq!([9, 10, 19, 20].map(|now| may("ann", "ann", 200, now)), [false, true, true, false]);
    assert!(!may("ann", "ann", 300, 15), "the quota is of another band");
    assert!(!may("ann", "bob", 200, 15), "the quota is of another user");
    assert!(!may("bob", "ann", 200, 15), "nobody spends another user's quota");
    assert!(may("eve", "ann", 200, 15));
    assert!(may("eve", "eve", 399, 0));
}

#[test]
fn the_quota_of_a_group_above_serves_its_users_while_all_windows_are_open() {
    let mut table = table(&[("user/ann", grant(&[AccessRole::Runner], &[], &[]))]);
    let mut put = |holder: &str, window: Option<(i64, i64)>, parent: Option<&str>| {
        let window = window.map(|(from, until)| QuotaWindow { from_ms: Some(from), until_ms: Some(until) });
        let tie = QuotaTie { window, parent: parent.map(name) };
        table.quotas.insert((holder.parse().unwrap(), Band::Production), tie);
    };
    put("user/ann", None, Some("web"));
    put("group/web", Some((10, 30)), Some("shop"));
    put("group/shop", Some((20, 40)), None);
    put("user/bob", None, None);
    let may = |user: &str, now| table.priority_decide(&identity(user, &[]), &name(user), 200, now).is_ok();
    assert_eq!([19, 20, 29, 30].map(|now| may("ann", now)), [false, true, true, false]);
    assert!(!may("bob", 25), "nothing of bob is limited");
    table.quotas.insert(
        ("user/bob".parse().unwrap(), Band::Production),
        QuotaTie { window: Some(QuotaWindow::default()), parent: None },
    );
    let top = |user: &str| table.quota_group_top(&name(user), Band::Production);
    assert_eq!((top("ann"), top("bob"), top("cyd")), (Some(name("shop")), None, None));
}

#[test]
fn a_change_that_asks_for_no_more_is_told_from_one_that_does() {
    let spec = JobSpec::defaults(name("ann"), name("web"), JobKind::Service, vec!["true".to_owned()]);
    let with = |edit: fn(&mut JobSpec)| {
        let mut after = spec.clone();
        edit(&mut after);
        asks_for_more(&spec, 1, &after)
    };
    assert!(!with(|_| ()));
    assert!(!with(|after| after.count = 0));
    assert!(!with(|after| after.priority -= 1));
    assert!(!with(|after| after.task.resources.cpu_millis = 0));
    assert!(!with(|after| after.task.command.push("x".to_owned())));
    assert!(with(|after| after.count = 2));
    assert!(with(|after| after.priority += 1));
    assert!(with(|after| after.task.resources.memory_bytes += 1));
    assert!(with(|after| after.task.resources.device_millis.extend([("gpu".to_owned(), 1)])));
    assert!(with(|after| after.overrides.extend([(0, TaskOverride::default())])));
}

#[test]
fn a_grant_does_not_allow_and_deny_the_same() {
    let both = grant(&[], &[Right::Read, Right::RunJobs], &[Right::Read]);
    let refused = grant_check(&both).unwrap_err();
    assert_eq!(refused.len(), 1);
    assert_eq!((refused[0].path.as_str(), refused[0].value.as_str()), ("grant.deny", "\"read\""));
    assert!(grant_check(&grant(&[AccessRole::Admin], &[], &[Right::Read])).is_ok());
}

#[test]
fn subjects_are_what_they_print() {
    for text in ["user/ann", "group/web-team"] {
        assert_eq!(text.parse::<AccessSubject>().unwrap().to_string(), text);
    }
    for wrong in ["ann", "user/", "user/Ann!", "team/ann", "", "/", "user/ann/b"] {
        assert!(wrong.parse::<AccessSubject>().is_err(), "{wrong}");
    }
}

fn rights() -> impl Strategy<Value = BTreeSet<Right>> {
    proptest::collection::btree_set(proptest::sample::select(Right::ALL.to_vec()), 0..4)
}

fn any_grant() -> impl Strategy<Value = AccessGrant> {
    let roles = proptest::collection::btree_set(proptest::sample::select(AccessRole::ALL.to_vec()), 0..3);
    (roles, rights(), rights()).prop_map(|(roles, allow, deny)| AccessGrant { roles, allow, deny })
}

proptest! {
    /// The decision about a right is the plain reading of all grants of the identity.
    #[test]
    fn a_right_is_given_by_some_grant_and_denied_by_none(
        grants in proptest::collection::vec(any_grant(), 4),
        member in proptest::collection::vec(any::<bool>(), 3),
        right in proptest::sample::select(Right::ALL.to_vec()),
    ) {
        let subjects = ["user/ann", "group/a", "group/b", "group/c"];
        let table = table(&subjects.into_iter().zip(grants.clone()).collect::<Vec<_>>());
        let groups: Vec<&str> = ["a", "b", "c"].into_iter().zip(&member).filter(|(_, is)| **is).map(|(name, _)| name).collect();
        let mine: Vec<&AccessGrant> =
            grants.iter().zip([true].into_iter().chain(member.iter().copied())).filter(|(_, is)| *is).map(|(grant, _)| grant).collect();
        let denied = mine.iter().any(|grant| grant.deny.contains(&right));
        let given = mine.iter().any(|grant| {
            grant.allow.contains(&right) || grant.roles.iter().any(|role| role.rights().contains(&right))
        });
        let decided = ActionNeed::Right(right).decide(&table, &identity("ann", &groups), None);
        prop_assert_eq!(decided.is_ok(), given && !denied);
    }

    /// A further denial never gives anybody anything.
    #[test]
    fn a_denial_gives_nothing(grant in any_grant(), denied in rights(), own in any::<bool>()) {
        let ann = identity("ann", &[]);
        let owner = name(if own { "ann" } else { "bob" });
        let before = table(&[("user/ann", grant.clone())]);
        let mut stricter = grant;
        stricter.deny.extend(denied);
        let after = table(&[("user/ann", stricter)]);
        for need in [LOOK, CHANGE, ActionNeed::Any, ActionNeed::Right(Right::ExecAnyTask)] {
            let may = |table: &AccessTable| need.decide(table, &ann, Some(&owner)).is_ok();
            prop_assert!(may(&before) || !may(&after), "{:?}", need);
        }
    }
}

//! The user of a person who has named none: the login name, in the form of a user name.

use borough_model::Name;
use nix::unistd::{Uid, User};

/// The user whose login this is. Environments without a login, such as containers and timers, lack `USER`; the system
/// knows the name all the same.
pub(super) fn user_name() -> String {
    let variables = ["USER", "LOGNAME"].map(|name| std::env::var(name).ok());
    let uid = Uid::effective();
    name_of(variables, uid.as_raw(), || User::from_uid(uid).ok().flatten().map(|user| user.name))
}

/// The first name of the variables, else the one that the system's database has, else `u` and the number of the user.
fn name_of(variables: [Option<String>; 2], uid: u32, stored: impl FnOnce() -> Option<String>) -> String {
    let given = variables.into_iter().flatten().find_map(|login| user_name_of(&login));
    let stored = || stored().and_then(|login| user_name_of(&login));
    given.or_else(stored).unwrap_or_else(|| format!("u{uid}"))
}

/// A login name as a user name: characters that a name cannot have become `-`. `None` if none is left.
fn user_name_of(login: &str) -> Option<String> {
    let lower = login.to_lowercase();
    let allowed = |each: char| if matches!(each, 'a'..='z' | '0'..='9') { each } else { '-' };
    let mapped: String = lower.chars().map(allowed).take(Name::LENGTH_MAX - 1).collect();
    let trimmed = mapped.trim_matches('-');
    match trimmed.chars().next()? {
        '0'..='9' => Some(format!("u{trimmed}")),
        _ => Some(trimmed.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_login_becomes_a_user_name() {
        for (login, user) in [
            ("alice", Some("alice")),
            ("Alice.Smith", Some("alice-smith")),
            ("DOMAIN\\bob", Some("domain-bob")),
            ("1000", Some("u1000")),
            ("_svc_", Some("svc")),
            ("", None),
            ("---", None),
            ("ünal", Some("nal")),
        ] {
            assert_eq!(user_name_of(login).as_deref(), user);
        }
        for long in ["x".repeat(200), "9".repeat(200)] {
            assert!(Name::new(user_name_of(&long).unwrap()).is_ok());
        }
    }

    #[test]
    fn a_name_that_no_variable_has_is_that_of_the_system() {
        let of = |user: Option<&str>, logname: Option<&str>, stored: Option<&str>| {
            name_of([user, logname].map(|name| name.map(str::to_owned)), 1000, || stored.map(str::to_owned))
        };
        assert_eq!(of(Some("ann"), Some("bob"), Some("root")), "ann");
        assert_eq!(of(None, Some("bob"), Some("root")), "bob");
        assert_eq!(of(None, None, Some("root")), "root");
        assert_eq!(of(Some(""), Some("-"), Some("root")), "root");
        assert_eq!(of(None, None, None), "u1000");
    }
}

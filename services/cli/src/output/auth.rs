//! Grants, rights and roles.

use borough_model::access::AccessRole;
use borough_proto::v1;
use serde::Serialize;

use super::Foreign;
use super::table::Tabular;
use super::text::time;

/// What a user or a group is given and denied.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct GrantView {
    pub(crate) subject: Foreign,
    pub(crate) roles: Vec<Foreign>,
    pub(crate) allow: Vec<Foreign>,
    pub(crate) deny: Vec<Foreign>,
    /// Counts the changes of the grant; 0: it was never set.
    pub(crate) revision: u64,
}

fn foreign(texts: Vec<String>) -> Vec<Foreign> {
    texts.into_iter().map(Foreign::from).collect()
}

fn listed(texts: &[Foreign]) -> String {
    if texts.is_empty() {
        return "-".to_owned();
    }
    texts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl From<v1::Grant> for GrantView {
    fn from(grant: v1::Grant) -> Self {
        Self {
            subject: grant.subject.into(),
            roles: foreign(grant.roles),
            allow: foreign(grant.allow),
            deny: foreign(grant.deny),
            revision: grant.revision,
        }
    }
}

impl Tabular for GrantView {
    const PLURAL: &'static str = "grants";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["SUBJECT", "ROLES", "ALLOW", "DENY"], vec!["REVISION"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let row =
            vec![self.subject.to_string(), listed(&self.roles), listed(&self.allow), listed(&self.deny)];
        (row, vec![self.revision.to_string()])
    }
}

/// One change of a grant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct GrantChangeView {
    pub(crate) revision: u64,
    pub(crate) at_ms: i64,
    pub(crate) by: Foreign,
    pub(crate) roles: Vec<Foreign>,
    pub(crate) allow: Vec<Foreign>,
    pub(crate) deny: Vec<Foreign>,
}

impl From<v1::GrantChange> for GrantChangeView {
    fn from(change: v1::GrantChange) -> Self {
        let grant = change.grant.unwrap_or_default();
        Self {
            revision: grant.revision,
            at_ms: change.at_ms,
            by: change.by.into(),
            roles: foreign(grant.roles),
            allow: foreign(grant.allow),
            deny: foreign(grant.deny),
        }
    }
}

impl Tabular for GrantChangeView {
    const PLURAL: &'static str = "changes";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["REVISION", "TIME", "BY", "ROLES", "ALLOW", "DENY"], Vec::new())
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let row = vec![
            self.revision.to_string(),
            time(self.at_ms),
            self.by.to_string(),
            listed(&self.roles),
            listed(&self.allow),
            listed(&self.deny),
        ];
        (row, Vec::new())
    }
}

/// A role with its rights.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RoleView {
    pub(crate) role: &'static str,
    pub(crate) rights: Vec<&'static str>,
}

impl RoleView {
    pub(crate) fn of(role: AccessRole) -> Self {
        Self { role: role.name(), rights: role.rights().iter().map(|right| right.name()).collect() }
    }
}

impl Tabular for RoleView {
    const PLURAL: &'static str = "roles";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["ROLE", "RIGHTS"], Vec::new())
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        (vec![self.role.to_owned(), self.rights.join(", ")], Vec::new())
    }
}

/// Whether the caller has a right, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RightView {
    pub(crate) right: &'static str,
    pub(crate) allowed: bool,
    pub(crate) reason: Foreign,
    pub(crate) meaning: &'static str,
}

impl Tabular for RightView {
    const PLURAL: &'static str = "rights";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["RIGHT", "ALLOWED", "WHY"], vec!["MEANING"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let allowed = if self.allowed { "yes" } else { "no" };
        let row = vec![self.right.to_owned(), allowed.to_owned(), self.reason.to_string()];
        (row, vec![self.meaning.to_owned()])
    }
}

/// A certificate of an authority.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CertificateView {
    pub(crate) name: Foreign,
    /// In hexadecimal.
    pub(crate) serial: Foreign,
    /// valid, expired or revoked.
    pub(crate) state: &'static str,
    pub(crate) expires_ms: i64,
    /// Null: it is not revoked.
    pub(crate) revoked_ms: Option<i64>,
}

impl Tabular for CertificateView {
    const PLURAL: &'static str = "certificates";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["NAME", "STATE", "EXPIRES", "SERIAL"], Vec::new())
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let row = vec![
            self.name.to_string(),
            self.state.to_owned(),
            time(self.expires_ms),
            self.serial.to_string(),
        ];
        (row, Vec::new())
    }
}

/// Whether somebody may do something, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct AccessAnswerView {
    pub(crate) allowed: bool,
    pub(crate) reason: Foreign,
}

impl AccessAnswerView {
    pub(crate) fn text(&self) -> String {
        let word = if self.allowed { "yes" } else { "no" };
        format!("{word}: {}", self.reason)
    }
}

/// A user or a group that may do something.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HolderView {
    pub(crate) subject: Foreign,
    pub(crate) by: Foreign,
}

impl Tabular for HolderView {
    const PLURAL: &'static str = "holders";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["SUBJECT", "WHY"], Vec::new())
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        (vec![self.subject.to_string(), self.by.to_string()], Vec::new())
    }
}

/// A key that signs the identities of tasks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct IdentityKeyView {
    pub(crate) id: Foreign,
    pub(crate) number: u64,
    pub(crate) signs_from_ms: i64,
    /// `next`, `signs` or `checks`.
    #[serde(rename = "use")]
    pub(crate) key_use: &'static str,
}

impl From<v1::IdentityKey> for IdentityKeyView {
    fn from(key: v1::IdentityKey) -> Self {
        let key_use = match key.r#use() {
            v1::IdentityKeyUse::Unspecified => "unknown",
            v1::IdentityKeyUse::Next => "next",
            v1::IdentityKeyUse::Signs => "signs",
            v1::IdentityKeyUse::Checks => "checks",
        };
        Self { id: key.id.into(), number: key.number, signs_from_ms: key.signs_from_ms, key_use }
    }
}

impl Tabular for IdentityKeyView {
    const PLURAL: &'static str = "keys";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["NUMBER", "USE", "SIGNS FROM", "ID"], Vec::new())
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let from = time(self.signs_from_ms);
        (vec![self.number.to_string(), self.key_use.to_owned(), from, self.id.to_string()], Vec::new())
    }
}

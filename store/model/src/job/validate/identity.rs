//! Checks the identities and the secrets of a task.

use std::collections::BTreeSet;

use crate::field_error::{FieldErrors, delay_text};
use crate::job::secret::secret_place_is_fine;
use crate::job::{AUDIENCE_BYTES_MAX, IDENTITIES_MAX, IDENTITY_TTLS_MS, SECRETS_MAX, TaskSpec};

pub(in crate::job) fn identities_check(fields: &mut FieldErrors, path: &str, task: &TaskSpec) {
    let identities = &task.identities;
    let count = format!("{} identities", identities.len());
    fields.require(identities.len() <= IDENTITIES_MAX, path, count, format!("at most {IDENTITIES_MAX}"));
    let mut names = BTreeSet::new();
    for (at, identity) in identities.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let name = format!("{:?}", identity.name.as_str());
        fields.require(names.insert(&identity.name), &format!("{path}.name"), name, "each name once");
        let audience = &identity.audience;
        let is_visible = |byte: u8| byte.is_ascii_graphic();
        let fine = (1..=AUDIENCE_BYTES_MAX).contains(&audience.len()) && audience.bytes().all(is_visible);
        let accepted = format!(
            "1 to {AUDIENCE_BYTES_MAX} characters of visible ASCII, such as vault or https://vault.example.org"
        );
        fields.require(fine, &format!("{path}.audience"), format!("{audience:?}"), accepted);
        let (least, most) = (*IDENTITY_TTLS_MS.start(), *IDENTITY_TTLS_MS.end());
        let accepted = format!("{} to {}", delay_text(least), delay_text(most));
        let ttl = delay_text(identity.ttl_ms);
        fields.require(IDENTITY_TTLS_MS.contains(&identity.ttl_ms), &format!("{path}.ttl_ms"), ttl, accepted);
    }
}

pub(in crate::job) fn secrets_check(fields: &mut FieldErrors, path: &str, task: &TaskSpec) {
    let secrets = &task.secrets;
    let count = format!("{} secrets", secrets.len());
    fields.require(secrets.len() <= SECRETS_MAX, path, count, format!("at most {SECRETS_MAX}"));
    let mut names = BTreeSet::new();
    for (at, secret) in secrets.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let name_path = format!("{path}.name");
        let given = format!("{:?}", secret.name);
        fields.variable(&name_path, &secret.name);
        fields.require(names.insert(&secret.name), &name_path, &given, "each name once");
        let is_taken = task.environment.contains_key(&secret.name)
            || task.helpers.iter().any(|helper| helper.environment.contains_key(&secret.name));
        let accepted = "a name that no `environment` of the task has";
        fields
            .related(&["task.environment", "task.helpers"])
            .require(!is_taken, &name_path, &given, accepted);
        let accepted = "the path of a file below the secrets of the job's user, such as db/password: parts of letters, \
                        digits, '.', '_' and '-' that begin with no '.'";
        let fine = secret_place_is_fine(&secret.source);
        fields.require(fine, &format!("{path}.source"), format!("{:?}", secret.source), accepted);
    }
}

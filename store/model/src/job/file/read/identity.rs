//! Reads the identities and the secrets of a task.

use serde_json::{Value, json};

use super::super::described;
use super::super::kind::{delay_schema_within, text_schema, words_schema};
use super::super::reader::{FieldReader, FileItem};
use super::super::tree::TreeValue;
use super::{any_of, map_of};
use crate::job::{
    IDENTITIES_MAX, IDENTITY_TTL_MS, IDENTITY_TTLS_MS, IdentitySpec, SECRETS_MAX, SecretForm,
    SecretReference, TaskSpec,
};

const IDENTITY: [&str; 3] = ["name", "audience", "ttl"];
const IDENTITIES: &str =
    "a list of identities such as [vault] or [{name: vault, audience: \"https://vault.example.org\"}]";
const SECRET: [&str; 3] = ["name", "source", "as"];
const SECRETS: &str = "a list of secrets such as [{name: DB_PASSWORD, source: db/password}]";
const SECRET_NAME: &str = "the name of a variable such as DB_PASSWORD";
const SECRET_SOURCE: &str = "the path of a file below the secrets of the job's user, such as db/password";

pub(crate) fn identities_schema() -> Value {
    let ttl = delay_schema_within(*IDENTITY_TTLS_MS.start(), *IDENTITY_TTLS_MS.end());
    let form = json!({
        "name": described("Its name, unique within the task.", json!({"type": "string"})),
        "audience": described("Who is to accept its tokens. Default: the name", text_schema()),
        "ttl": described("How long each token is valid; it is renewed at half of it. Default: 1h", ttl),
    });
    let one = any_of(&[json!({"type": "string"}), map_of(form, &["name"])]);
    json!({"type": "array", "maxItems": IDENTITIES_MAX, "items": one})
}

pub(crate) fn identities_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    _: &TaskSpec,
) -> Option<Vec<IdentitySpec>> {
    let items = reader.items(item, IDENTITIES);
    Some(items.iter().filter_map(|item| identity_decode(reader, item)).collect())
}

fn identity_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<IdentitySpec> {
    if !matches!(item.node.value, TreeValue::Map(_)) {
        let name = reader.name_or_stand_in(item);
        let audience = name.to_string();
        return Some(IdentitySpec { name, audience, ttl_ms: IDENTITY_TTL_MS });
    }
    let fields = reader.fields(item, &IDENTITY)?;
    let name = reader.name_of(item, &fields, "name", "a name such as vault");
    let audience = match fields.get("audience") {
        Some(item) => reader.text(&item).unwrap_or_else(|| name.to_string()),
        None => name.to_string(),
    };
    let ttl_ms = fields.get("ttl").and_then(|item| reader.duration(&item));
    Some(IdentitySpec { name, audience, ttl_ms: ttl_ms.unwrap_or(IDENTITY_TTL_MS) })
}

pub(crate) fn secrets_schema() -> Value {
    let form = json!({
        "name": described("The variable, unique within the task.", text_schema()),
        "source": described("Where its node has it, below the secrets of the job's user.", text_schema()),
        "as": described("What the variable has: the secret, or the path of a file with it. Default: variable",
            words_schema(&SecretForm::NAMES)),
    });
    json!({"type": "array", "maxItems": SECRETS_MAX, "items": map_of(form, &["name", "source"])})
}

pub(crate) fn secrets_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    _: &TaskSpec,
) -> Option<Vec<SecretReference>> {
    let items = reader.items(item, SECRETS);
    Some(items.iter().filter_map(|item| secret_decode(reader, item)).collect())
}

fn secret_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<SecretReference> {
    let fields = reader.fields(item, &SECRET)?;
    let mut text = |field: &str, accepted: &str| match fields.get(field) {
        Some(item) => reader.text(&item).unwrap_or_else(|| "unread".to_owned()),
        None => {
            reader.missing(item, field, accepted);
            "unread".to_owned()
        }
    };
    let (name, source) = (text("name", SECRET_NAME), text("source", SECRET_SOURCE));
    let form = fields.get("as").and_then(|item| reader.word(&item, &SecretForm::NAMES));
    Some(SecretReference { name, source, form: form.unwrap_or(SecretForm::Variable) })
}

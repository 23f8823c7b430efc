//! Secrets of a task, as references. The node resolves them; the cell never has what is in them.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Most secrets of a task.
pub const SECRETS_MAX: usize = 16;
/// Most bytes of the place of a secret.
pub const SECRET_PLACE_BYTES_MAX: usize = 256;

/// A secret that a task gets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct SecretReference {
    /// The variable, unique within the task.
    #[n(0)]
    pub name: String,
    /// Where it is among the secrets that a node has of the job's user: a relative path such as `db/password`.
    #[n(1)]
    pub source: String,
    /// What the variable has.
    #[n(2)]
    pub form: SecretForm,
}

/// What the variable of a secret has.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum SecretForm {
    /// The secret itself.
    #[n(0)]
    Variable,
    /// The path of a file with it.
    #[n(1)]
    File,
}

impl SecretForm {
    /// The forms with their names in a job file.
    pub const NAMES: [(&'static str, Self); 2] = [("variable", Self::Variable), ("file", Self::File)];
}

/// The name of the file of a secret, in the task's own directory.
pub fn secret_file_name(name: &str) -> String {
    format!("secret-{name}")
}

/// Returns true if a place of a secret stays below the directory of its user. A gateway and an agent use this one rule.
pub fn secret_place_is_fine(place: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(inner);
    place.len() <= SECRET_PLACE_BYTES_MAX && place.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_stays_below_its_directory() {
        for fine in ["db/password", "key", "a-b/c_d.e"] {
            assert!(secret_place_is_fine(fine), "{fine}");
        }
        let long = "x".repeat(SECRET_PLACE_BYTES_MAX + 1);
        for bad in [
            "",
            "/etc/shadow",
            "../ben/key",
            "a/../b",
            "a//b",
            "a/",
            ".",
            "..",
            ".hidden",
            "a\0b",
            "a b",
            &long,
        ] {
            assert!(!secret_place_is_fine(bad), "{bad:?}");
        }
    }
}

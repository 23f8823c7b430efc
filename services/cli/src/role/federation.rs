//! The credentials by which a federation reaches its member cells, and the role itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use borough_client::{Client, ClientConfig, ClientToken};
use borough_federation::MemberClients;
use borough_kv::env::Rng;
use borough_kv::secret::Secret;
use borough_model::member::MemberRow;
use borough_proto::connect::Connector;
use borough_store::error_chain;

/// The user of the federation's calls: each cell sees it in its audit.
const USER: &str = "federation";

/// Tokens in a directory: `CELL.token` for one cell, `default.token` for the others.
pub(super) struct CredentialDirectory {
    pub(super) directory: PathBuf,
    /// For a cell without a file: in a dev cell, the token of its own operator.
    pub(super) fallback: Option<PathBuf>,
    /// Plain connections, or encrypted ones with the certificates of this role.
    pub(super) connector: Connector,
    pub(super) rng: Arc<dyn Rng>,
}

impl CredentialDirectory {
    /// The file with the token for a cell.
    fn token_of(&self, member: &MemberRow) -> Result<PathBuf, String> {
        let own = self.directory.join(format!("{}.token", member.cell));
        let candidates =
            [Some(own.clone()), Some(self.directory.join("default.token")), self.fallback.clone()];
        let found = candidates.into_iter().flatten().find(|path| path.exists());
        found.ok_or_else(|| format!("no token for the cell: neither {} nor default.token there", shown(&own)))
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

impl MemberClients for CredentialDirectory {
    fn credential(&self, member: &MemberRow) -> Result<Secret, String> {
        Secret::read(&self.token_of(member)?).map_err(|error| error_chain(&error))
    }

    fn client(&self, member: &MemberRow, gateway: &str, credential: &Secret) -> Result<Client, String> {
        let mut config = ClientConfig::new(vec![gateway.to_owned()], USER, member.cell.as_str());
        config.token = Some(ClientToken::Value(credential.expose().to_owned()));
        config.token_source = self.token_of(member).ok().map(|path| format!("the file {}", path.display()));
        config.connector = self.connector.clone();
        Client::new(config, Arc::clone(&self.rng)).map_err(|error| error_chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;

    use borough_kv::env::SystemRng;
    use borough_model::{MemberId, Name};

    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_cell_has_a_token_of_its_own_or_the_common_one() {
        let directory = tempfile::tempdir().unwrap();
        let row = MemberRow {
            id: MemberId(1),
            cell: Name::new("eu1").unwrap(),
            gateways: vec!["127.0.0.1:1".to_owned()],
            labels: BTreeMap::new(),
            cordoned: false,
            revision: 1,
            joined_ms: 0,
            changed_ms: 0,
            changed_by: String::new(),
            draining: false,
        };
        let mut credentials = CredentialDirectory {
            directory: directory.path().to_owned(),
            fallback: None,
            connector: Connector::default(),
            rng: SystemRng::shared(),
        };
        let missing = credentials.credential(&row).err().unwrap();
        assert!(missing.contains("eu1.token"), "{missing}");
        let write = |name: &str, text: &str, mode| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let dev = write("token", SECRET, 0o600);
        credentials.fallback = Some(dev.clone());
        assert_eq!(credentials.token_of(&row), Ok(dev));
        let common = write("default.token", SECRET, 0o600);
        assert_eq!(credentials.token_of(&row), Ok(common));
        let own = write("eu1.token", SECRET, 0o600);
        assert_eq!(credentials.token_of(&row), Ok(own.clone()));
        let secret = credentials.credential(&row).unwrap();
        assert!(credentials.client(&row, "127.0.0.1:1", &secret).is_ok());
        // As Kubernetes projects a secret.
        std::fs::rename(&own, directory.path().join("..eu1")).unwrap();
        std::os::unix::fs::symlink("..eu1", &own).unwrap();
        let linked = credentials.credential(&row).unwrap();
        assert_eq!((linked.expose(), credentials.token_of(&row)), (SECRET, Ok(own)));
        for (text, mode) in [("", 0o600), (SECRET, 0o644)] {
            write("eu1.token", text, mode);
            let refused = credentials.credential(&row).err().unwrap();
            assert!(refused.contains("eu1.token"), "{refused}");
        }
    }
}

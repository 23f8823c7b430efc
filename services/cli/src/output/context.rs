//! Contexts.

use serde::Serialize;

use super::Foreign;
use super::table::Tabular;
use crate::context_file::SavedContext;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ContextView {
    pub(crate) name: Foreign,
    /// Whether commands that name none use it.
    pub(crate) current: bool,
    pub(crate) gateways: Vec<Foreign>,
    /// The directory of a dev cell.
    pub(crate) dir: Option<Foreign>,
    pub(crate) cell: Option<Foreign>,
    pub(crate) user: Option<Foreign>,
    pub(crate) token_file: Option<Foreign>,
    pub(crate) token_variable: Option<Foreign>,
    /// The authority whose certificates its gateways must have; null: nothing is encrypted.
    pub(crate) tls_ca: Option<Foreign>,
    pub(crate) tls_cert: Option<Foreign>,
    pub(crate) tls_key: Option<Foreign>,
}

impl ContextView {
    pub(crate) fn new(name: String, saved: SavedContext, current: Option<&str>) -> Self {
        let path = |path: std::path::PathBuf| Foreign::from(path.display().to_string());
        Self {
            current: current == Some(name.as_str()),
            name: name.into(),
            gateways: saved.gateways.into_iter().map(Foreign::from).collect(),
            dir: saved.dir.map(path),
            cell: saved.cell.map(Foreign::from),
            user: saved.user.map(Foreign::from),
            token_file: saved.token_file.map(path),
            token_variable: saved.token_variable.map(Foreign::from),
            tls_ca: saved.tls_ca.map(path),
            tls_cert: saved.tls_cert.map(path),
            tls_key: saved.tls_key.map(path),
        }
    }
}

impl Tabular for ContextView {
    const PLURAL: &'static str = "contexts";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["IN USE", "NAME", "GATEWAYS", "CELL", "USER", "TOKEN"], Vec::new())
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let text = |value: &Option<Foreign>| value.as_ref().map(ToString::to_string).unwrap_or_default();
        let gateways: Vec<String> = self.gateways.iter().map(ToString::to_string).collect();
        let gateways = match &self.dir {
            Some(dir) => format!("of the dev cell in {dir}"),
            None => gateways.join(","),
        };
        let token = match &self.token_variable {
            Some(variable) => format!("${variable}"),
            None => text(&self.token_file),
        };
        let used = if self.current { "*" } else { "" };
        let cells =
            vec![used.to_owned(), self.name.to_string(), gateways, text(&self.cell), text(&self.user), token];
        (cells, Vec::new())
    }
}

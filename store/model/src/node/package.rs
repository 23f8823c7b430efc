//! Packages: software that is installed on a node, by name and version as `web/1.4.2`. Tasks may ask for it.

use std::collections::BTreeSet;

use crate::field_error::FieldErrors;

/// Most packages of a node that its row records.
pub const NODE_PACKAGES_MAX: usize = 512;
/// Most bytes of their names together, so that a node's row stays small.
const NODE_PACKAGES_BYTES_MAX: usize = 20_000;
/// Most packages that a task asks for.
const TASK_PACKAGES_MAX: usize = 32;
/// Most bytes of a name with its version: as an attribute it is a key with this prefix.
const PACKAGE_BYTES_MAX: usize = 128 - ATTRIBUTE_PREFIX.len();
pub(super) const ATTRIBUTE_PREFIX: &str = "package/";
/// The value of the attribute of a package that is installed.
pub(super) const INSTALLED: &str = "installed";

/// Returns true for the name of a package with its version: a key with one `/` between the two.
fn package_fine(package: &str) -> bool {
    let part = |part: &str| {
        part.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let parts = package.split_once('/');
    package.len() <= PACKAGE_BYTES_MAX && parts.is_some_and(|(name, version)| part(name) && part(version))
}

/// The packages of an agent that are reported and stored: those with valid names, in order, as many as fit.
pub fn node_packages_kept(found: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    let fine: BTreeSet<String> = found.into_iter().filter(|package| package_fine(package)).collect();
    let mut bytes = 0;
    let fits = |package: &String| {
        bytes += package.len();
        bytes <= NODE_PACKAGES_BYTES_MAX
    };
    fine.into_iter().take(NODE_PACKAGES_MAX).take_while(fits).collect()
}

/// The attribute for constraints on a package: `package/web/1.4.2`.
pub fn package_attribute(package: &str) -> String {
    format!("{ATTRIBUTE_PREFIX}{package}")
}

/// The attributes of a node that has these packages.
pub fn package_attributes(packages: &BTreeSet<String>) -> impl Iterator<Item = (String, &'static str)> {
    packages.iter().map(|package| (package_attribute(package), INSTALLED))
}

/// Checks the packages that a task asks for.
pub(crate) fn task_packages_check(fields: &mut FieldErrors, packages: &[String]) {
    let count = format!("{} packages", packages.len());
    let most = format!("at most {TASK_PACKAGES_MAX}");
    fields.require(packages.len() <= TASK_PACKAGES_MAX, "task.packages", count, most);
    let mut seen = BTreeSet::new();
    for (at, package) in packages.iter().enumerate() {
        let accepted = "a name and a version such as web/1.4.2, each once";
        let fine = package_fine(package) && seen.insert(package);
        fields.require(fine, &format!("task.packages[{at}]"), format!("{package:?}"), accepted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_package_is_left_out_and_the_rest_is_bounded() {
        let found = ["web/1.4.2", "web", "web/1/2", "/1", "a/", "a/.x", "b c/1"].map(str::to_owned);
        assert_eq!(node_packages_kept(found), ["web/1.4.2".to_owned()].into());
        let many = (0..600).map(|number| format!("p{number:03}/1"));
        assert_eq!(node_packages_kept(many).len(), NODE_PACKAGES_MAX);
        let long = (0..500).map(|number| format!("{number:0>100}/1"));
        let kept = node_packages_kept(long);
        assert_eq!(kept.len(), NODE_PACKAGES_BYTES_MAX / 102);
        let attribute = package_attribute(kept.first().unwrap());
        assert_eq!(package_attributes(&kept).next(), Some((attribute, "installed")));
    }
}

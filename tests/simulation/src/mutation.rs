//! The list of mutations in `tests/simulation/mutations/`: edits that revert a fix or break a rule, and the tests that
//! must notice.
//!
//! A file has header lines `key: value`, then `=== before`, a text, `=== after`, a text. The text before occurs exactly
//! once in the source file. The last line break of a text is not part of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

/// A defect that can be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// The file's name without its extension.
    pub name: String,
    /// The finding of the audit of the edges that the fix belongs to: 1 to 18, or `suspected N`. `deciding` for a rule
    /// of the scheduler core that a property guards.
    pub finding: String,
    /// The defect that comes back, in a sentence.
    pub defect: String,
    /// The source file, from the root of the repository.
    pub file: String,
    /// Arguments of `cargo test` for the test that notices the defect; absent: the simulation of a whole system.
    pub test: Option<String>,
    /// Kinds of faults that the simulation is limited to; absent: all.
    pub inject: Option<String>,
    before: String,
    after: String,
}

impl Mutation {
    /// Parses the text of a mutation's file.
    ///
    /// # Errors
    /// A key or a mark is missing, or a key is unknown.
    pub fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let (head, rest) = text.split_once("=== before\n").context("it lacks `=== before`")?;
        let (before, after) = rest.split_once("=== after\n").context("it lacks `=== after`")?;
        let keys = ["finding", "defect", "file", "test", "inject"];
        let mut fields = std::collections::BTreeMap::new();
        for line in head.lines() {
            let (key, value) = line.split_once(": ").with_context(|| format!("no `key: value`: {line}"))?;
            if !keys.contains(&key) {
                bail!("unknown key {key}; accepted: {}", keys.join(", "));
            }
            fields.insert(key, value.trim().to_owned());
        }
        let mut needed = |key: &str| fields.remove(key).with_context(|| format!("it lacks `{key}: `"));
        Ok(Self {
            name: name.to_owned(),
            finding: needed("finding")?,
            defect: needed("defect")?,
            file: needed("file")?,
            test: needed("test").ok(),
            inject: needed("inject").ok(),
            before: before.strip_suffix('\n').unwrap_or(before).to_owned(),
            after: after.strip_suffix('\n').unwrap_or(after).to_owned(),
        })
    }

    /// The source file's text with the defect in it.
    ///
    /// # Errors
    /// The text before is missing, or occurs more than once.
    pub fn apply(&self, source: &str) -> anyhow::Result<String> {
        match source.matches(&self.before).count() {
            1 => Ok(source.replacen(&self.before, &self.after, 1)),
            times => bail!("its text is {times} times in {}", self.file),
        }
    }
}

/// All mutations of a directory, or those `wanted` by name or finding. Those of one source file are adjacent, so that
/// little is compiled in between.
///
/// # Errors
/// A file cannot be read or is no mutation, or no file has a wanted name.
pub fn mutations_read(directory: &Path, wanted: &[String]) -> anyhow::Result<Vec<Mutation>> {
    let mut mutations = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.extension().is_some_and(|of| of == "mutation") {
            let mutation = Mutation::parse(&name, &fs::read_to_string(&path)?);
            mutations.push(mutation.with_context(|| path.display().to_string())?);
        }
    }
    let known: BTreeSet<&str> =
        mutations.iter().flat_map(|mutation| [mutation.name.as_str(), mutation.finding.as_str()]).collect();
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name.as_str())) {
        bail!("no mutation or finding {unknown} in {}", directory.display());
    }
    let is_wanted = |mutation: &Mutation| {
        wanted.is_empty() || wanted.contains(&mutation.name) || wanted.contains(&mutation.finding)
    };
    mutations.retain(is_wanted);
    let order = |mutation: &Mutation| (mutation.test.is_none(), mutation.file.clone(), mutation.name.clone());
    mutations.sort_by_cached_key(order);
    Ok(mutations)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mutations are run by hand: this test only keeps the list from going stale.
    #[test]
    fn every_finding_has_mutations_and_each_still_applies() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mutations = mutations_read(&here.join("mutations"), &[]).unwrap();
        let stale = mutations.iter().filter_map(|mutation| {
            let source = fs::read_to_string(here.join("../..").join(&mutation.file)).unwrap_or_default();
            mutation.apply(&source).err().map(|why| format!("{}: {why}", mutation.name))
        });
        assert_eq!(stale.collect::<Vec<_>>(), [""; 0]);
        let findings = (1..=18).map(|number| number.to_string());
        let findings = findings.chain((1..=5).map(|number| format!("suspected {number}")));
        let bare = findings.filter(|finding| mutations.iter().all(|mutation| mutation.finding != *finding));
        assert_eq!(bare.collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn every_property_of_the_core_has_a_mutation_and_no_mutation_names_another() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let properties = here.join("../../scheduler-pool/core/tests/deciding/properties.rs");
        let text = fs::read_to_string(properties).unwrap();
        let tests = text.split("#[test]").skip(1).filter_map(|test| test.trim_start().strip_prefix("fn "));
        let tests: BTreeSet<&str> = tests.filter_map(|test| test.split('(').next()).collect();
        let mutations = mutations_read(&here.join("mutations"), &["deciding".to_owned()]).unwrap();
        let named =
            mutations.iter().filter_map(|mutation| mutation.test.as_deref()?.split_once("properties::"));
        let named: BTreeSet<&str> = named.map(|(_, test)| test).collect();
        assert_eq!(named, tests);
    }
}

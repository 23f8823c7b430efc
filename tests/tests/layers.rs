//! Which way modules import each other: the scheduler's core in layers, and no knot of modules anywhere.

#![expect(clippy::expect_used, reason = "a test says what it expected")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// The modules of the scheduler's core, the lowest first: each imports only those above it in this list.
const CORE_LAYERS: [&str; 20] = [
    // Identities and the policies of queues and scores.
    "batch_size",
    "count",
    "queueing",
    "seed",
    "profile",
    "settings",
    // What a cell is, and what a plan has taken of it so far.
    "tables",
    "overlay",
    "node_order",
    // What a node says to a task.
    "filter",
    "census",
    "scoring",
    // Who gives way.
    "preempt",
    // Who goes where.
    "plan",
    // What waits.
    "backlog",
    "snapshot",
    // What people read.
    "explain",
    "dry_run",
    "relocation",
    // Everything together.
    "lib",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The modules of its crate that a file names, by `crate::` or by as many `super::` as lead to the crate's root.
struct Imports {
    named: BTreeSet<String>,
    /// Modules between the place that is visited and the crate's root.
    depth: usize,
}

/// The name of an import of everything in the crate's root.
const GLOB: &str = "*";

impl Imports {
    fn of(file: &syn::File, depth: usize) -> BTreeSet<String> {
        let mut imports = Self { named: BTreeSet::new(), depth };
        imports.visit_file(file);
        imports.named
    }

    /// The names in the crate's root that a tree begins with, below as many modules as `left` more `super::` leave.
    fn tree(&mut self, tree: &syn::UseTree, left: usize) {
        match tree {
            syn::UseTree::Path(path) if left > 0 && path.ident == "super" => self.tree(&path.tree, left - 1),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(tree, left)),
            _ if left > 0 => {}
            syn::UseTree::Path(path) => drop(self.named.insert(path.ident.to_string())),
            syn::UseTree::Name(name) => drop(self.named.insert(name.ident.to_string())),
            syn::UseTree::Rename(name) => drop(self.named.insert(name.ident.to_string())),
            syn::UseTree::Glob(_) => drop(self.named.insert(GLOB.to_owned())),
        }
    }

    /// Follows the words of a path from this place.
    fn path(&mut self, words: &[String]) {
        let supers = words.iter().take_while(|word| *word == "super").count();
        let from_root = match words.first() {
            Some(first) if first == "crate" => words.get(1),
            Some(_) if supers > 0 && supers >= self.depth => words.get(supers),
            _ => None,
        };
        self.named.extend(from_root.cloned());
    }

    /// The paths in the arguments of a macro.
    fn tokens(&mut self, tokens: proc_macro2::TokenStream) {
        let mut words: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Ident(word) => {
                    if colons != 2 {
                        self.path(&std::mem::take(&mut words));
                    }
                    words.push(word.to_string());
                    colons = 0;
                }
                proc_macro2::TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                other => {
                    self.path(&std::mem::take(&mut words));
                    colons = 0;
                    if let proc_macro2::TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.path(&words);
    }
}

fn only_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list().ok().filter(|list| list.path.is_ident("cfg"));
        list.is_some_and(|list| list.tokens.to_string().contains("test"))
    })
}

impl<'ast> Visit<'ast> for Imports {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !only_for_tests(&module.attrs) {
            self.depth += 1;
            visit::visit_item_mod(self, module);
            self.depth -= 1;
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        match &item.tree {
            _ if only_for_tests(&item.attrs) => {}
            syn::UseTree::Path(path) if path.ident == "crate" => self.tree(&path.tree, 0),
            // In the crate's root a name without `crate::` is of this crate or another one: its layer is the highest.
            tree if self.depth > 0 => self.tree(tree, self.depth),
            _ => {}
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.path(&words);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.tokens(invocation.tokens.clone());
        visit::visit_macro(self, invocation);
    }
}

/// The files of a folder, those for tests left out.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let tests = ["tests", "tests.rs", "testing", "testing.rs"].contains(&name.as_str())
            || name.ends_with("_tests.rs")
            || name.ends_with("_test.rs");
        if path.is_dir() && !tests {
            sources(&path, files);
        } else if name.ends_with(".rs") && !tests {
            files.push(path);
        }
    }
}

/// Modules between a file, by its path below the source, and the crate's root.
fn depth_of(below: &Path) -> usize {
    let folders = below.components().count() - 1;
    match below.file_name().and_then(|name| name.to_str()) {
        Some("lib.rs" | "main.rs") if folders == 0 => 0,
        Some("mod.rs") => folders,
        _ => folders + 1,
    }
}

#[test]
fn every_way_to_name_a_module_counts() {
    let names = |text: &str, below: &str| {
        let file = syn::parse_file(text).expect("a file");
        Imports::of(&file, depth_of(Path::new(below))).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(names("use crate::{plan::Plan, *};", "count.rs"), ["*", "plan"]);
    assert_eq!(names("use super::plan::Plan;", "count.rs"), ["plan"]);
    assert_eq!(names("use super::super::plan::Plan;", "filter/one.rs"), ["plan"]);
    assert_eq!(names("use super::two::Two;", "filter/one.rs"), [""; 0], "within its module");
    assert_eq!(names("fn a() { super::plan::go() }", "count.rs"), ["plan"]);
    assert_eq!(
        names("fn a() { debug_assert!(1 == crate::plan::go(&super::census::Two)) }", "count.rs"),
        ["census", "plan"]
    );
    assert_eq!(names("mod inner { use super::super::plan; }", "count.rs"), ["plan"]);
    assert_eq!(names("#[cfg(test)] mod tests { use crate::plan; }", "count.rs"), [""; 0]);
    assert_eq!(names("use std::fmt; use plan::Plan;", "lib.rs"), [""; 0]);
}

/// The modules right under a crate's root, each with what it imports from that root.
fn names_imported(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut files = Vec::new();
    sources(source, &mut files);
    let mut modules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let below = file.strip_prefix(source).expect("below the source");
        let first = below.components().next().expect("a name").as_os_str().to_string_lossy();
        let module = first.trim_end_matches(".rs").to_owned();
        let text = fs::read_to_string(&file).expect("a source file");
        let parsed = syn::parse_file(&text).expect("a source file parses");
        modules.entry(module).or_default().extend(Imports::of(&parsed, depth_of(below)));
    }
    for (module, imports) in &mut modules {
        imports.remove(module);
    }
    modules
}

/// The same of modules alone.
fn imports_of(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut modules = names_imported(source);
    let known: BTreeSet<String> = modules.keys().cloned().collect();
    modules.values_mut().for_each(|imports| imports.retain(|import| known.contains(import)));
    modules
}

#[test]
fn the_core_imports_downwards_only() {
    let modules = names_imported(&root().join("scheduler-pool/core/src"));
    let rank = |module: &str| CORE_LAYERS.iter().position(|known| *known == module);
    let mut broken = Vec::new();
    for (module, imports) in &modules {
        let Some(own) = rank(module) else {
            broken.push(format!("{module} has no layer: put it into CORE_LAYERS"));
            continue;
        };
        let upward = imports.iter().filter(|import| rank(import).is_none_or(|rank| rank > own));
        broken.extend(upward.map(|import| format!("{module} imports {import}, which is no layer below it")));
    }
    assert!(broken.is_empty(), "the layers of scheduler-pool/core:\n  {}", broken.join("\n  "));
    let gone: Vec<&str> = CORE_LAYERS.into_iter().filter(|module| !modules.contains_key(*module)).collect();
    assert!(gone.is_empty(), "layers of modules that are no more: {gone:?}");
}

/// Everything that a module reaches by its imports.
fn reached(modules: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from.to_owned()];
    while let Some(module) = next.pop() {
        for import in modules.get(&module).into_iter().flatten() {
            if reached.insert(import.clone()) {
                next.push(import.clone());
            }
        }
    }
    reached
}

#[test]
fn no_three_modules_import_each_other() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace");
    let members = manifest.lines().filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\","));
    let members: Vec<&str> = members.filter(|member| root().join(member).join("src").is_dir()).collect();
    assert!(members.len() > 10, "the members of the workspace: {members:?}");
    let mut broken = Vec::new();
    for member in members {
        let modules = imports_of(&root().join(member).join("src"));
        let reach: BTreeMap<&str, BTreeSet<String>> =
            modules.keys().map(|module| (module.as_str(), reached(&modules, module))).collect();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for (&module, forth) in &reach {
            let back = |other: &&str| forth.contains(*other) && reach[*other].contains(module);
            let knot: Vec<&str> = reach.keys().copied().filter(back).collect();
            if knot.len() > 2 && seen.insert(knot[0]) {
                broken.push(format!("{member}: {}", knot.join(", ")));
            }
        }
    }
    assert!(broken.is_empty(), "modules that import each other in a circle:\n  {}", broken.join("\n  "));
}

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

/// The modules of its crate that a file names.
#[derive(Default)]
struct Imports(BTreeSet<String>);

impl Imports {
    fn tree(&mut self, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => drop(self.0.insert(path.ident.to_string())),
            syn::UseTree::Name(name) => drop(self.0.insert(name.ident.to_string())),
            syn::UseTree::Rename(name) => drop(self.0.insert(name.ident.to_string())),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(tree)),
            syn::UseTree::Glob(_) => {}
        }
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
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        match &item.tree {
            syn::UseTree::Path(path) if path.ident == "crate" && !only_for_tests(&item.attrs) => {
                self.tree(&path.tree);
            }
            _ => {}
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut segments = path.segments.iter();
        if segments.next().is_some_and(|first| first.ident == "crate") {
            self.0.extend(segments.next().map(|module| module.ident.to_string()));
        }
        visit::visit_path(self, path);
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
        let mut imports = Imports::default();
        imports.visit_file(&parsed);
        modules.entry(module).or_default().extend(imports.0);
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

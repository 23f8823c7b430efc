//! The house rules that the compiler does not check: sizes, depth, opening comments, shared lints. A rule with an
//! exception lists it here, with its reason.

#![expect(clippy::expect_used, reason = "a test says what it expected")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

#[path = "tidy/arguments.rs"]
mod arguments;
#[path = "tidy/docs.rs"]
mod docs;
#[path = "tidy/prose.rs"]
mod prose;
#[path = "tidy/tests_named.rs"]
mod tests_named;
#[path = "tidy/width.rs"]
mod width;

/// Lines of a file above its tests.
const FILE_LINES_MAX: usize = 500;
/// Lines of a function.
const FUNCTION_LINES_MAX: usize = 70;
/// Nested control flow within a function.
const NESTING_MAX: usize = 4;
/// Folders between a crate's `src` and a file.
const FOLDERS_MAX: usize = 4;

/// Files that may be longer, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];
/// Functions that may be longer, each with its reason.
const LONG_FUNCTIONS: &[(&str, &str)] = &[];
/// Manifests with lints of their own, each with its reason.
const OWN_LINTS: &[(&str, &str)] = &[
    ("store/fdb/Cargo.toml", "starting the client's network is unsafe; nothing else of it is different"),
    ("tests/entropy/Cargo.toml", "taking the place of a C function is unsafe; it is all that the crate does"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn tracked(pattern: &str) -> Vec<String> {
    let arguments = ["ls-files", "-co", "--exclude-standard", "--", pattern];
    let output = Command::new("git").current_dir(root()).args(arguments).output().expect("git runs");
    assert!(output.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).expect("paths are UTF-8");
    listed.lines().filter(|path| root().join(path).exists()).map(str::to_owned).collect()
}

fn exempt(list: &[(&str, &str)], what: &str) -> bool {
    list.iter().any(|(name, _)| *name == what)
}

fn assert_none(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

/// The part of a source file above its unit tests.
fn above_tests(text: &str) -> usize {
    text.lines().position(|line| line.starts_with("#[cfg(test)]")).unwrap_or_else(|| text.lines().count())
}

fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("tests.rs") || path.ends_with("_test.rs")
}

#[test]
fn every_source_file_states_its_purpose() {
    let silent = |path: &String| !fs::read_to_string(root().join(path)).expect("readable").starts_with("//!");
    let broken: Vec<String> = tracked("*.rs").into_iter().filter(silent).collect();
    assert_none("these files do not open with `//!`", &broken);
}

#[test]
fn files_are_short() {
    let mut broken = Vec::new();
    for path in tracked("*.rs") {
        let lines = above_tests(&fs::read_to_string(root().join(&path)).expect("readable"));
        if lines > FILE_LINES_MAX && !exempt(LONG_FILES, &path) {
            broken.push(format!("{path}: {lines} lines"));
        }
    }
    assert_none(&format!("files have at most {FILE_LINES_MAX} lines above their tests"), &broken);
}

#[test]
fn folders_are_shallow() {
    let deep = |path: &String| {
        let inside = path.split_once("/src/").map(|(_, inside)| inside.matches('/').count());
        inside.is_some_and(|folders| folders > FOLDERS_MAX)
    };
    let broken: Vec<String> = tracked("*.rs").into_iter().filter(deep).collect();
    assert_none(&format!("at most {FOLDERS_MAX} folders below src"), &broken);
}

#[test]
fn manifests_share_the_lints() {
    let mut broken = Vec::new();
    for path in tracked("**/Cargo.toml") {
        let text = fs::read_to_string(root().join(&path)).expect("readable");
        if !text.contains("[lints]\nworkspace = true") && !exempt(OWN_LINTS, &path) {
            broken.push(path);
        }
    }
    assert_none("these manifests lack `[lints] workspace = true`", &broken);
}

#[test]
fn exemptions_are_of_things_that_exist() {
    let files = tracked("*.rs");
    let known = |name: &str| files.iter().any(|file| file == name || name.starts_with(&format!("{file}::")));
    let lists = LONG_FILES.iter().chain(LONG_FUNCTIONS);
    let broken: Vec<String> =
        lists.filter(|(name, _)| !known(name)).map(|(name, _)| (*name).to_owned()).collect();
    assert_none("exempt but not there", &broken);
}

#[derive(Default)]
struct Functions {
    path: String,
    nesting: usize,
    broken: Vec<String>,
}

impl Functions {
    fn function(&mut self, name: &str, attributes: &[syn::Attribute], span: Span, block: &syn::Block) {
        if attributes.iter().any(|attribute| attribute.path().is_ident("test")) {
            return;
        }
        let lines = span.end().line.saturating_sub(span.start().line) + 1;
        let place = format!("{}::{name}", self.path);
        if lines > FUNCTION_LINES_MAX && !exempt(LONG_FUNCTIONS, &place) {
            self.broken.push(format!("{place}: {lines} lines"));
        }
        let outer = std::mem::take(&mut self.nesting);
        self.visit_block(block);
        self.nesting = outer;
    }

    fn nested<T>(&mut self, span: Span, node: &T, walk: impl FnOnce(&mut Self, &T)) {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            self.broken.push(format!("{}:{}: nested {} deep", self.path, span.start().line, self.nesting));
        }
        walk(self, node);
        self.nesting -= 1;
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let is_test = |attribute: &syn::Attribute| {
            attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Ident>().is_ok_and(|what| what == "test")
        };
        if !module.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let span = item.sig.span().join(item.block.span()).unwrap_or_else(|| item.block.span());
        self.function(&item.sig.ident.to_string(), &item.attrs, span, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let span = item.sig.span().join(item.block.span()).unwrap_or_else(|| item.block.span());
        self.function(&item.sig.ident.to_string(), &item.attrs, span, &item.block);
    }

    fn visit_expr_match(&mut self, node: &'ast syn::ExprMatch) {
        self.nested(node.span(), node, |visitor, node| visit::visit_expr_match(visitor, node));
    }

    fn visit_expr_for_loop(&mut self, node: &'ast syn::ExprForLoop) {
        self.nested(node.span(), node, |visitor, node| visit::visit_expr_for_loop(visitor, node));
    }

    fn visit_expr_while(&mut self, node: &'ast syn::ExprWhile) {
        self.nested(node.span(), node, |visitor, node| visit::visit_expr_while(visitor, node));
    }

    fn visit_expr_loop(&mut self, node: &'ast syn::ExprLoop) {
        self.nested(node.span(), node, |visitor, node| visit::visit_expr_loop(visitor, node));
    }

    fn visit_expr_if(&mut self, node: &'ast syn::ExprIf) {
        self.nested(node.span(), node, |visitor, node| {
            visitor.visit_expr(&node.cond);
            visitor.visit_block(&node.then_branch);
        });
        // An `else if` is at the level of its `if`, not inside it.
        if let Some((_, otherwise)) = &node.else_branch {
            self.visit_expr(otherwise);
        }
    }
}

/// Names of values that must not be computed.
const SECRET_NAMES: &[&str] = &["token", "secret", "password", "bearer", "credential", "passphrase"];
/// Names of generators of numbers from a seed, and of their instances.
const GENERATORS: &[&str] = &["Rng", "SeededRng", "SystemRng", "rng", "next_u64", "from_kernel", "seed"];

/// Finds functions, values and fields that are named for a secret and made with a generator.
#[derive(Default)]
struct ComputedSecrets {
    path: String,
    broken: Vec<String>,
}

impl ComputedSecrets {
    fn look(&mut self, name: &str, span: Span, walk: impl FnOnce(&mut Generator)) {
        let mut words = name.split('_').map(str::to_ascii_lowercase);
        if !words.any(|word| SECRET_NAMES.contains(&word.as_str())) {
            return;
        }
        let mut found = Generator(None);
        walk(&mut found);
        if let Some(generator) = found.0 {
            self.broken.push(format!("{}:{}: {name} comes from {generator}", self.path, span.start().line));
        }
    }
}

/// The first name of a generator that a visit finds.
struct Generator(Option<String>);

impl Generator {
    fn tokens(&mut self, tokens: proc_macro2::TokenStream) {
        for tree in tokens {
            match tree {
                proc_macro2::TokenTree::Group(group) => self.tokens(group.stream()),
                proc_macro2::TokenTree::Ident(name) => self.visit_ident(&name),
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Generator {
    fn visit_ident(&mut self, name: &proc_macro2::Ident) {
        let name = name.to_string();
        if self.0.is_none() && GENERATORS.contains(&name.as_str()) {
            self.0 = Some(name);
        }
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.tokens(called.tokens.clone());
    }
}

impl<'ast> Visit<'ast> for ComputedSecrets {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.look(&signature.ident.to_string(), signature.span(), |found| {
            signature.inputs.iter().for_each(|input| found.visit_fn_arg(input));
        });
        visit::visit_signature(self, signature);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        let pattern = match &local.pat {
            syn::Pat::Type(typed) => &*typed.pat,
            pattern => pattern,
        };
        if let (syn::Pat::Ident(name), Some(made)) = (pattern, &local.init) {
            self.look(&name.ident.to_string(), local.span(), |found| found.visit_expr(&made.expr));
        }
        visit::visit_local(self, local);
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        if let syn::Member::Named(name) = &field.member {
            self.look(&name.to_string(), field.span(), |found| found.visit_expr(&field.expr));
        }
        visit::visit_field_value(self, field);
    }
}

/// Words that a reader from another system would not search for, each with the glossary's word.
const RETIRED_WORDS: &[(&str, &str)] = &[
    ("life", "attempt"),
    ("lives", "attempts"),
    ("unit", "gang"),
    ("door", "cell context"),
    ("hunt", "victim search"),
    ("vantage", "start offset"),
    ("helpless", "unschedulable"),
    ("kin", "equivalence class"),
    ("witness", "read dependency"),
    ("judge", "scorer"),
    ("chore", "sweep"),
    ("housekeeping", "garbage collection"),
    ("told", "record, notify or report"),
    ("standing", "resident task or status"),
    ("figures", "stats or metrics"),
    ("pace", "batch size, backoff or intervals"),
];

/// The words of a type's name: `JobRow` is `job` and `row`.
fn words_of(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for character in name.chars() {
        match words.last_mut().filter(|_| !character.is_uppercase()) {
            Some(word) => word.push(character),
            None => words.push(character.to_lowercase().collect()),
        }
    }
    words
}

/// Collects the names of types that a file defines.
#[derive(Default)]
struct TypeNames(Vec<String>);

impl<'ast> Visit<'ast> for TypeNames {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let name = match item {
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Union(item) => Some(&item.ident),
            syn::Item::Trait(item) => Some(&item.ident),
            syn::Item::Type(item) => Some(&item.ident),
            // Unit tests have small helpers of their own.
            syn::Item::Mod(item) if item.ident == "tests" => return,
            _ => None,
        };
        self.0.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }
}

/// The folder of the crate that contains a file.
fn crate_of(path: &str, crates: &[String]) -> String {
    let mine = crates.iter().filter(|folder| path.starts_with(folder.as_str()));
    mine.max_by_key(|folder| folder.len()).cloned().unwrap_or_default()
}

/// Each type of production code, with the crates that define it.
static TYPES_DEFINED: LazyLock<BTreeMap<String, BTreeSet<String>>> = LazyLock::new(types_defined);

fn types_defined() -> BTreeMap<String, BTreeSet<String>> {
    let manifests = tracked("*Cargo.toml");
    let crates: Vec<String> =
        manifests.iter().filter_map(|path| path.strip_suffix("Cargo.toml")).map(str::to_owned).collect();
    let mut defined: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let tests = |path: &String| is_test_file(path) || path.starts_with("tests/");
    for path in tracked("*.rs").iter().filter(|path| !tests(path)) {
        let text = fs::read_to_string(root().join(path)).expect("tracked files are readable");
        let mut names = TypeNames::default();
        names.visit_file(&syn::parse_file(&text).expect("it compiles"));
        for name in names.0 {
            defined.entry(name).or_default().insert(crate_of(path, &crates));
        }
    }
    defined
}

#[test]
fn a_type_name_belongs_to_one_crate() {
    let defined = &*TYPES_DEFINED;
    assert!(defined.len() > 500, "it found {} types only", defined.len());
    let twice = defined.iter().filter(|(_, crates)| crates.len() > 1);
    let lines: Vec<String> = twice.map(|(name, crates)| format!("{name}: {crates:?}")).collect();
    assert_none("two crates define a type of one name", &lines);
}

#[test]
fn no_type_has_a_retired_word() {
    let instead = |word: &String| RETIRED_WORDS.iter().find(|(retired, _)| retired == word);
    let line = |name: &String| {
        let (retired, word) = words_of(name).iter().find_map(instead)?;
        Some(format!("{name}: not {retired}, but {word}"))
    };
    assert_none(
        "retired words in names of types",
        &TYPES_DEFINED.keys().filter_map(line).collect::<Vec<_>>(),
    );
}

/// The type `Secret` has no constructor that takes a generator. This test finds plain texts that avoid the type.
#[test]
fn no_secret_is_computed() {
    let mut found = ComputedSecrets::default();
    for path in tracked("*.rs") {
        let text = fs::read_to_string(root().join(&path)).expect("readable");
        // Parsing a file takes long, and few files have both.
        let has = |names: &[&str]| names.iter().any(|name| text.contains(name));
        if !(has(SECRET_NAMES) && has(GENERATORS)) {
            continue;
        }
        found.path = path;
        found.visit_file(&syn::parse_file(&text).expect("parses"));
    }
    assert_none("secrets come from borough_kv::secret only", &found.broken);
    let module = fs::read_to_string(root().join("store/kv/src/secret.rs")).expect("readable");
    let mut found = Generator(None);
    found.visit_file(&syn::parse_file(&module).expect("parses"));
    assert_eq!(found.0, None, "the module of secrets knows no generator");
}

#[test]
fn functions_are_short_and_flat() {
    let mut functions = Functions::default();
    for path in tracked("*.rs").into_iter().filter(|path| !is_test_file(path)) {
        let text = fs::read_to_string(root().join(&path)).expect("readable");
        functions.path = path;
        let file = syn::parse_file(&text).expect("parses");
        functions.visit_file(&file);
    }
    let rule = format!("at most {FUNCTION_LINES_MAX} lines and {NESTING_MAX} nested blocks");
    assert_none(&rule, &functions.broken);
}

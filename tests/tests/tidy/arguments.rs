//! Three patterns that hide what a value means: a parameter that is a tuple, a `bool` among other parameters, and a
//! `match` on `true` or `false`. A struct, an enum of two variants or an `if` names it.
//!
//! [`KNOWN`] lists the places that are left, by crate. A number there may only go down.

use std::collections::BTreeMap;
use std::fs;

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::{is_test_file, root, tracked};

/// How often each pattern occurs in the production code of a crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PatternCounts {
    /// Parameters that are tuples, or references to tuples.
    tuples: usize,
    /// `bool` parameters of functions with more than one parameter beside `self`. A setter is fine.
    flags: usize,
    /// Arms that match `true` or `false`, alone or within a tuple.
    matches: usize,
}

/// The crates with places that are left, by folder. Lower a number when a place goes, and remove a line of zeros.
const KNOWN: &[(&str, PatternCounts)] = &[
    ("scheduler-pool/core", PatternCounts { tuples: 0, flags: 4, matches: 0 }),
    ("services/cli", PatternCounts { tuples: 0, flags: 0, matches: 1 }),
    ("store/conformance", PatternCounts { tuples: 6, flags: 11, matches: 0 }),
    ("store/kv", PatternCounts { tuples: 0, flags: 2, matches: 2 }),
    ("store/layer", PatternCounts { tuples: 4, flags: 1, matches: 0 }),
    ("store/model", PatternCounts { tuples: 1, flags: 1, matches: 6 }),
    ("store/model/derive", PatternCounts { tuples: 0, flags: 0, matches: 4 }),
];

/// Finds the patterns in a file.
#[derive(Default)]
struct Patterns {
    path: String,
    tuples: Vec<String>,
    flags: Vec<String>,
    matches: Vec<String>,
}

/// Returns true for a tuple, and for a reference to one. `()` is none.
fn is_tuple(kind: &syn::Type) -> bool {
    match kind {
        syn::Type::Tuple(tuple) => !tuple.elems.is_empty(),
        syn::Type::Reference(reference) => is_tuple(&reference.elem),
        syn::Type::Paren(paren) => is_tuple(&paren.elem),
        _ => false,
    }
}

fn is_flag(kind: &syn::Type) -> bool {
    matches!(kind, syn::Type::Path(path) if path.path.is_ident("bool"))
}

/// Returns true for `true` and `false`, and for a tuple or alternatives with one of them.
fn has_flag(pattern: &syn::Pat) -> bool {
    match pattern {
        syn::Pat::Lit(literal) => matches!(literal.lit, syn::Lit::Bool(_)),
        syn::Pat::Tuple(tuple) => tuple.elems.iter().any(has_flag),
        syn::Pat::Or(alternatives) => alternatives.cases.iter().any(has_flag),
        syn::Pat::Paren(paren) => has_flag(&paren.pat),
        syn::Pat::Reference(reference) => has_flag(&reference.pat),
        _ => false,
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_test = |what: syn::Ident| what == "test";
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg") && attribute.parse_args().is_ok_and(is_test))
    })
}

impl Patterns {
    fn place(&self, span: proc_macro2::Span) -> String {
        format!("{}:{}", self.path, span.start().line)
    }

    fn signature(&mut self, signature: &syn::Signature) {
        let typed = signature.inputs.iter().filter_map(|input| match input {
            syn::FnArg::Typed(typed) => Some(&*typed.ty),
            syn::FnArg::Receiver(_) => None,
        });
        let kinds: Vec<&syn::Type> = typed.collect();
        let place = format!("{} ({})", self.place(signature.ident.span()), signature.ident);
        let tuples = kinds.iter().filter(|kind| is_tuple(kind));
        self.tuples.extend(tuples.map(|_| place.clone()));
        let flags = kinds.iter().filter(|kind| is_flag(kind) && kinds.len() > 1);
        self.flags.extend(flags.map(|_| place.clone()));
    }

    fn counts(&self) -> PatternCounts {
        PatternCounts { tuples: self.tuples.len(), flags: self.flags.len(), matches: self.matches.len() }
    }
}

impl<'ast> Visit<'ast> for Patterns {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_for_tests(&item.attrs) {
            self.signature(&item.sig);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        // The trait decides about the parameters of its implementations.
        let inherent = item.items.iter().filter(|_| item.trait_.is_none());
        for function in inherent {
            match function {
                syn::ImplItem::Fn(function) if !is_for_tests(&function.attrs) => {
                    self.signature(&function.sig)
                }
                _ => {}
            }
        }
        if !is_for_tests(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.signature(&function.sig);
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if has_flag(&arm.pat) {
            self.matches.push(self.place(arm.pat.span()));
        }
        visit::visit_arm(self, arm);
    }
}

fn patterns_of(path: &str, text: &str) -> Patterns {
    let file = syn::parse_file(text).expect("parses");
    let mut found = Patterns { path: path.to_owned(), ..Patterns::default() };
    found.visit_file(&file);
    found
}

/// The patterns of each crate, by its folder.
fn patterns_by_crate() -> BTreeMap<String, Patterns> {
    let manifests = tracked("**/Cargo.toml");
    let folders: Vec<&str> = manifests.iter().filter_map(|path| path.strip_suffix("/Cargo.toml")).collect();
    let mut crates: BTreeMap<String, Patterns> = BTreeMap::new();
    for path in tracked("*.rs").into_iter().filter(|path| !is_test_file(path) && !path.starts_with("tests/"))
    {
        let holds = |folder: &&&str| path.strip_prefix(**folder).is_some_and(|rest| rest.starts_with('/'));
        let folder = folders.iter().filter(holds).max_by_key(|folder| folder.len());
        let folder = folder.expect("every source file is in a crate");
        let found = patterns_of(&path, &fs::read_to_string(root().join(&path)).expect("readable"));
        let of_crate = crates.entry((*folder).to_owned()).or_default();
        of_crate.tuples.extend(found.tuples);
        of_crate.flags.extend(found.flags);
        of_crate.matches.extend(found.matches);
    }
    crates
}

/// What differs between the known and the found places of one pattern in one crate.
fn difference(folder: &str, pattern: &str, known: usize, found: &[String]) -> Option<String> {
    let count = found.len();
    if count > known {
        let places = found.join("\n    ");
        return Some(format!("{folder}: {count} {pattern}, {known} are known:\n    {places}"));
    }
    (count < known).then(|| format!("{folder}: {count} {pattern} are left: lower the {known} in KNOWN"))
}

#[test]
fn arguments_and_arms_have_names() {
    let crates = patterns_by_crate();
    let known: BTreeMap<&str, PatternCounts> = KNOWN.iter().copied().collect();
    assert_eq!(known.len(), KNOWN.len(), "a crate is listed twice");
    let none = Patterns::default();
    let mut broken = Vec::new();
    let folders = crates.keys().map(String::as_str).chain(known.keys().copied());
    for folder in folders.collect::<std::collections::BTreeSet<_>>() {
        let found = crates.get(folder).unwrap_or(&none);
        let known = known.get(folder).copied().unwrap_or_default();
        broken.extend(difference(folder, "parameters are tuples", known.tuples, &found.tuples));
        broken.extend(difference(folder, "parameters are bare flags", known.flags, &found.flags));
        broken.extend(difference(folder, "arms match a flag", known.matches, &found.matches));
    }
    assert!(broken.is_empty(), "use structs, enums and `if`:\n  {}", broken.join("\n  "));
    let empty = |(_, counts): &&(&str, PatternCounts)| *counts == PatternCounts::default();
    assert!(!KNOWN.iter().any(|entry| empty(&entry)), "a line of zeros is no exemption");
}

#[test]
fn a_tuple_as_a_parameter_is_refused() {
    let text = "
        fn pair(both: (u32, u32)) {}
        fn borrowed(both: &(u32, u32), (left, right): &mut (u8, u8)) {}
        fn fine(nothing: (), list: &[(u32, u32)], step: impl Fn((u32, u32))) -> (u32, u32) { (1, 1) }
        impl Type { fn method(&self, (left, right): (u32, u32)) {} }
        trait Behaviour { fn required(&self, both: (u32, u32)); }
        impl Behaviour for Type { fn required(&self, both: (u32, u32)) {} }
        #[cfg(test)] mod tests { fn pair(both: (u32, u32)) {} }
    ";
    assert_eq!(patterns_of("example.rs", text).counts(), PatternCounts { tuples: 5, ..Default::default() });
}

#[test]
fn a_bare_flag_among_parameters_is_refused() {
    let text = "
        fn flagged(name: &str, force: bool, all: bool) {}
        fn fine(force: bool) -> bool { force }
        impl Type { fn set_force(&mut self, force: bool) {} fn set(&mut self, name: &str, force: bool) {} }
        trait Behaviour { fn required(&self, name: &str, force: bool); }
        impl Behaviour for Type { fn required(&self, name: &str, force: bool) {} }
        #[test] fn tried(name: &str, force: bool) {}
    ";
    assert_eq!(patterns_of("example.rs", text).counts(), PatternCounts { flags: 4, ..Default::default() });
}

#[test]
fn a_match_on_a_flag_is_refused() {
    let text = "
        fn chosen(left: bool, right: Option<bool>) {
            match left { true => {}, false => {} }
            match (left, right) { (true, _) => {}, (_, Some(true)) => {}, _ => {} }
            match right { Some(true) => {}, _ => {} }
            if left {} else {}
        }
    ";
    assert_eq!(patterns_of("example.rs", text).matches.len(), 3);
}

#[test]
fn a_known_place_that_is_gone_is_noticed() {
    let found = ["example.rs:1 (pair)".to_owned()];
    assert_eq!(difference("store/kv", "parameters are tuples", 1, &found), None);
    assert!(
        difference("store/kv", "parameters are tuples", 0, &found)
            .is_some_and(|text| text.contains("example.rs:1"))
    );
    assert!(
        difference("store/kv", "parameters are tuples", 2, &found).is_some_and(|text| text.contains("lower"))
    );
}

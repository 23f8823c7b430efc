//! Public modules, types, traits, functions and constants have a doc comment. rustc's `missing_docs` would also demand
//! one for fields and variants. Most of those explain themselves, and a comment there only repeats the name.

use std::collections::BTreeSet;
use std::fs;

use syn::visit::{self, Visit};

use super::{assert_none, is_test_file, root, tracked};

/// Collects the public items of a file that have no doc comment.
#[derive(Default)]
struct Undocumented {
    path: String,
    /// Types of the file that only their crate sees, and so their functions.
    internal: BTreeSet<String>,
    broken: Vec<String>,
}

/// Collects the types of a file that are not public.
#[derive(Default)]
struct InternalTypes(BTreeSet<String>);

impl<'ast> Visit<'ast> for InternalTypes {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (visibility, name) = match item {
            syn::Item::Struct(item) => (&item.vis, &item.ident),
            syn::Item::Enum(item) => (&item.vis, &item.ident),
            syn::Item::Union(item) => (&item.vis, &item.ident),
            _ => return visit::visit_item(self, item),
        };
        if !matches!(visibility, syn::Visibility::Public(_)) {
            self.0.insert(name.to_string());
        }
    }
}

/// Returns true for a function that only returns a field, which explains itself as the field does.
fn is_accessor(function: &syn::ImplItemFn) -> bool {
    fn is_of_field(expression: &syn::Expr) -> bool {
        match expression {
            syn::Expr::Field(_) => true,
            syn::Expr::Reference(reference) => is_of_field(&reference.expr),
            syn::Expr::MethodCall(call) => call.args.is_empty() && is_of_field(&call.receiver),
            _ => false,
        }
    }
    let inputs = &function.sig.inputs;
    let of_itself = inputs.len() == 1 && function.sig.receiver().is_some();
    match function.block.stmts.as_slice() {
        [syn::Stmt::Expr(expression, None)] => of_itself && is_of_field(expression),
        _ => false,
    }
}

impl Undocumented {
    fn public(&mut self, visibility: &syn::Visibility, attributes: &[syn::Attribute], name: &syn::Ident) {
        if matches!(visibility, syn::Visibility::Public(_)) {
            self.documented(attributes, name);
        }
    }

    fn documented(&mut self, attributes: &[syn::Attribute], name: &syn::Ident) {
        if !attributes.iter().any(|attribute| attribute.path().is_ident("doc")) {
            self.broken.push(format!("{}:{}: {name}", self.path, name.span().start().line));
        }
    }
}

impl<'ast> Visit<'ast> for Undocumented {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Struct(item) => self.public(&item.vis, &item.attrs, &item.ident),
            syn::Item::Enum(item) => self.public(&item.vis, &item.attrs, &item.ident),
            syn::Item::Union(item) => self.public(&item.vis, &item.attrs, &item.ident),
            syn::Item::Trait(item) => self.public(&item.vis, &item.attrs, &item.ident),
            syn::Item::Type(item) => self.public(&item.vis, &item.attrs, &item.ident),
            syn::Item::Fn(item) => self.public(&item.vis, &item.attrs, &item.sig.ident),
            syn::Item::Const(item) => self.public(&item.vis, &item.attrs, &item.ident),
            syn::Item::Static(item) => self.public(&item.vis, &item.attrs, &item.ident),
            // A module with a file of its own opens it with `//!`.
            syn::Item::Mod(item) if item.content.is_some() => {
                self.public(&item.vis, &item.attrs, &item.ident);
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if matches!(item.vis, syn::Visibility::Public(_)) {
            for item in &item.items {
                if let syn::TraitItem::Fn(function) = item {
                    self.documented(&function.attrs, &function.sig.ident);
                }
            }
        }
        visit::visit_item_trait(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        if of.is_some_and(|name| self.internal.contains(&name)) {
            return;
        }
        for item in &item.items {
            match item {
                syn::ImplItem::Fn(item) if is_accessor(item) => {}
                syn::ImplItem::Fn(item) => self.public(&item.vis, &item.attrs, &item.sig.ident),
                syn::ImplItem::Const(item) => self.public(&item.vis, &item.attrs, &item.ident),
                _ => {}
            }
        }
        visit::visit_item_impl(self, item);
    }
}

fn undocumented(path: &str, text: &str) -> Vec<String> {
    let file = syn::parse_file(text).expect("parses");
    let mut internal = InternalTypes::default();
    internal.visit_file(&file);
    let mut found = Undocumented { path: path.to_owned(), internal: internal.0, broken: Vec::new() };
    found.visit_file(&file);
    found.broken
}

#[test]
fn public_items_have_docs() {
    let mut broken = Vec::new();
    for path in tracked("*.rs").into_iter().filter(|path| !is_test_file(path)) {
        broken.extend(undocumented(&path, &fs::read_to_string(root().join(&path)).expect("readable")));
    }
    assert_none("these public items have no doc comment", &broken);
}

#[test]
fn a_missing_doc_is_refused() {
    let text = "
        /// A type with docs.
        pub struct Documented { pub field: u32 }
        pub struct Bare { field: u32 }
        struct Private;
        pub(crate) struct Internal;
        impl Internal { pub fn of_an_internal_type() {} }
        pub enum Kind { Variant { field: u32 } }
        impl Bare { pub fn field(&self) -> &u32 { &self.field } }
        impl Bare { pub fn method(&self) {} fn private(&self) {} pub(crate) fn inside(&self) {} }
        impl Clone for Bare { fn clone(&self) -> Self { Self } }
        pub trait Behaviour { fn required(&self); }
        pub mod inline { pub const LIMIT: u32 = 1; }
        pub mod file;
        pub fn function() {}
        pub type Alias = u32;
    ";
    let names: Vec<String> = undocumented("example.rs", text)
        .iter()
        .filter_map(|line| line.rsplit(' ').next())
        .map(str::to_owned)
        .collect();
    let expected =
        ["Bare", "Kind", "method", "Behaviour", "required", "inline", "LIMIT", "function", "Alias"];
    assert_eq!(names, expected);
}

//! The attributes of one field.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::parse::ParseStream;
use syn::{Attribute, Expr, Field, Ident, LitStr, Meta, Path, Token, Type};

/// A field with what its attributes say.
pub(crate) struct FieldPlan {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    pub(crate) doc: String,
    pub(crate) file: String,
    pub(crate) kind: Option<Expr>,
    pub(crate) read: Option<Path>,
    pub(crate) check: Option<Path>,
    pub(crate) schema: Option<Path>,
    pub(crate) required: Option<Expr>,
    pub(crate) init: Option<Expr>,
    pub(crate) value: Option<LitStr>,
    pub(crate) default: Option<LitStr>,
    pub(crate) example: Option<TokenStream>,
    pub(crate) change: Option<Ident>,
    pub(crate) flags: FieldFlags,
}

/// What a field is or is not.
#[derive(Default)]
pub(crate) struct FieldFlags {
    pub(crate) nested: bool,
    pub(crate) flatten: bool,
    pub(crate) by_hand: bool,
    pub(crate) hidden: bool,
    pub(crate) given: bool,
    pub(crate) status: bool,
}

impl FieldPlan {
    pub(crate) fn of(field: &Field) -> syn::Result<Self> {
        let ident =
            field.ident.clone().ok_or_else(|| syn::Error::new_spanned(field, "a field has a name"))?;
        let mut plan = Self {
            file: ident.to_string(),
            ident,
            ty: field.ty.clone(),
            doc: doc_text(&field.attrs),
            kind: None,
            read: None,
            check: None,
            schema: None,
            required: None,
            init: None,
            value: None,
            default: None,
            example: None,
            change: None,
            flags: FieldFlags::default(),
        };
        let mut described = false;
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("field")) {
            described = true;
            attribute.parse_args_with(|input: ParseStream<'_>| {
                while !input.is_empty() {
                    plan.entry(input)?;
                    if !input.is_empty() {
                        input.parse::<Token![,]>()?;
                    }
                }
                Ok(())
            })?;
        }
        match described {
            true => Ok(plan),
            false => Err(syn::Error::new_spanned(field, "says nothing of job files: #[field(…)] is missing")),
        }
    }

    fn entry(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let name: Ident = input.parse()?;
        let flag = match name.to_string().as_str() {
            "nested" => Some(&mut self.flags.nested),
            "flatten" => Some(&mut self.flags.flatten),
            "by_hand" => Some(&mut self.flags.by_hand),
            "hidden" => Some(&mut self.flags.hidden),
            "given" => Some(&mut self.flags.given),
            "status" => Some(&mut self.flags.status),
            _ => None,
        };
        if let Some(flag) = flag {
            *flag = true;
            return Ok(());
        }
        input.parse::<Token![=]>()?;
        match name.to_string().as_str() {
            "file" => self.file = input.parse::<LitStr>()?.value(),
            "kind" => self.kind = Some(input.parse()?),
            "read" => self.read = Some(input.parse()?),
            "check" => self.check = Some(input.parse()?),
            "schema" => self.schema = Some(input.parse()?),
            "required" => self.required = Some(input.parse()?),
            "init" => self.init = Some(input.parse()?),
            "value" => self.value = Some(input.parse()?),
            "default" => self.default = Some(input.parse()?),
            "example" => self.example = Some(json(input)?),
            "change" => self.change = Some(input.parse()?),
            _ => {
                return Err(syn::Error::new(
                    name.span(),
                    "no attribute of a field; see borough-model-derive",
                ));
            }
        }
        Ok(())
    }
}

/// A JSON value: a literal, a list or a map.
fn json(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    let value: proc_macro2::TokenTree = input.parse()?;
    Ok(value.into_token_stream())
}

/// The doc comment, its lines joined.
fn doc_text(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                syn::Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    attributes.iter().filter_map(line).collect::<Vec<_>>().join(" ")
}

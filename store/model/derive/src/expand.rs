//! The code that a struct's attributes stand for.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Fields, Path};

use crate::field::FieldPlan;

pub(crate) fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(syn::Error::new_spanned(input, "a message is a struct"));
    };
    let Fields::Named(named) = &data.fields else {
        return Err(syn::Error::new_spanned(input, "a message has fields with names"));
    };
    let plans = named.named.iter().map(FieldPlan::of).collect::<syn::Result<Vec<_>>>()?;
    let rest = rest_of(input)?.map(|rest| quote! { #rest(reader, fields, self); });
    let name = &input.ident;
    let infos = plans.iter().filter(|plan| !plan.flags.hidden).map(info);
    let reads = plans.iter().map(read);
    let checks = plans.iter().map(check);
    let adopts = plans.iter().filter_map(adopt);
    let status = plans.iter().filter(|plan| plan.flags.status).map(status);
    let initial = initial(name, &plans);
    Ok(quote! {
        #initial

        impl crate::job::file::FileMessage for #name {
            const FIELDS: &'static [crate::job::file::FieldInfo] = &[#(#infos),*];

            fn fields_read(
                &mut self,
                reader: &mut crate::job::file::FieldReader,
                outer: &crate::job::file::FileItem<'_>,
                fields: &crate::job::file::MapFields<'_>,
            ) {
                let _ = outer;
                #(#reads)*
                #rest
            }

            fn fields_check(&self, errors: &mut crate::field_error::FieldErrors, path: &str) {
                #(#checks)*
            }

            fn adopt(&mut self, new: &Self, change: crate::job::SpecChange) {
                let _ = (new, change);
                #(#adopts)*
            }

            fn status(&self) -> Vec<(&'static str, String)> {
                vec![#(#status),*]
            }
        }
    })
}

/// The function of `#[message(rest = f)]`.
fn rest_of(input: &DeriveInput) -> syn::Result<Option<Path>> {
    let mut rest = None;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("message")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("rest") {
                return Err(meta.error("accepted: rest = FUNCTION"));
            }
            rest = Some(meta.value()?.parse()?);
            Ok(())
        })?;
    }
    Ok(rest)
}

/// The constructor with every default.
fn initial(name: &syn::Ident, plans: &[FieldPlan]) -> TokenStream {
    let given = || plans.iter().filter(|plan| plan.flags.given);
    if given().next().is_none() {
        return TokenStream::new();
    }
    let arguments = given().map(|plan| {
        let (ident, ty) = (&plan.ident, &plan.ty);
        quote! { #ident: #ty }
    });
    let values = plans.iter().map(|plan| {
        let ident = &plan.ident;
        match &plan.init {
            _ if plan.flags.given => quote! { #ident },
            Some(init) => quote! { #ident: #init },
            None => quote! { #ident: ::core::default::Default::default() },
        }
    });
    quote! {
        impl #name {
            /// Every field as a job file that does not name it leaves it.
            pub(crate) fn initial(#(#arguments),*) -> Self {
                Self { #(#values),* }
            }
        }
    }
}

fn info(plan: &FieldPlan) -> TokenStream {
    let FieldPlan { ident, ty, doc, file, .. } = plan;
    let stored = ident.to_string();
    let value = plan.value.as_ref().map_or_else(|| doc.clone(), syn::LitStr::value);
    let default = match (&plan.default, &plan.required) {
        (Some(default), _) => default.value(),
        (None, Some(_)) => "required".to_owned(),
        (None, None) => "none".to_owned(),
    };
    let example = match &plan.example {
        Some(example) => quote! { Some(|| ::serde_json::json!(#example)) },
        None => quote! { None },
    };
    let message = plan.flags.nested || plan.flags.flatten;
    let schema = match (&plan.schema, &plan.kind) {
        (Some(schema), _) => quote! { #schema },
        (None, Some(kind)) => quote! { || crate::job::file::FieldKind::<#ty>::schema(&#kind) },
        (None, None) if message => quote! { <#ty as crate::job::file::InnerMessage>::schema },
        (None, None) => quote! { || ::serde_json::json!({}) },
    };
    let inner = match message {
        true => quote! { Some(<#ty as crate::job::file::InnerMessage>::FIELDS) },
        false => quote! { None },
    };
    let (required, flatten) = (plan.required.is_some(), plan.flags.flatten);
    quote! {
        crate::job::file::FieldInfo {
            file: #file,
            stored: #stored,
            meaning: #doc,
            value: #value,
            default: #default,
            required: #required,
            flatten: #flatten,
            example: #example,
            schema: #schema,
            inner: #inner,
        }
    }
}

fn read(plan: &FieldPlan) -> TokenStream {
    let FieldPlan { ident, ty, file, .. } = plan;
    let flags = &plan.flags;
    if flags.by_hand || flags.hidden || flags.flatten {
        return TokenStream::new();
    }
    let value = match (&plan.read, &plan.kind) {
        (Some(read), _) => quote! { #read(reader, &item, self) },
        (None, Some(kind)) => quote! { crate::job::file::FieldKind::<#ty>::read(&#kind, reader, &item) },
        (None, None) => {
            quote! { crate::job::file::InnerMessage::message_read(&self.#ident, reader, &item) }
        }
    };
    let missing = plan.required.as_ref().map(|accepted| {
        quote! { else { reader.missing(outer, #file, #accepted); } }
    });
    quote! {
        if let Some(item) = fields.get(#file) {
            if let Some(value) = #value {
                self.#ident = value;
            }
        } #missing
    }
}

fn check(plan: &FieldPlan) -> TokenStream {
    let FieldPlan { ident, ty, .. } = plan;
    let stored = ident.to_string();
    let path = quote! { &crate::job::file::path_within(path, #stored) };
    let of_kind = plan.kind.as_ref().map(|kind| {
        quote! { crate::job::file::FieldKind::<#ty>::check(&#kind, errors, #path, &self.#ident); }
    });
    let of_message = plan.flags.nested.then(|| {
        quote! { crate::job::file::InnerMessage::message_check(&self.#ident, errors, #path); }
    });
    let of_hand = plan.check.as_ref().map(|check| quote! { #check(errors, #path, self); });
    quote! { #of_kind #of_message #of_hand }
}

fn adopt(plan: &FieldPlan) -> Option<TokenStream> {
    let (ident, class) = (&plan.ident, plan.change.as_ref()?);
    Some(quote! {
        if change == crate::job::SpecChange::#class {
            self.#ident.clone_from(&new.#ident);
        }
    })
}

fn status(plan: &FieldPlan) -> TokenStream {
    let (file, ident) = (&plan.file, &plan.ident);
    quote! { (#file, crate::job::file::StatusText::status_text(&self.#ident)) }
}

//! `#[derive(FileMessage)]`: what a job file, the check, the schema and the pages know of a struct, from the attributes
//! of its fields. It is used within `borough-model` only, since it names that crate's types.
//!
//! | `#[field(…)]` | meaning |
//! |---|---|
//! | `kind = K` | how the value is read, checked and described: a `FieldKind` of the field's type |
//! | `file = "…"` | its name in a job file; else the field's own |
//! | `nested` | a message of its own, or an `Option` of one |
//! | `flatten` | its fields are those of the outer message, and are read by hand |
//! | `read = f` | reads what `kind` cannot: `fn(&mut FieldReader, &FileItem, &Self) -> Option<T>` |
//! | `by_hand` | read by the function that the struct's `#[message(rest = f)]` names |
//! | `check = f` | checks what `kind` cannot: `fn(&mut FieldErrors, path, &Self)` |
//! | `schema = f` | describes what `kind` cannot: `fn() -> Value` |
//! | `hidden` | no field of a job file |
//! | `required = "…"` | must be in the file; the text says what is accepted |
//! | `given`, `init = e` | what `initial` sets it to: an argument, or an expression; else the type's default |
//! | `value = "…"` | the page's text of what it takes; else the doc comment |
//! | `default = "…"` | the page's text of what absence means |
//! | `example = …` | a value in JSON, which tests read, check, send, store and hold against the schema |
//! | `change = C` | the `SpecChange` that a running job takes |
//! | `status` | shown by `job status` |

mod expand;
mod field;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `FileMessage`, and `initial` with the fields that are `given`.
#[proc_macro_derive(FileMessage, attributes(field, message))]
pub fn file_message(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

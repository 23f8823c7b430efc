//! The codes of gRPC, as the audit and metrics have them.

use tonic::Code;

/// The code as gRPC writes it, such as `PERMISSION_DENIED`.
pub(crate) fn code_text(code: Code) -> String {
    let words = format!("{code:?}");
    let mut text = String::with_capacity(words.len() + 2);
    for letter in words.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
    }
    text
}

//! The names of the arguments that a Jsonnet file takes.

use rsjsonnet_lang::arena::Arena;
use rsjsonnet_lang::interner::StrInterner;
use rsjsonnet_lang::lexer::Lexer;
use rsjsonnet_lang::span::SpanManager;
use rsjsonnet_lang::token::{STokenKind, TokenKind};

/// The parameters of the function that is the value of a file; empty if the text shows none. The value of a file stands
/// behind its definitions, so the function begins the file or follows a `;` outside all brackets.
pub(super) fn parameters(source: &str) -> Vec<String> {
    let (values, syntax, names) = (Arena::new(), Arena::new(), StrInterner::new());
    let mut spans = SpanManager::new();
    let (context, _) = spans.insert_source_context(source.len());
    let lexer = Lexer::new(&values, &syntax, &names, &mut spans, context, source.as_bytes());
    let Ok(tokens) = lexer.lex_to_eof(false) else { return Vec::new() };
    let (mut depth, mut inside, mut found) = (0_usize, false, Vec::new());
    let mut before = None;
    for token in &tokens {
        match &token.kind {
            TokenKind::Simple(kind) => {
                let begins_value = matches!(before, None | Some(STokenKind::Semicolon));
                inside |= *kind == STokenKind::Function && depth == 0 && begins_value;
                match kind {
                    STokenKind::LeftParen | STokenKind::LeftBracket | STokenKind::LeftBrace => depth += 1,
                    STokenKind::RightParen | STokenKind::RightBracket | STokenKind::RightBrace => {
                        depth = depth.saturating_sub(1);
                        if inside && depth == 0 {
                            return found;
                        }
                    }
                    _ => {}
                }
                before = Some(*kind);
            }
            TokenKind::Ident(name) => {
                let begins = matches!(before, Some(STokenKind::LeftParen | STokenKind::Comma));
                if inside && depth == 1 && begins {
                    found.push(name.value().to_owned());
                }
                // No name is a bracket, so the next one begins no parameter.
                before = Some(STokenKind::Dot);
            }
            _ => before = Some(STokenKind::Dot),
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_of_the_value_of_a_file_are_found() {
        for (source, expected) in [
            ("function(a, b='x', c=[1, d]) { e: function(f) f }", vec!["a", "b", "c"]),
            ("local g = function(x) x; local h(y) = y; function(z) z", vec!["z"]),
            ("{ a: function(x) x }", vec![]),
            ("function() 1", vec![]),
            ("function(", vec![]),
        ] {
            assert_eq!(parameters(source), expected, "{source}");
        }
    }
}

//! What a Jsonnet file may import: files beside it and below, by relative paths. A job file that is copied with its
//! directory is complete, and what it renders to does not depend on the rest of the machine.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rsjsonnet_lang::arena::Arena;
use rsjsonnet_lang::interner::StrInterner;
use rsjsonnet_lang::lexer::Lexer;
use rsjsonnet_lang::span::SpanManager;
use rsjsonnet_lang::token::{STokenKind, Token, TokenKind};

use super::super::{FILE_BYTES_MAX, kind_unreadable};

/// Most files of one evaluation.
const FILES_MAX: usize = 256;

/// Checks every import of `file`, and of what it imports, to be within `directory`. Files that cannot be parsed are
/// left to the evaluator, which says best what is wrong with them.
pub(super) fn imports_check(file: &Path, directory: &Path) -> Result<(), String> {
    let mut seen = BTreeSet::from([file.to_path_buf()]);
    let mut unread = vec![file.to_path_buf()];
    while let Some(from) = unread.pop() {
        let source = source_read(&from)?;
        for import in imports(&source) {
            let Some(target) = target(&from, &import, directory)? else { continue };
            if seen.insert(target.clone()) {
                unread.push(target);
            }
            if seen.len() > FILES_MAX {
                return Err(format!("imports more than {FILES_MAX} files"));
            }
        }
    }
    Ok(())
}

/// The file that an import names. `None` if it does not exist: the evaluator reports the place of such an import when
/// it needs the file.
fn target(from: &Path, import: &str, directory: &Path) -> Result<Option<PathBuf>, String> {
    let refuse = || {
        let what = "accepted: relative paths of files in the job file's directory and below";
        format!("imports {import:?}, which is outside; {what}")
    };
    if Path::new(import).is_absolute() {
        return Err(refuse());
    }
    let joined = from.parent().unwrap_or(directory).join(import);
    match std::fs::canonicalize(&joined) {
        Ok(target) if target.starts_with(directory) => Ok(Some(target)),
        Ok(_) => Err(refuse()),
        Err(_) if Path::new(import).components().any(|part| part.as_os_str() == "..") => Err(refuse()),
        Err(_) => Ok(None),
    }
}

fn source_read(file: &Path) -> Result<Vec<u8>, String> {
    if let Some(kind) = kind_unreadable(file) {
        return Err(format!("imports {}, which is a {kind}; accepted: files", file.display()));
    }
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", file.display());
    let mut source = Vec::new();
    let opened = std::fs::File::open(file).map_err(failed)?;
    opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut source).map_err(failed)?;
    let fits = u64::try_from(source.len()).is_ok_and(|length| length <= FILE_BYTES_MAX);
    if !fits {
        return Err(format!("{} has more than {FILE_BYTES_MAX} bytes", file.display()));
    }
    Ok(source)
}

/// The path of every import. Jsonnet has no computed paths: the token after the keyword is the path, or the file is
/// wrong. A file for `importstr` or `importbin` may hold any bytes, and most often gives no tokens.
fn imports(source: &[u8]) -> Vec<String> {
    let (values, syntax, names) = (Arena::new(), Arena::new(), StrInterner::new());
    let mut spans = SpanManager::new();
    let (context, _) = spans.insert_source_context(source.len());
    let lexer = Lexer::new(&values, &syntax, &names, &mut spans, context, source);
    let Ok(tokens) = lexer.lex_to_eof(false) else { return Vec::new() };
    let path = |pair: &[Token<'_, '_>]| match pair {
        [keyword, path] if is_import(&keyword.kind) => match path.kind {
            TokenKind::String(path) => Some(path.to_owned()),
            _ => None,
        },
        _ => None,
    };
    tokens.windows(2).filter_map(path).collect()
}

fn is_import(token: &TokenKind<'_, '_>) -> bool {
    let keywords = [STokenKind::Import, STokenKind::Importstr, STokenKind::Importbin];
    keywords.iter().any(|&keyword| *token == TokenKind::Simple(keyword))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_found_wherever_they_stand() {
        let source = r#"local a = import 'a.libsonnet'; // import 'comment'
            { b: [importstr "dir/b.txt", importbin @'raw.bin'], c: "import 'text'", d: 'Import("no.jsonnet")',
              f(x=import 'c.libsonnet'):: x }"#;
        let mut found = imports(source.as_bytes());
        found.sort();
        assert_eq!(found, ["a.libsonnet", "c.libsonnet", "dir/b.txt", "raw.bin"]);
    }

    #[test]
    fn what_is_outside_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(directory.path()).unwrap();
        let file = root.join("job.jsonnet");
        std::fs::write(root.join("ok.libsonnet"), "{}").unwrap();
        for (source, fine) in [
            ("import 'ok.libsonnet'", true),
            ("import './ok.libsonnet'", true),
            ("import 'missing.libsonnet'", true),
            ("import '../other.libsonnet'", false),
            ("importstr '/etc/hostname'", false),
            ("importbin '/etc/hostname'", false),
        ] {
            std::fs::write(&file, source).unwrap();
            assert_eq!(imports_check(&file, &root).is_ok(), fine, "{source}");
        }
    }

    #[test]
    fn files_that_import_each_other_end() {
        let directory = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(directory.path()).unwrap();
        std::fs::write(root.join("a.jsonnet"), "import 'b.jsonnet'").unwrap();
        std::fs::write(root.join("b.jsonnet"), "import 'a.jsonnet'").unwrap();
        assert_eq!(imports_check(&root.join("a.jsonnet"), &root), Ok(()));
    }
}

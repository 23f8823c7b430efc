//! The catalogue of messages: every error text that the program can print, collected from its sources into one file.
//! `messages.txt` is for people to read; `docs/messages.md` has the rules, and the ones that a program can check are
//! checked here. To write the file again: `UPDATE_EXPECT=1 cargo test -p borough-tests --test messages`.

#![expect(clippy::expect_used, reason = "a test says what it expected")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// Texts in the catalogue at least: with fewer the collection has lost a source.
const TEXTS_MIN: usize = 350;
/// Words of a message.
const WORDS_MAX: usize = 40;

/// Functions whose texts reach a person, by the last parts of their path.
const CALLS: [&str; 6] =
    ["Failure::new", "failed", "FieldRefused::new", "Problem::at", "Problem::new", "DetailedRefusal::new"];
/// Methods whose texts reach a person.
const METHODS: [&str; 6] = ["with_hint", "refuse", "refuse_as", "require", "missing", "unknown"];

/// Words that no message has, each with what it says instead.
const UNWANTED: [(&str, &str); 11] = [
    ("please", "say what to run"),
    ("sorry", "say what is wrong"),
    ("oops", "say what is wrong"),
    ("illegal", "say what is accepted"),
    ("bad request", "name the field"),
    ("failed to", "cannot"),
    ("unable to", "cannot"),
    ("something went", "say what"),
    ("internal error", "say what"),
    ("unexpected error", "say what"),
    ("an error occurred", "say what"),
];

/// Crates whose texts only their own tests and tools print.
const OTHERS: [&str; 4] = ["loadtest/", "fuzz/", "tests/", "store/kv/src/sim"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources() -> Vec<String> {
    let arguments = ["ls-files", "-co", "--exclude-standard", "--", "*.rs"];
    let output = Command::new("git").current_dir(root()).args(arguments).output().expect("git runs");
    let listed = String::from_utf8(output.stdout).expect("paths are UTF-8");
    let is_test =
        |path: &str| path.contains("/tests/") || path.ends_with("tests.rs") || path.contains("/benches/");
    let ours =
        listed.lines().filter(|path| !OTHERS.iter().any(|other| path.starts_with(other)) && !is_test(path));
    ours.filter(|path| root().join(path).exists()).map(str::to_owned).collect()
}

/// The texts of a source file.
#[derive(Default)]
struct Texts {
    found: BTreeSet<String>,
    /// How deep within the arguments of a call whose texts count.
    counting: usize,
}

impl Texts {
    fn add(&mut self, text: &str) {
        // One word is a name, not a message.
        if text.split_whitespace().count() > 1 {
            self.found.insert(text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }

    /// The first text of a macro such as `format!`.
    fn macro_text(&mut self, tokens: TokenStream) {
        for tree in tokens {
            if let TokenTree::Literal(literal) = tree
                && let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string())
            {
                self.add(&text.value());
                return;
            }
        }
    }
}

fn path_text(path: &syn::Path) -> String {
    let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    names[names.len().saturating_sub(2)..].join("::")
}

impl<'ast> Visit<'ast> for Texts {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.ident != "tests" && module.ident != "test" {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if attribute.path().is_ident("error")
            && let syn::Meta::List(list) = &attribute.meta
        {
            self.macro_text(list.tokens.clone());
        }
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        let counts = match &*call.func {
            syn::Expr::Path(path) => {
                let name = path_text(&path.path);
                let last = name.rsplit("::").next().unwrap_or_default().to_owned();
                let is_status = name.starts_with("Status::") || last.starts_with("status_");
                is_status || CALLS.contains(&name.as_str()) || CALLS.contains(&last.as_str())
            }
            _ => false,
        };
        self.counting += usize::from(counts);
        visit::visit_expr_call(self, call);
        self.counting -= usize::from(counts);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let counts = METHODS.contains(&call.method.to_string().as_str());
        self.visit_expr(&call.receiver);
        self.counting += usize::from(counts);
        call.args.iter().for_each(|argument| self.visit_expr(argument));
        self.counting -= usize::from(counts);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        // A text that is made before the call has the name of its place in the message.
        let name = match &local.pat {
            syn::Pat::Ident(name) => name.ident.to_string(),
            _ => String::new(),
        };
        let counts =
            ["message", "hint", "accepted", "why", "problem", "text", "reason"].contains(&name.as_str());
        self.counting += usize::from(counts);
        visit::visit_local(self, local);
        self.counting -= usize::from(counts);
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        if self.counting > 0 {
            self.add(&text.value());
        }
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        if self.counting > 0 && called.path.is_ident("format") {
            self.macro_text(called.tokens.clone());
        }
    }
}

/// The texts of each crate, in the order of their sources.
fn catalogue() -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in sources() {
        let source = fs::read_to_string(root().join(&path)).expect("a source file");
        let mut texts = Texts::default();
        texts.visit_file(&syn::parse_file(&source).expect("it compiles"));
        let of = path.split("/src/").next().unwrap_or_default().to_owned();
        all.entry(of).or_default().extend(texts.found);
    }
    all.retain(|_, texts| !texts.is_empty());
    all
}

/// Which rule a text breaks, if it breaks one.
fn rule_broken(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    if let Some((word, instead)) = UNWANTED.iter().find(|(word, _)| lower.contains(word)) {
        return Some(format!("{word:?} is unwanted ({instead})"));
    }
    if text.ends_with('.') && !text.ends_with("...") || text.ends_with('!') {
        return Some("a message has no mark at its end".to_owned());
    }
    let first = text.split_whitespace().next().unwrap_or_default();
    let is_sentence = first.len() > 1
        && first.starts_with(|first: char| first.is_ascii_uppercase())
        && first.chars().skip(1).all(|each| each.is_ascii_lowercase());
    if is_sentence {
        return Some("a message begins with a small letter".to_owned());
    }
    (text.split_whitespace().count() > WORDS_MAX).then(|| format!("more than {WORDS_MAX} words"))
}

#[test]
fn every_message_is_in_the_catalogue_and_follows_the_rules() {
    let all = catalogue();
    let mut written = "Every error text and hint that the program can print, by the crate that has it.\n\
        The rules are in docs/messages.md. {} stands for a value.\n"
        .to_owned();
    for (of, texts) in &all {
        written.push_str(&format!("\n## {of}\n\n"));
        texts.iter().for_each(|text| written.push_str(&format!("{text}\n")));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &written).expect("written");
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    let known: BTreeSet<&str> = known.lines().collect();
    let new: Vec<&str> = written.lines().filter(|line| !known.contains(line)).collect();
    assert!(new.is_empty(), "not in the catalogue; read them, then UPDATE_EXPECT=1:\n  {}", new.join("\n  "));
    let now: BTreeSet<&str> = written.lines().collect();
    let gone: Vec<&&str> = known.iter().filter(|line| !now.contains(*line)).collect();
    assert!(
        gone.is_empty(),
        "in the catalogue, and no longer printed; UPDATE_EXPECT=1 removes them: {gone:#?}"
    );
    let texts = all.values().flatten();
    let broken: Vec<String> =
        texts.clone().filter_map(|text| Some(format!("{}: {text}", rule_broken(text)?))).collect();
    assert!(broken.is_empty(), "these messages break a rule of docs/messages.md:\n  {}", broken.join("\n  "));
    assert!(texts.count() >= TEXTS_MIN, "only {} texts were found", all.values().flatten().count());
}

#[test]
fn texts_are_found_where_they_reach_a_person() {
    let source = r#"
        #[derive(Error)] enum E { #[error("no store in {path}")] A, #[error(transparent)] B(X) }
        fn f() {
            Failure::new(Code::Usage, format!("cannot write {x}: {y}", y = "not this")).with_hint("try again later");
            Status::aborted("a newer session"); status_not_found(&format!("node {n}")); other("not this one");
            let hint = "made before"; fields.require(fine, "path here", value, "1 to 4 tasks");
        }
        mod tests { fn g() { Failure::new(c, "of a test"); } }
    "#;
    let mut texts = Texts::default();
    texts.visit_file(&syn::parse_file(source).expect("it parses"));
    let found: Vec<&str> = texts.found.iter().map(String::as_str).collect();
    let expected = [
        "1 to 4 tasks",
        "a newer session",
        "cannot write {x}: {y}",
        "made before",
        "no store in {path}",
        "node {n}",
        "path here",
        "try again later",
    ];
    assert_eq!(found, expected);
}

#[test]
fn broken_rules_are_named() {
    for text in ["Please try again", "cannot open it.", "Cannot open it", "failed to open {path}"] {
        assert!(rule_broken(text).is_some(), "{text}");
    }
    for text in [
        "cannot open {path}: {error}",
        "YAML has no tabs",
        "FoundationDB is not linked",
        "{field} is {value}",
    ] {
        assert_eq!(rule_broken(text), None, "{text}");
    }
}

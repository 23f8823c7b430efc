//! Sentences of the documentation are short. Tables and code are not sentences.

use std::fs;

use super::{assert_none, root, tracked};

const WORDS_MAX: usize = 30;

/// The paragraphs of a Markdown text, each with the number of its first line.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut open, mut code): (Vec<(usize, String)>, bool, bool) = (Vec::new(), false, false);
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        let fence = trimmed.starts_with("```");
        code ^= fence;
        let is_text = !(fence || code || trimmed.is_empty() || trimmed.starts_with(['|', '#']));
        // A line that goes on in a list is indented by two or three. By four begins code.
        if !is_text || line.starts_with("    ") {
            open = false;
            continue;
        }
        let numbered = trimmed.trim_start_matches(|digit: char| digit.is_ascii_digit()).starts_with(". ");
        let item = trimmed.starts_with("- ") || trimmed.starts_with("* ") || numbered;
        match found.last_mut().filter(|_| open && !item) {
            Some((_, paragraph)) => {
                paragraph.push(' ');
                paragraph.push_str(trimmed);
            }
            None => found.push((at + 1, trimmed.to_owned())),
        }
        open = true;
    }
    found
}

/// The text without what stands in backquotes, each replaced by one word.
fn without_code(text: &str) -> String {
    let part = |(at, part): (usize, &str)| if at % 2 == 0 { part.to_owned() } else { "X".to_owned() };
    text.split('`').enumerate().map(part).collect()
}

/// The number of words of each sentence, with its beginning. A colon or a semicolon also ends one.
fn sentences(paragraph: &str) -> Vec<(usize, String)> {
    let mut found = vec![Vec::new()];
    for word in without_code(paragraph).split_whitespace() {
        let last: &mut Vec<String> = found.last_mut().expect("there is one");
        last.extend(word.chars().any(char::is_alphanumeric).then(|| word.to_owned()));
        if word.trim_end_matches([')', '*', '"', '_']).ends_with(['.', '!', '?', ':', ';']) {
            found.push(Vec::new());
        }
    }
    found
        .into_iter()
        .map(|words| (words.len(), words.into_iter().take(6).collect::<Vec<_>>().join(" ")))
        .collect()
}

fn long_sentences(text: &str) -> Vec<String> {
    let mut long = Vec::new();
    for (line, paragraph) in paragraphs(text) {
        let found = sentences(&paragraph).into_iter().filter(|(words, _)| *words > WORDS_MAX);
        long.extend(found.map(|(words, begins)| format!("{line}: {words} words: {begins} …")));
    }
    long
}

#[test]
fn sentences_of_the_documentation_are_short() {
    let mut long = Vec::new();
    for path in tracked("*.md") {
        let text = fs::read_to_string(root().join(&path)).expect("a tracked file");
        long.extend(long_sentences(&text).into_iter().map(|found| format!("{path}:{found}")));
    }
    assert_none("sentences have at most 30 words: make two of it, or a list", &long);
}

#[test]
fn a_long_sentence_is_refused() {
    let words = |count: usize| vec!["word"; count].join(" ");
    assert_eq!(long_sentences(&format!("{}.", words(30))), [""; 0]);
    assert_eq!(long_sentences(&format!("One. {}\n{}.", words(20), words(11))).len(), 1, "over two lines");
    assert_eq!(
        long_sentences(&format!("{}. {}: {}; {}", words(20), words(20), words(20), words(20))),
        [""; 0]
    );
    assert_eq!(long_sentences(&format!("- {}\n- {}", words(20), words(20))), [""; 0], "items of a list");
    assert_eq!(
        long_sentences(&format!("| {} |\n\n    {}\n```\n{}\n```", words(40), words(40), words(40))),
        [""; 0]
    );
    assert_eq!(long_sentences(&format!("{} `{}`.", words(29), words(9))), [""; 0], "code is one word");
}

//! A job file, and what its Jsonnet gets.

use std::path::PathBuf;

use clap::Args;

use super::word_shown;

/// A job file.
#[derive(Clone, Debug, Args)]
pub struct FileArguments {
    /// Job file: .yaml, .yml, .json or .jsonnet; `-` reads YAML from standard input
    pub file: PathBuf,
    /// Set std.extVar of a Jsonnet file; repeat for more
    #[arg(long, value_parser = pair, value_name = "KEY=VALUE")]
    pub ext_str: Vec<(String, String)>,
    /// Pass an argument to the function in a Jsonnet file; repeat for more
    #[arg(long, value_parser = pair, value_name = "KEY=VALUE")]
    pub tla_str: Vec<(String, String)>,
}

impl FileArguments {
    /// The arguments as a shell takes them.
    pub(crate) fn words(&self) -> String {
        let options = |name: &'static str, pairs: &[(String, String)]| -> Vec<String> {
            let pair =
                |(key, value): &(String, String)| format!("{name} {}", word_shown(&format!("{key}={value}")));
            pairs.iter().map(pair).collect()
        };
        let mut words = options("--ext-str", &self.ext_str);
        words.extend(options("--tla-str", &self.tla_str));
        words.push(word_shown(&self.file.to_string_lossy()));
        let text = words.join(" ");
        if self.file.as_os_str() == "-" { format!("{text} (with the same standard input)") } else { text }
    }
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("accepted: KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_a_shell() {
        let of = |file: &str, tla: &str| {
            let tla_str = tla.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
            FileArguments { file: file.into(), ext_str: Vec::new(), tla_str: tla_str.into_iter().collect() }
                .words()
        };
        assert_eq!(of("fn.jsonnet", "env=prod"), "--tla-str env=prod fn.jsonnet");
        assert_eq!(of("my job.jsonnet", "a=b c"), "--tla-str 'a=b c' 'my job.jsonnet'");
        assert_eq!(of("-", ""), "- (with the same standard input)");
    }
}

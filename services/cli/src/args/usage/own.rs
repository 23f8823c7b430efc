//! The lines of this program for what people type who know another one.

use clap::error::{ContextKind, ErrorKind};

use super::super::foreign_option::{renamed, single_dash};
use super::super::foreign_verb::{COUNT_OPTIONS, foreign_verb, scale_command};
use super::{UsageError, named, word_shown};

impl UsageError<'_> {
    /// A word of nomad behind one dash.
    pub(super) fn single_dash(&self) -> Option<String> {
        let wrong = match self.error.kind() {
            ErrorKind::UnknownArgument if self.terminal_options().is_none() => {
                self.text(ContextKind::InvalidArg)
            }
            ErrorKind::InvalidValue | ErrorKind::ValueValidation => self.text(ContextKind::InvalidValue),
            _ => return None,
        };
        Some(wrong)
            .filter(|wrong| wrong.len() > 1)
            .and_then(|wrong| single_dash(self.verb, &wrong, self.line))
    }

    /// The taints that kubectl removes with a dash behind them.
    pub(super) fn untaint(&self) -> Option<String> {
        let taint = self.text(ContextKind::InvalidValue);
        (self.verb == "borough node taint" && taint.ends_with('-')).then_some(())?;
        let at = self.line.iter().position(|word| word == "taint")?.checked_add(1)?;
        let words = self.line.get(at..)?.iter().map(|word| word.to_string_lossy().into_owned());
        Some(format!("borough {}", foreign_verb("node", "taint", &words.collect::<Vec<_>>())?))
    }

    /// The command of this program for a verb of another one.
    pub(super) fn own_verb(&self) -> Option<String> {
        if self.error.kind() != ErrorKind::InvalidSubcommand {
            return None;
        }
        let word = self.text(ContextKind::InvalidSubcommand);
        let words: Vec<String> =
            self.line.iter().skip(1).map(|word| word_shown(&word.to_string_lossy())).collect();
        let at = words.iter().position(|known| *known == word)?;
        let (before, rest) = (words.get(..at)?, words.get(at.checked_add(1)?..)?);
        let noun = self.verb.strip_prefix("borough").unwrap_or_default().trim();
        let command = foreign_verb(noun, &word, rest)?;
        let global = before.iter().filter(|known| *known != noun).map(String::as_str);
        let words: Vec<&str> = std::iter::once("borough").chain(global).chain([command.as_str()]).collect();
        Some(words.join(" "))
    }

    /// The command that has the option which this verb lacks. The history of a job goes nowhere by itself, and a count
    /// is no option.
    pub(super) fn own_option(&self) -> Option<String> {
        let option = self.text(ContextKind::InvalidArg);
        if self.error.kind() == ErrorKind::UnknownArgument
            && self.verb == "borough job scale"
            && COUNT_OPTIONS.contains(&named(&option).as_str())
        {
            let words: Vec<String> =
                self.line.iter().map(|word| word_shown(&word.to_string_lossy())).collect();
            let behind = words.iter().position(|word| word == "scale").and_then(|at| words.get(at + 1..));
            return Some(format!("borough {}", scale_command(behind.unwrap_or_default())));
        }
        let is_unknown = self.error.kind() == ErrorKind::UnknownArgument;
        if let Some(line) = renamed(self.verb, &named(&option), self.line).filter(|_| is_unknown) {
            return Some(line);
        }
        let is_history = is_unknown && self.verb == "borough job history";
        let is_version =
            ["--to", "--version", "--revision", "--to-revision"].contains(&named(&option).as_str());
        let words = self.line.iter().filter_map(|word| word.to_str());
        let job = words.skip_while(|word| *word != "history").nth(1).filter(|word| !word.starts_with('-'));
        (is_history && is_version)
            .then(|| format!("borough rollout undo {} --to VERSION", word_shown(job.unwrap_or("JOB"))))
    }

    /// The same line without the options that ask kubectl and docker for a terminal, such as `-it`.
    pub(super) fn terminal_options(&self) -> Option<String> {
        if self.verb != "borough task exec" || self.error.kind() != ErrorKind::UnknownArgument {
            return None;
        }
        let is_asked = |word: &str| {
            ["--tty", "--stdin", "--interactive"].contains(&word)
                || word.strip_prefix('-').is_some_and(|letters| {
                    !letters.is_empty() && letters.chars().all(|letter| matches!(letter, 'i' | 't'))
                })
        };
        let option = named(&self.text(ContextKind::InvalidArg));
        is_asked(&option).then_some(())?;
        let words: Vec<String> =
            self.line.iter().skip(1).map(|word| word_shown(&word.to_string_lossy())).collect();
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        let (before, behind) = words.split_at(end);
        let mut kept: Vec<&str> = before.iter().map(String::as_str).filter(|word| !is_asked(word)).collect();
        // The command of the task stands behind `--`.
        if let (["task", "exec", _, _, ..], []) = (kept.as_slice(), behind) {
            kept.insert(3, "--");
        }
        let line = std::iter::once("borough").chain(kept).chain(behind.iter().map(String::as_str));
        Some(line.collect::<Vec<_>>().join(" "))
    }
}

//! Whether output has colours: on a terminal that shows them, unless somebody says otherwise.

use clap::ValueEnum;

use crate::config::Environment;

/// What `--color` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Wanted {
    /// On a terminal, unless NO_COLOR or CLICOLOR=0 is set; everywhere with CLICOLOR_FORCE
    #[default]
    Auto,
    Always,
    Never,
}

impl Wanted {
    /// Returns whether a stream gets colours.
    pub(super) fn holds(self, environment: &Environment, is_terminal: bool) -> bool {
        let is = |name: &str, value: &str| environment.get(name) == Some(value);
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto if environment.get("NO_COLOR").is_some() => false,
            Self::Auto if environment.get("CLICOLOR_FORCE").is_some() && !is("CLICOLOR_FORCE", "0") => true,
            Self::Auto => is_terminal && !is("CLICOLOR", "0") && !is("TERM", "dumb"),
        }
    }

    /// Returns what words of a command line say, before they are understood: help and mistakes have colours too.
    pub(super) fn said(words: impl IntoIterator<Item = String>) -> Self {
        let words: Vec<String> = words.into_iter().take_while(|word| word != "--").collect();
        let beside = words.windows(2).filter(|pair| pair[0] == "--color").map(|pair| pair[1].as_str());
        let joined = words.iter().filter_map(|word| word.strip_prefix("--color="));
        beside.chain(joined).last().and_then(|word| Self::from_str(word, false).ok()).unwrap_or_default()
    }
}

impl From<Wanted> for clap::ColorChoice {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Auto => Self::Auto,
            Wanted::Always => Self::Always,
            Wanted::Never => Self::Never,
        }
    }
}

/// A colour or a weight of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Bold,
    Dim,
    /// All is well.
    Good,
    /// Something waits.
    Waits,
    /// Something is wrong.
    Bad,
}

impl Paint {
    /// Returns the text with this paint on it.
    pub(super) fn on(self, text: &str) -> String {
        let code = match self {
            Self::Bold => 1,
            Self::Dim => 2,
            Self::Good => 32,
            Self::Waits => 33,
            Self::Bad => 31,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Returns the paint of a state: a word in a column of states.
    pub(super) fn of(column: &str, word: &str) -> Option<Self> {
        let states = ["status", "state", "outcome", "connection", "inbound", "outbound"];
        if !states.contains(&column) {
            return None;
        }
        match word {
            "failed" | "dead" | "refused" | "failing" | "offline" | "missed" | "fail" | "undeliverable" => {
                Some(Self::Bad)
            }
            "unknown" | "held" | "waiting" | "pending" | "paused" | "queued" | "starting" | "connecting"
            | "cancelled" | "skipped" | "warn" => Some(Self::Waits),
            "running" | "sending" | "busy" | "connected" | "ok" | "live" | "active" => Some(Self::Good),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_unless_somebody_says_otherwise() {
        let holds = |wanted: Wanted, set: &[(&str, &str)], is_terminal| {
            wanted.holds(&Environment::with(set), is_terminal)
        };
        for (wanted, set, on_a_terminal, in_a_pipe) in [
            (Wanted::Auto, &[][..], true, false),
            (Wanted::Auto, &[("NO_COLOR", "1")], false, false),
            (Wanted::Auto, &[("NO_COLOR", "")], true, false),
            (Wanted::Auto, &[("CLICOLOR", "0")], false, false),
            (Wanted::Auto, &[("TERM", "dumb")], false, false),
            (Wanted::Auto, &[("CLICOLOR_FORCE", "1")], true, true),
            (Wanted::Auto, &[("CLICOLOR_FORCE", "0")], true, false),
            (Wanted::Auto, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false, false),
            (Wanted::Always, &[("NO_COLOR", "1")], true, true),
            (Wanted::Never, &[("CLICOLOR_FORCE", "1")], false, false),
        ] {
            let found = (holds(wanted, set, true), holds(wanted, set, false));
            assert_eq!(found, (on_a_terminal, in_a_pipe), "{wanted:?} {set:?}");
        }
    }

    #[test]
    fn the_option_is_found_among_words_that_are_not_understood_yet() {
        for (line, wanted) in [
            ("groups --help", Wanted::Auto),
            ("--color never groups", Wanted::Never),
            ("groups --color=always --hlep", Wanted::Always),
            ("--color never --color always", Wanted::Always),
            ("--color purple", Wanted::Auto),
            ("--color", Wanted::Auto),
            ("send -- --color never", Wanted::Auto),
        ] {
            assert_eq!(Wanted::said(line.split(' ').map(str::to_owned)), wanted, "{line}");
        }
    }
}

//! A tool that an agent uses, in words: `Bash ls -la · ok · 1.2 s`.

use ipc_handlers::{seen::acts, used::about, wire::Record};

use super::tool_servers::tool_as_shown;
use crate::{states::ToolOutcome, time::times::length};

/// The longest name of a tool that is kept and shown, characters.
pub const LONGEST_NAME: usize = 100;

/// A use of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub name: String,
    /// Its first argument, as it may be shown; `None`: it has none that is text, or an old runner does not say it.
    pub about: Option<String>,
    /// What came of it, and how long it took, ms; `None`: it runs, or nobody knows.
    pub end: Option<(ToolOutcome, i64)>,
}

impl Used {
    /// Returns the use that a record tells of, with the name of the use itself. A runner's words are bounded and cleaned here: any
    /// runner may write any.
    #[must_use]
    pub fn of(record: &Record) -> Option<(Self, Option<String>)> {
        let short = |text: &str| {
            let plain = text.chars().map(|c| if acts(c) { ' ' } else { c });
            plain.take(LONGEST_NAME).collect::<String>().trim().to_owned()
        };
        let shown = |text: &Option<String>| {
            text.as_deref().map(|text| about(text, [])).filter(|text| !text.is_empty())
        };
        let call = |call: &str| Some(short(call)).filter(|call| !call.is_empty());
        if let Some(end) = &record.tool_end {
            let outcome = if end.failed { ToolOutcome::Failed } else { ToolOutcome::Ok };
            let took = i64::try_from(end.ms).unwrap_or(i64::MAX);
            let used = Self { name: short(&end.tool), about: shown(&end.about), end: Some((outcome, took)) };
            return Some((used, call(&end.call)));
        }
        let name = short(record.tool.as_deref()?);
        let used = Self { name, about: shown(&record.tool_about), end: None };
        (!used.name.is_empty()).then(|| (used, record.tool_call.as_deref().and_then(call)))
    }

    /// Returns it on one line, for people.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut words = tool_as_shown(&self.name);
        if let Some(about) = &self.about {
            words = format!("{words} {about}");
        }
        if let Some((outcome, ms)) = self.end {
            words = format!("{words} · {outcome} · {}", length(ms));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use ipc_handlers::wire::{Kind, ToolEnd};

    use super::*;

    fn begins(tool: &str, about: Option<&str>) -> Record {
        Record {
            kind: Kind::Progress,
            tool: Some(tool.into()),
            tool_call: Some("t1".into()),
            tool_about: about.map(str::to_owned),
            ..Record::default()
        }
    }

    fn ends(tool: &str, failed: bool, ms: u64) -> Record {
        let end = ToolEnd { call: "t1".into(), tool: tool.into(), about: Some("ls -la".into()), failed, ms };
        Record { kind: Kind::Progress, tool_end: Some(Box::new(end)), ..Record::default() }
    }

    #[test]
    fn a_use_is_told_with_its_argument_and_its_outcome() {
        for (record, words) in [
            (begins("Bash", Some("ls -la")), "Bash ls -la"),
            (begins("mcp__weather__forecast", None), "weather: forecast"),
            (ends("Bash", false, 1_234), "Bash ls -la · ok · 1.2 s"),
            (ends("Read", true, 15), "Read ls -la · failed · 15 ms"),
        ] {
            let (used, call) = Used::of(&record).unwrap();
            assert_eq!((used.in_words().as_str(), call.as_deref()), (words, Some("t1")));
        }
        // An old runner says the name alone, and most records are of no tool.
        let old = Record { tool: Some("Bash".into()), ..Record::default() };
        assert_eq!(Used::of(&old).map(|(used, call)| (used.in_words(), call)), Some(("Bash".into(), None)));
        assert_eq!(Used::of(&Record::default()), None);
    }

    #[test]
    fn a_foreign_runner_writes_nothing_long_and_nothing_that_acts() {
        let long = "x".repeat(1_000_000);
        let mut record = begins(&long, Some(&format!("a\u{1b}[31m --password hunter2 {long}")));
        record.tool_call = Some(long.clone());
        let (used, call) = Used::of(&record).unwrap();
        assert_eq!((used.name.len(), call.map(|call| call.len())), (LONGEST_NAME, Some(LONGEST_NAME)));
        let about = used.about.unwrap();
        assert!(about.starts_with("a [31m --password … x") && about.chars().count() == 80, "{about}");
        let mut end = ends("T", false, u64::MAX);
        end.tool_end.as_mut().unwrap().about = Some(long);
        assert!(Used::of(&end).unwrap().0.in_words().chars().count() < 200);
    }
}

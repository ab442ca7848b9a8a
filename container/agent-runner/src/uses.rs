//! What the host is told of tools: the beginning and the end of each use.

use std::{collections::BTreeMap, time::Duration};

use ipc_handlers::{used::about, wire::ToolEnd};

/// At most this many uses are under way at once. The oldest gives way to one more, and its end is not told.
const MOST: usize = 256;
/// The longest id of a use, and name of a tool, characters.
const LONGEST: usize = 100;

/// The uses that have begun.
#[derive(Default)]
pub(crate) struct Uses {
    /// No word about a use has one of these in it.
    secrets: Vec<String>,
    begun: BTreeMap<String, Begun>,
    count: u64,
}

/// A use that has begun.
#[derive(Clone)]
struct Begun {
    n: u64,
    name: String,
    about: Option<String>,
    at: Duration,
}

/// What the host is told as a use begins.
pub(crate) struct Told {
    /// None: it has no id by which its end could be told.
    pub(crate) call: Option<String>,
    pub(crate) about: Option<String>,
}

impl Uses {
    pub(crate) fn new(secrets: Vec<String>) -> Self {
        Self { secrets, ..Self::default() }
    }

    /// Notes that a use begins.
    pub(crate) fn begin(&mut self, id: &str, name: &str, argument: &str, at: Duration) -> Told {
        let call = Some(short(id)).filter(|id| !id.is_empty());
        let about =
            Some(about(argument, self.secrets.iter().map(String::as_str))).filter(|about| !about.is_empty());
        if let Some(call) = &call {
            self.count += 1;
            let begun = Begun { n: self.count, name: short(name), about: about.clone(), at };
            self.begun.insert(call.clone(), begun);
            if self.begun.len() > MOST
                && let Some(oldest) =
                    self.begun.iter().min_by_key(|(_, begun)| begun.n).map(|(call, _)| call.clone())
            {
                self.begun.remove(&oldest);
            }
        }
        Told { call, about }
    }

    /// Returns the end of a use, if its beginning is known.
    pub(crate) fn end(&mut self, id: &str, failed: bool, at: Duration) -> Option<ToolEnd> {
        let call = short(id);
        let Begun { name, about, at: begun, .. } = self.begun.remove(&call)?;
        let ms = u64::try_from(at.saturating_sub(begun).as_millis()).unwrap_or(u64::MAX);
        Some(ToolEnd { call, tool: name, about, failed, ms })
    }
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_use_is_told_from_its_beginning_to_its_end_without_secrets() {
        let mut uses = Uses::new(vec!["hush-hush".to_owned()]);
        let told = uses.begin("t1", "Bash", "login\nhush-hush", SECOND);
        assert_eq!((told.call.as_deref(), told.about.as_deref()), (Some("t1"), Some("login …")));
        assert_eq!(uses.begin("t2", "Read", "", SECOND).about, None);
        let end = uses.end("t1", true, SECOND * 3).unwrap();
        assert_eq!(
            (end.tool.as_str(), end.about.as_deref(), end.failed, end.ms),
            ("Bash", Some("login …"), true, 2_000)
        );
        assert_eq!(uses.end("t1", true, SECOND), None, "it has ended once");
        assert_eq!(uses.begin("", "Read", "x", SECOND).call, None);
    }

    #[test]
    fn of_very_many_uses_without_an_end_the_oldest_are_forgotten() {
        let mut uses = Uses::default();
        for n in 0..1_000 {
            uses.begin(&n.to_string(), "Read", "x", SECOND);
        }
        assert_eq!(uses.begun.len(), MOST);
        assert!(uses.end("0", false, SECOND).is_none() && uses.end("999", false, SECOND).is_some());
    }
}

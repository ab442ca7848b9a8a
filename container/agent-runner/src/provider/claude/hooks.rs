//! Hooks, as the CLI calls for them over its pipe: what they say, and the tools that run.

use serde_json::{Value, json};

use crate::host::Event as Report;

/// How long the CLI lets a command of Bash run that has declared nothing, ms.
const BASH_DEFAULT_MS: u64 = 120_000;

/// What a hook is called for.
pub(super) enum Hook {
    Before { id: String, name: String, timeout_ms: Option<u64> },
    After { id: String },
    Compact { transcript: String, session: String },
    Other,
}

/// Returns what a hook's input says.
pub(super) fn read(input: &Value) -> Hook {
    let text = |name: &str| input[name].as_str().unwrap_or_default().to_owned();
    match input["hook_event_name"].as_str().unwrap_or_default() {
        "PreToolUse" => {
            let name = text("tool_name");
            let declared =
                input["tool_input"]["timeout"].as_f64().filter(|ms| *ms >= 1.0).map(|ms| ms as u64);
            let timeout_ms = (name == "Bash").then(|| declared.unwrap_or(BASH_DEFAULT_MS));
            Hook::Before { id: text("tool_use_id"), name, timeout_ms }
        }
        "PostToolUse" | "PostToolUseFailure" => Hook::After { id: text("tool_use_id") },
        "PreCompact" => Hook::Compact { transcript: text("transcript_path"), session: text("session_id") },
        _ => Hook::Other,
    }
}

/// Returns the answer that refuses a tool.
pub(super) fn deny(name: &str) -> Value {
    json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny",
        "permissionDecisionReason": format!("{name} can't be used here: nobody sits at this session. Ask in your answer, or go on without it."),
    }})
}

/// The tools that run, oldest first.
#[derive(Default)]
pub(super) struct Tools {
    running: Vec<(String, String, Option<u64>)>,
    /// The one that the host knows of.
    shown: Option<String>,
}

impl Tools {
    pub(super) fn started(&mut self, id: String, name: String, timeout_ms: Option<u64>) {
        self.ended(&id);
        self.running.push((id, name, timeout_ms));
    }

    pub(super) fn ended(&mut self, id: &str) {
        self.running.retain(|(running, ..)| running != id);
    }

    /// Forgets them all, and returns what the host should know.
    pub(super) fn clear(&mut self) -> Option<Report> {
        self.running.clear();
        self.shown()
    }

    pub(super) fn any(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns what the host should know, if that has changed: of the tools that run the one that may take longest.
    pub(super) fn shown(&mut self) -> Option<Report> {
        let (id, report) = match self.running.iter().rev().max_by_key(|(.., timeout_ms)| *timeout_ms) {
            Some((id, name, timeout_ms)) => {
                (Some(id.clone()), Report::ToolStarted { name: name.clone(), timeout_ms: *timeout_ms })
            }
            None => (None, Report::ToolFinished),
        };
        if id == self.shown {
            return None;
        }
        self.shown = id;
        Some(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(name: &str, input: &Value) -> Option<u64> {
        let hook = json!({"hook_event_name": "PreToolUse", "tool_name": name, "tool_use_id": "t", "tool_input": input});
        match read(&hook) {
            Hook::Before { timeout_ms, .. } => timeout_ms,
            Hook::After { .. } | Hook::Compact { .. } | Hook::Other => panic!("before"),
        }
    }

    #[test]
    fn bash_declares_its_timeout_and_has_the_cli_s_own_otherwise() {
        assert_eq!(timeout("Bash", &json!({"command": "x", "timeout": 5000})), Some(5000));
        for none in [json!({}), json!({"timeout": 0}), json!({"timeout": -1}), json!({"timeout": "5"})] {
            assert_eq!(timeout("Bash", &none), Some(BASH_DEFAULT_MS), "{none}");
        }
        assert_eq!(timeout("Read", &json!({"timeout": 5000})), None);
    }

    #[test]
    fn of_several_tools_the_slowest_is_shown_until_it_ends() {
        let mut tools = Tools::default();
        let shown = |tools: &mut Tools| match tools.shown() {
            Some(Report::ToolStarted { timeout_ms, name }) => format!("{name} {timeout_ms:?}"),
            Some(_) => "none".to_owned(),
            None => "as before".to_owned(),
        };
        tools.started("1".to_owned(), "Bash".to_owned(), Some(9));
        assert_eq!(shown(&mut tools), "Bash Some(9)");
        tools.started("2".to_owned(), "Bash".to_owned(), Some(5));
        tools.started("3".to_owned(), "Read".to_owned(), None);
        // Not said again: its start would be taken for now.
        assert_eq!(shown(&mut tools), "as before");
        tools.ended("1");
        assert_eq!(shown(&mut tools), "Bash Some(5)");
        tools.ended("2");
        assert_eq!(shown(&mut tools), "Read None");
        assert!(matches!(tools.clear(), Some(Report::ToolFinished)) && tools.clear().is_none());
        assert!(!tools.any());
    }
}

//! Hooks, as the CLI calls for them over its pipe: what they say, and the tools that run.

use serde_json::{Value, json};

use crate::{host::Event as Report, provider::argument, tools::Answer};

/// How long the CLI lets a command of Bash run that has declared nothing, ms.
const BASH_DEFAULT_MS: u64 = 120_000;

/// The CLI's own tool that asks people. It needs somebody at the terminal, so `ask_user` stands for it.
pub(super) const ASKS: &str = "AskUserQuestion";
/// At most this many questions of one call are asked, as the CLI has it.
const MOST_QUESTIONS: usize = 4;

/// What a hook is called for.
pub(super) enum Hook {
    /// `asks`: the input of [`ASKS`].
    Before {
        id: String,
        name: String,
        timeout_ms: Option<u64>,
        asks: Option<Value>,
        /// What the tool is used on.
        about: String,
    },
    After {
        id: String,
        failed: bool,
    },
    Compact {
        transcript: String,
        session: String,
    },
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
            let asks = (name == ASKS).then(|| input["tool_input"].clone());
            let about = argument::first(&input["tool_input"]);
            Hook::Before { id: text("tool_use_id"), name, timeout_ms, asks, about }
        }
        "PostToolUse" => Hook::After { id: text("tool_use_id"), failed: false },
        "PostToolUseFailure" => Hook::After { id: text("tool_use_id"), failed: true },
        "PreCompact" => Hook::Compact { transcript: text("transcript_path"), session: text("session_id") },
        _ => Hook::Other,
    }
}

/// Returns the answer that refuses a tool that is blocked.
pub(super) fn deny(name: &str) -> Value {
    denied(&format!(
        "{name} can't be used here: nobody sits at this session. Ask in your answer, or go on without it."
    ))
}

fn denied(why: &str) -> Value {
    json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why,
    }})
}

/// Returns the answer to a call of [`ASKS`], by what the host said to each of its questions. The call itself never runs.
pub(super) fn asked(answers: &[Answer]) -> Value {
    let refused: Vec<&str> = answers
        .iter()
        .filter_map(|answer| match answer {
            Answer::Refused(words) => Some(words.as_str()),
            Answer::Done(_) => None,
        })
        .collect();
    denied(&match refused.as_slice() {
        [] => "This was asked in the chat. It did not fail: the answer comes later as a message that quotes the question, and a \
               message tells you when nobody answers in time. End your turn if nothing can be done before it."
            .to_owned(),
        _ => format!(
            "{} of {} questions could not be asked in the chat: {}{}",
            refused.len(),
            answers.len(),
            refused.join(" "),
            if refused.len() < answers.len() {
                " The others were asked; do not ask them again: their answers come as messages."
            } else {
                ""
            }
        ),
    })
}

/// Returns the calls of `ask_user` that stand for a call of [`ASKS`]: its questions, with what it says of their options. None: it asks
/// nothing that can be read.
pub(super) fn questions(input: &Value) -> Vec<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    let questions = input["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let question = |asked: &Value| {
        let mut words = text(&asked["question"]);
        let mut labels = Vec::new();
        for option in asked["options"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let (label, more) = (text(&option["label"]), text(&option["description"]));
            if !more.is_empty() {
                words.push_str(&format!("\n- {label}: {more}"));
            }
            labels.push(label);
        }
        if asked["multiSelect"] == true {
            words.push_str("\n(You may name several.)");
        }
        (!words.is_empty()).then(|| json!({"question": words, "options": labels}))
    };
    questions.iter().take(MOST_QUESTIONS).filter_map(question).collect()
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

    /// Notes that a tool has ended. Returns whether it was running: a tool that ends after its turn was not.
    pub(super) fn ended(&mut self, id: &str) -> bool {
        let before = self.running.len();
        self.running.retain(|(running, ..)| running != id);
        self.running.len() < before
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
                (Some(id.clone()), Report::InTool { name: name.clone(), timeout_ms: *timeout_ms })
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
    fn a_call_of_the_cli_s_own_question_becomes_questions_of_ours() {
        let input = json!({"questions": [
            {"question": "Which hotel?", "header": "Hotel", "multiSelect": false, "options": [
                {"label": "Ibis", "description": "cheap"}, {"label": "Hilton", "description": ""}]},
            {"question": "Which days?", "multiSelect": true, "options": []},
            {"question": " "}, 5, {}]});
        assert_eq!(
            questions(&input),
            [
                json!({"question": "Which hotel?\n- Ibis: cheap", "options": ["Ibis", "Hilton"]}),
                json!({"question": "Which days?\n(You may name several.)", "options": []}),
            ]
        );
        for nothing in [json!({}), json!({"questions": "x"}), json!({"questions": []}), json!(null)] {
            assert_eq!(questions(&nothing), [Value::Null; 0], "{nothing}");
        }
        let many: Vec<Value> = (0..9).map(|n| json!({"question": format!("q{n}")})).collect();
        assert_eq!(questions(&json!({"questions": many})).len(), MOST_QUESTIONS);
        let why = |answers: &[Answer]| {
            asked(answers)["hookSpecificOutput"]["permissionDecisionReason"].as_str().unwrap().to_owned()
        };
        let done = || Answer::Done("Done".to_owned());
        assert!(why(&[done()]).contains("was asked in the chat"));
        let told = why(&[done(), Answer::Refused("Refused (rate_limited): 20 questions.".to_owned())]);
        assert_eq!(
            told,
            "1 of 2 questions could not be asked in the chat: Refused (rate_limited): 20 questions. The others were asked; do not ask them again: their answers come as messages."
        );
    }

    #[test]
    fn of_several_tools_the_slowest_is_shown_until_it_ends() {
        let mut tools = Tools::default();
        let shown = |tools: &mut Tools| match tools.shown() {
            Some(Report::InTool { timeout_ms, name }) => format!("{name} {timeout_ms:?}"),
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

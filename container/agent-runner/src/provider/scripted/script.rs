//! Scripts: which rule fits, and what its steps are.

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use crate::mailbox::CommandBox;

/// A script can't be followed. Rules and steps are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("the script is not a JSON list of rules")]
    Syntax(#[source] serde_json::Error),
    #[error("rule {rule} of the script is not {{\"when\"?, \"times\"?, \"do\": [step, ...]}}")]
    Rule {
        rule: usize,
        #[source]
        source: serde_json::Error,
    },
    #[error("rule {rule}, step {step} of the script can't be followed")]
    Step {
        rule: usize,
        step: usize,
        #[source]
        source: serde_json::Error,
    },
}

/// A script, with its used-up rules.
#[derive(Debug)]
pub(super) struct Script {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    contains: Option<String>,
    /// How often it may still be taken; `None` for ever.
    left: Option<u64>,
    steps: Vec<Step>,
}

/// One thing the agent does.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Step {
    Say(String),
    SoFar(String),
    Command {
        #[serde(rename = "box")]
        to: CommandBox,
        json: Value,
    },
    Heartbeat(Yes),
    WaitMs(u64),
    Tool {
        name: String,
        timeout_ms: Option<u64>,
        about: Option<String>,
    },
    ToolDone(Yes),
    ToolFailed(Yes),
    Deferred(Yes),
    Print(String),
    Error(String),
    Exit(u8),
    Hang(Yes),
}

/// `true`, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Yes;

impl<'de> Deserialize<'de> for Yes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if bool::deserialize(from)? {
            Ok(Self)
        } else {
            Err(D::Error::custom("leave the step out instead of `false`"))
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRule {
    #[serde(default)]
    when: When,
    times: Option<u64>,
    #[serde(rename = "do")]
    steps: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct When {
    contains: Option<String>,
}

impl Script {
    /// Parses a script's text.
    ///
    /// # Errors
    /// [`ScriptError`], which names the rule and the step.
    pub(super) fn parse(text: &str) -> Result<Self, ScriptError> {
        let rules: Vec<Value> = serde_json::from_str(text).map_err(ScriptError::Syntax)?;
        let rules = (1..).zip(rules).map(|(n, rule)| Rule::parse(n, rule)).collect::<Result<_, _>>()?;
        Ok(Self { rules })
    }

    /// Returns the steps of the first rule that fits and is not used up, and uses it once.
    pub(super) fn steps_for(&mut self, text: &str) -> &[Step] {
        for rule in &mut self.rules {
            let fits = rule.contains.as_ref().is_none_or(|part| text.contains(part));
            if !fits || rule.left == Some(0) {
                continue;
            }
            rule.left = rule.left.map(|left| left - 1);
            return &rule.steps;
        }
        &[]
    }
}

impl Rule {
    fn parse(rule: usize, value: Value) -> Result<Self, ScriptError> {
        let wire: WireRule =
            serde_json::from_value(value).map_err(|source| ScriptError::Rule { rule, source })?;
        let step = |(step, value): (usize, Value)| {
            serde_json::from_value(value).map_err(|source| ScriptError::Step { rule, step, source })
        };
        let steps = (1..).zip(wire.steps).map(step).collect::<Result<_, _>>()?;
        Ok(Self { contains: wire.when.contains, left: wire.times, steps })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn says(script: &mut Script, text: &str) -> String {
        match script.steps_for(text) {
            [Step::Say(word)] => word.clone(),
            [] => String::new(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_first_rule_that_fits_and_is_not_used_up_is_taken() {
        let mut script = Script::parse(
            r#"[
                {"when": {"contains": "a"}, "times": 2, "do": [{"say": "1"}]},
                {"when": {"contains": "b"}, "do": [{"say": "2"}]},
                {"times": 0, "do": [{"say": "never"}]},
                {"times": 1, "do": [{"say": "3"}]}
            ]"#,
        )
        .unwrap();
        let said: Vec<String> =
            ["b", "ab", "xax", "ab", "a", "c", "b"].iter().map(|text| says(&mut script, text)).collect();
        assert_eq!(said, ["2", "1", "1", "2", "3", "", "2"]);
    }

    #[test]
    fn every_step_of_the_contract_is_understood() {
        let script = Script::parse(
            r#"[{"do": [
                {"say": "s"}, {"command": {"box": "messages", "json": {"a": 1}}}, {"command": {"box": "tasks", "json": {}}},
                {"heartbeat": true}, {"wait_ms": 5}, {"tool": {"name": "Bash", "timeout_ms": 7}}, {"tool": {"name": "Read", "about": "x"}},
                {"tool_done": true}, {"tool_failed": true}, {"deferred": true}, {"print": "p"}, {"error": "e"}, {"exit": 3}, {"hang": true}
            ]}]"#,
        )
        .unwrap();
        assert_eq!(
            script.rules[0].steps,
            [
                Step::Say("s".to_owned()),
                Step::Command { to: CommandBox::Messages, json: json!({"a": 1}) },
                Step::Command { to: CommandBox::Tasks, json: json!({}) },
                Step::Heartbeat(Yes),
                Step::WaitMs(5),
                Step::Tool { name: "Bash".to_owned(), timeout_ms: Some(7), about: None },
                Step::Tool { name: "Read".to_owned(), timeout_ms: None, about: Some("x".to_owned()) },
                Step::ToolDone(Yes),
                Step::ToolFailed(Yes),
                Step::Deferred(Yes),
                Step::Print("p".to_owned()),
                Step::Error("e".to_owned()),
                Step::Exit(3),
                Step::Hang(Yes),
            ]
        );
    }

    #[test]
    fn what_is_wrong_with_a_script_is_said_by_rule_and_step() {
        for (script, part) in [
            ("{}", "not a JSON list"),
            ("[", "not a JSON list"),
            (r#"[{"do": []}, {}]"#, "rule 2 of the script"),
            (r#"[{"do": [], "time": 1}]"#, "unknown field `time`"),
            (r#"[{"do": [], "when": {"contain": "x"}}]"#, "unknown field `contain`"),
            (r#"[{"do": []}, {"do": [{"say": "x"}, {"sya": "x"}]}]"#, "rule 2, step 2 of the script"),
            (r#"[{"do": [{"say": 1}]}]"#, "rule 1, step 1 of the script"),
            (r#"[{"do": [{"say": "x", "hang": true}]}]"#, "rule 1, step 1"),
            (r#"[{"do": [{"hang": false}]}]"#, "leave the step out"),
            (r#"[{"do": [{"exit": 256}]}]"#, "rule 1, step 1"),
            (r#"[{"do": [{"command": {"box": "input", "json": {}}}]}]"#, "unknown variant `input`"),
        ] {
            let e = Script::parse(script).unwrap_err();
            assert!(crate::runner::chain(&e).contains(part), "{script}: {}", crate::runner::chain(&e));
        }
    }
}

//! What the agent says, and what comes of it. Pure.

use std::collections::BTreeMap;

use ipc_handlers::wire::Say;
use serde_json::{Value, json};

use crate::{host::Event as Report, provider::argument};

/// The longest text that is kept of one turn, bytes; the rest of it is passed over.
const LONGEST_TEXT: usize = 8 << 20;
/// The longest name of a tool, characters.
const LONGEST_NAME: usize = 100;
/// How many tools of a turn are remembered.
const MOST_TOOLS: usize = 10_000;

/// What a line asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    Report(Report),
    Write(Value),
    /// The agent has answered our request of this number.
    Answered {
        id: u64,
        answer: Result<Value, Value>,
    },
}

/// The group's rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    /// Tools that must not run, by name.
    pub(super) blocked: Vec<String>,
    /// Tools that are refused, by name or kind.
    pub(super) refuse: Vec<String>,
    pub(super) say: Say,
}

/// One conversation.
#[derive(Debug, Default)]
pub(super) struct Talk {
    rules: Rules,
    /// What the agent said since the last tool.
    text: String,
    /// The tools of this turn by their ids.
    tools: BTreeMap<String, Tool>,
    /// Whether a turn is under way: an older conversation that is shown again is none.
    in_turn: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tool {
    /// Every name that the agent gives it, the best first.
    names: Vec<String>,
    runs: bool,
}

impl Talk {
    pub(super) fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// A turn begins.
    pub(super) fn begin(&mut self) {
        self.in_turn = true;
        self.text.clear();
        self.tools.clear();
    }

    /// The turn is over; returns its last word, and whether a tool is shown as running.
    pub(super) fn finish(&mut self) -> Option<String> {
        self.in_turn = false;
        self.tools.clear();
        Some(std::mem::take(&mut self.text)).filter(|text| !text.trim().is_empty())
    }

    /// Whether a tool runs.
    pub(super) fn is_in_a_tool(&self) -> bool {
        self.tools.values().any(|tool| tool.runs)
    }

    /// The beginning of the next text.
    pub(super) fn so_far(&self) -> Option<String> {
        (self.in_turn && self.rules.say == Say::Growing && !self.text.is_empty()).then(|| self.text.clone())
    }

    /// Takes a line.
    pub(super) fn on(&mut self, line: &Value) -> Vec<Act> {
        let id = &line["id"];
        match (line["method"].as_str(), id.is_null()) {
            (None, _) => match id.as_u64() {
                Some(id) => {
                    let answer = match line.get("error").filter(|error| !error.is_null()) {
                        Some(error) => Err(error.clone()),
                        None => Ok(line["result"].clone()),
                    };
                    vec![Act::Answered { id, answer }]
                }
                None => Vec::new(),
            },
            (Some("session/request_permission"), false) => self.asked(id, &line["params"]),
            // We have offered neither files nor terminals.
            (Some(method), false) => {
                let error = json!({"code": -32601, "message": format!("no method {method:?}")});
                vec![Act::Write(json!({"jsonrpc": "2.0", "id": id, "error": error}))]
            }
            (Some("session/update"), true) if self.in_turn => self.update(&line["params"]["update"]),
            (Some(_), true) => Vec::new(),
        }
    }

    fn update(&mut self, update: &Value) -> Vec<Act> {
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => {
                let text = update["content"]["text"].as_str().unwrap_or_default();
                if self.text.len() + text.len() <= LONGEST_TEXT {
                    self.text.push_str(text);
                }
                Vec::new()
            }
            "tool_call" | "tool_call_update" => self.tool(update),
            _ => Vec::new(),
        }
    }

    fn tool(&mut self, update: &Value) -> Vec<Act> {
        let (id, is_new) = self.learn(update);
        let mut acts = Vec::new();
        if is_new {
            let text = std::mem::take(&mut self.text);
            // Texts before a tool are sent only where the group wants them.
            if self.rules.say != Say::Final && !text.trim().is_empty() {
                acts.push(Act::Report(Report::Say(text)));
            }
        }
        let was_in_a_tool = self.is_in_a_tool();
        let refused = self.refused(&id);
        let Some(tool) = self.tools.get_mut(&id) else { return acts };
        let name = tool.names.first().cloned().unwrap_or_default();
        match update["status"].as_str() {
            Some("in_progress" | "pending") if refused.is_none() && !tool.runs => {
                tool.runs = true;
                acts.push(Act::Report(Report::InTool { name: name.clone(), timeout_ms: timeout(update) }));
                acts.push(Act::Report(Report::ToolStarted {
                    id: id.clone(),
                    about: about(update, &name),
                    name,
                }));
            }
            Some("completed") => {
                if std::mem::take(&mut tool.runs) {
                    acts.push(Act::Report(Report::ToolEnded { id: id.clone(), failed: false }));
                }
                // It never asked, or did not listen.
                if let Some(name) = refused {
                    acts.push(Act::Report(Report::BlockedTool(name)));
                }
            }
            Some("failed") if tool.runs => {
                tool.runs = false;
                acts.push(Act::Report(Report::ToolEnded { id, failed: true }));
            }
            _ => {}
        }
        if was_in_a_tool && !self.is_in_a_tool() {
            acts.push(Act::Report(Report::ToolFinished));
        }
        acts
    }

    /// Remembers what a tool is called; returns its id, and whether it was not known.
    fn learn(&mut self, update: &Value) -> (String, bool) {
        let id = update["toolCallId"].as_str().unwrap_or_default().to_owned();
        let is_new = !self.tools.contains_key(&id);
        if is_new && self.tools.len() >= MOST_TOOLS {
            return (id, false);
        }
        let tool = self.tools.entry(id.clone()).or_default();
        // Claude Code's adapter has the tool's own name here; what people see as a title is often a whole command.
        let own = &update["_meta"]["claudeCode"]["toolName"];
        for name in
            [own, &update["name"], &update["title"], &update["kind"]].into_iter().filter_map(Value::as_str)
        {
            let name: String = name.lines().next().unwrap_or_default().chars().take(LONGEST_NAME).collect();
            if !name.is_empty() && !tool.names.contains(&name) {
                tool.names.push(name);
            }
        }
        (id, is_new)
    }

    /// Returns the name by which the rules refuse a tool.
    fn refused(&self, id: &str) -> Option<String> {
        let names = &self.tools.get(id)?.names;
        let listed = |name: &&String| self.rules.blocked.contains(name) || self.rules.refuse.contains(name);
        names.iter().find(listed).cloned()
    }

    /// The agent asks whether a tool may run.
    fn asked(&mut self, id: &Value, params: &Value) -> Vec<Act> {
        let (tool, _) = self.learn(&params["toolCall"]);
        let refused = self.refused(&tool);
        let wanted: [&str; 2] = match refused {
            Some(_) => ["reject_once", "reject_always"],
            None => ["allow_once", "allow_always"],
        };
        let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let chosen = wanted.iter().find_map(|kind| options.iter().find(|option| option["kind"] == *kind));
        let outcome = match chosen {
            Some(option) => json!({"outcome": "selected", "optionId": option["optionId"]}),
            None => json!({"outcome": "cancelled"}),
        };
        let mut acts = vec![Act::Write(json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}}))];
        if let Some(name) = refused {
            acts.push(Act::Report(Report::Progress(Some(format!("acp: the tool {name} was refused")))));
        }
        acts
    }
}

/// What a tool is used on: its first argument, otherwise its title, which is often a whole command.
fn about(update: &Value, name: &str) -> String {
    let first = argument::first(&update["rawInput"]);
    match (first.is_empty(), update["title"].as_str()) {
        (true, Some(title)) if title != name => title.to_owned(),
        (true | false, _) => first,
    }
}

/// For how long a tool says that it may take.
fn timeout(update: &Value) -> Option<u64> {
    update["rawInput"]["timeout"].as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk(say: Say) -> Talk {
        let rules = Rules { blocked: vec!["AskUserQuestion".into()], refuse: vec!["execute".into()], say };
        let mut talk = Talk::new(rules);
        talk.begin();
        talk
    }

    fn update(update: Value) -> Value {
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
    }

    fn chunk(text: &str) -> Value {
        update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
    }

    fn call(id: &str, title: &str, kind: &str, status: &str) -> Value {
        update(
            json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind, "status": status}),
        )
    }

    fn ended(id: &str, status: &str) -> Value {
        update(json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status}))
    }

    fn used(id: &str, failed: bool) -> Act {
        Act::Report(Report::ToolEnded { id: id.into(), failed })
    }

    #[test]
    fn the_last_words_are_the_answer_and_earlier_ones_are_said_where_that_is_wanted() {
        for (say, early) in [(Say::Final, None), (Say::Texts, Some("I look"))] {
            let mut talk = talk(say);
            talk.on(&chunk("I "));
            talk.on(&chunk("look"));
            let acts = talk.on(&call("1", "read a file", "read", "pending"));
            let said = acts.iter().find_map(|act| match act {
                Act::Report(Report::Say(text)) => Some(&**text),
                _ => None,
            });
            assert_eq!(said, early);
            assert_eq!(
                talk.on(&ended("1", "completed")),
                [used("1", false), Act::Report(Report::ToolFinished)]
            );
            talk.on(&chunk("done"));
            assert_eq!(talk.finish().as_deref(), Some("done"));
        }
    }

    #[test]
    fn a_tool_runs_from_its_start_to_its_end_and_of_several_the_last_counts() {
        let mut talk = talk(Say::Final);
        let started = |id: &str, name: &str, about: &str| {
            [
                Act::Report(Report::InTool { name: name.into(), timeout_ms: None }),
                Act::Report(Report::ToolStarted { id: id.into(), name: name.into(), about: about.into() }),
            ]
        };
        assert_eq!(talk.on(&call("1", "a", "read", "in_progress")), started("1", "a", ""));
        let mut second = call("2", "b", "read", "pending");
        second["params"]["update"]["rawInput"] = json!({"path": "x.md"});
        assert_eq!(talk.on(&second), started("2", "b", "x.md"));
        assert_eq!(talk.on(&ended("2", "in_progress")), []);
        assert_eq!(talk.on(&ended("1", "failed")), [used("1", true)]);
        assert!(talk.is_in_a_tool());
        assert_eq!(talk.on(&ended("2", "completed")), [used("2", false), Act::Report(Report::ToolFinished)]);
        assert_eq!(talk.on(&ended("2", "completed")), [], "it has ended once");
    }

    #[test]
    fn permission_is_given_and_refused_as_the_rules_say() {
        let options = json!([
            {"optionId": "aa", "kind": "allow_always"}, {"optionId": "a", "kind": "allow_once"},
            {"optionId": "r", "kind": "reject_once"},
        ]);
        let ask = |title: &str, kind: &str, options: &Value| json!({"id": 7, "method": "session/request_permission", "params": {"toolCall": {"toolCallId": title, "title": title, "kind": kind}, "options": options}});
        let outcome = |acts: &[Act]| match &acts[0] {
            Act::Write(line) => line["result"]["outcome"].clone(),
            other => panic!("{other:?}"),
        };
        let mut talk = talk(Say::Final);
        let chosen = |id: &str| json!({"outcome": "selected", "optionId": id});
        assert_eq!(outcome(&talk.on(&ask("Read x", "read", &options))), chosen("a"));
        assert_eq!(outcome(&talk.on(&ask("rm", "execute", &options))), chosen("r"));
        assert_eq!(outcome(&talk.on(&ask("AskUserQuestion", "other", &options))), chosen("r"));
        assert_eq!(outcome(&talk.on(&ask("rm2", "execute", &json!([])))), json!({"outcome": "cancelled"}));
        // A blocked tool that runs all the same is reported.
        talk.on(&call("9", "ls", "execute", "in_progress"));
        assert_eq!(talk.on(&ended("9", "completed")), [Act::Report(Report::BlockedTool("execute".into()))]);
    }

    #[test]
    fn an_older_conversation_that_is_shown_again_is_not_said_and_foreign_requests_are_refused() {
        let mut talk = Talk::new(Rules::default());
        assert_eq!(talk.on(&chunk("old")), []);
        talk.begin();
        assert_eq!(talk.finish(), None);
        let acts = talk.on(&json!({"id": "x", "method": "fs/read_text_file", "params": {}}));
        assert!(
            matches!(&acts[..], [Act::Write(line)] if line["error"]["code"] == -32601 && line["id"] == "x")
        );
        let acts = talk.on(&json!({"id": 3, "result": {"a": 1}}));
        assert_eq!(acts, [Act::Answered { id: 3, answer: Ok(json!({"a": 1})) }]);
    }
}

//! Our tools for the model, spoken as MCP over the CLI's own pipe.

use serde_json::{Value, json};

use super::{hooks, say};
use crate::tools::{self, Answer, Place};

/// A call of one of our tools, to be answered when the host has.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ToolCall {
    /// The CLI's request.
    request: String,
    of: Of,
    /// The commands to be sent, in order.
    pub(super) commands: Vec<Value>,
}

/// What the CLI waits for.
#[derive(Clone, Debug, PartialEq)]
enum Of {
    /// The answer to a JSON-RPC message of this id.
    Message(Value),
    /// The word of a hook that asks in place of a tool.
    Hook,
}

/// The action on a message.
pub(super) enum Message {
    Answer(Value),
    Call(ToolCall),
}

/// Takes a message for our server.
pub(super) fn on(request: &str, message: &Value, place: &Place) -> Message {
    let id = message.get("id").cloned().unwrap_or_else(|| 0.into());
    let reply = |result: Value| Message::Answer(result_of(request, &id, &result));
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => reply(json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": tools::SERVER, "version": env!("CARGO_PKG_VERSION")},
        })),
        "tools/list" => reply(json!({"tools": tools::listed(place)})),
        "tools/call" => {
            let name = message["params"]["name"].as_str().unwrap_or_default();
            match tools::command(name, &message["params"]["arguments"], place) {
                Ok(command) => Message::Call(ToolCall {
                    request: request.to_owned(),
                    of: Of::Message(id),
                    commands: vec![command],
                }),
                Err(words) => reply(content(&Answer::Refused(words))),
            }
        }
        "ping" => reply(json!({})),
        method if method.starts_with("notifications/") => reply(json!({})),
        method => Message::Answer(say::answer(
            request,
            &json!({"mcp_response": {"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": format!("no method {method:?}")}}}),
        )),
    }
}

impl ToolCall {
    /// A hook that sends these commands in place of a tool.
    pub(super) fn of_hook(request: &str, commands: Vec<Value>) -> Self {
        Self { request: request.to_owned(), of: Of::Hook, commands }
    }

    /// Returns the line that hands the host's answers to the model.
    pub(super) fn answered(&self, answers: &[Answer]) -> Value {
        match (&self.of, answers) {
            (Of::Message(id), [answer]) => result_of(&self.request, id, &content(answer)),
            (Of::Message(id), _) => result_of(&self.request, id, &json!({"content": [], "isError": true})),
            (Of::Hook, _) => say::answer(&self.request, &hooks::asked(answers)),
        }
    }
}

fn result_of(request: &str, id: &Value, result: &Value) -> Value {
    say::answer(request, &json!({"mcp_response": {"jsonrpc": "2.0", "id": id, "result": result}}))
}

fn content(answer: &Answer) -> Value {
    let (text, is_error) = match answer {
        Answer::Done(text) => (text, false),
        Answer::Refused(text) => (text, true),
    };
    json!({"content": [{"type": "text", "text": text}], "isError": is_error})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Reach;

    fn place() -> Place {
        Place { chat_jid: "c".to_owned(), reach: Reach::Own, zone: "UTC".to_owned() }
    }

    fn answered(message: &Value) -> Value {
        match on("r-1", message, &place()) {
            Message::Answer(answer) => {
                assert_eq!(answer["response"]["request_id"], "r-1");
                answer["response"]["response"]["mcp_response"].clone()
            }
            Message::Call(call) => panic!("{call:?}"),
        }
    }

    #[test]
    fn the_server_introduces_itself_in_the_client_s_version_and_lists_its_tools() {
        let hello =
            answered(&json!({"method": "initialize", "params": {"protocolVersion": "2025-11-25"}, "id": 0}));
        assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
        let list = answered(&json!({"method": "tools/list", "id": 1}));
        assert_eq!(
            (list["id"].as_u64(), list["result"]["tools"].as_array().unwrap()),
            (Some(1), &tools::listed(&place()))
        );
        assert_eq!(answered(&json!({"method": "notifications/initialized"}))["result"], json!({}));
        assert_eq!(answered(&json!({"method": "resources/list", "id": 2}))["error"]["code"], -32601);
    }

    #[test]
    fn a_call_becomes_a_command_and_a_wrong_one_is_refused_at_once() {
        let call = |name: &str, arguments: Value| json!({"method": "tools/call", "id": 7, "params": {"name": name, "arguments": arguments}});
        let Message::Call(made) = on("r-2", &call("send_message", json!({"text": "hi"})), &place()) else {
            panic!("a command");
        };
        assert_eq!(
            (&made.commands[0]["type"], &made.commands[0]["text"]),
            (&json!("send_message"), &json!("hi"))
        );
        let line = made.answered(&[Answer::Done("ok".to_owned())]);
        assert_eq!(line["response"]["request_id"], "r-2");
        assert_eq!(line["response"]["response"]["mcp_response"]["id"], 7);
        for wrong in [call("no_such", json!({})), call("send_message", json!({"txt": "hi"}))] {
            assert_eq!(answered(&wrong)["result"]["isError"], true);
        }
    }
}

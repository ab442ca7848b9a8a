//! What the CLI says on stdout: one line of JSON → one [`Event`].
//!
//! Every line that was ever seen is told apart here; an unknown one becomes [`Event::Unknown`] and never an error,
//! so that another version of the CLI costs a note and not the run.

use serde_json::Value;

/// One line, as far as we need it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// Before every turn: the session's id, how our tools are connected (`None`: not listed), and which other servers are not.
    Init {
        session: String,
        tools: Option<String>,
        away: Vec<(String, String)>,
    },
    State(State),
    /// A message of ours was taken up.
    Taken {
        uuid: String,
    },
    Assistant {
        by: By,
        error: Option<String>,
        text: String,
        calls: Vec<Call>,
    },
    /// Tools have answered: the call's id, and whether it failed.
    Answers(Vec<(String, Ran)>),
    /// A piece of the model's answer; of its words, if it is one of them and no helper's.
    Stream {
        words: String,
    },
    /// The model is asked.
    Requesting,
    Compacting,
    Retry(Retry),
    TaskStarted {
        id: String,
    },
    TaskEnded {
        id: String,
    },
    /// All background work that there is.
    Tasks(Vec<String>),
    Result(Box<Outcome>),
    Asked {
        request: String,
        what: Ask,
    },
    /// The answer to a request of ours, or an echo of our own.
    Reply {
        request: String,
        answer: Result<Value, String>,
    },
    /// Of no interest.
    Other,
    Unknown(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Idle,
}

/// Who has spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Model,
    /// The CLI, in the model's place.
    Cli,
    /// A helper that the model has started.
    Subagent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    Well,
    Badly,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
}

/// A call of the model that failed and will be made again after a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Retry {
    pub(super) attempt: u64,
    pub(super) most: u64,
    pub(super) delay_ms: u64,
    pub(super) status: Option<u64>,
    pub(super) error: String,
}

/// The end of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) subtype: String,
    pub(super) is_error: bool,
    pub(super) api_status: Option<u64>,
    pub(super) text: String,
    pub(super) errors: Vec<String>,
    pub(super) stop_reason: String,
    pub(super) terminal_reason: String,
}

/// What the CLI wants of us.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ask {
    Hook(Value),
    Permission { tool: String },
    Mcp { server: String, message: Value },
    Other(String),
}

/// Returns what a line says.
///
/// # Errors
/// The line is not JSON.
pub(super) fn parse(line: &[u8]) -> Result<Event, serde_json::Error> {
    let mut value: Value = serde_json::from_slice(line)?;
    let main = value["parent_tool_use_id"].is_null();
    Ok(match value["type"].as_str().unwrap_or_default() {
        "system" => system(&value),
        "assistant" => assistant(&value, main),
        "user" if value["isReplay"] == true => Event::Taken { uuid: text(&value["uuid"]) },
        "user" => Event::Answers(answers(&value["message"]["content"])),
        "stream_event" => {
            let piece = &value["event"]["delta"];
            let is_words = main && piece["type"] == "text_delta";
            Event::Stream { words: if is_words { text(&piece["text"]) } else { String::new() } }
        }
        "result" => Event::Result(Box::new(outcome(&value))),
        "control_request" => {
            Event::Asked { request: text(&value["request_id"]), what: ask(value["request"].take()) }
        }
        "control_response" => {
            let response = &mut value["response"];
            let answer = match response["subtype"].as_str() {
                Some("success") => Ok(response["response"].take()),
                _ => Err(text(&response["error"])),
            };
            Event::Reply { request: text(&response["request_id"]), answer }
        }
        "command_lifecycle" | "control_cancel_request" | "keep_alive" => Event::Other,
        other => Event::Unknown(format!("type {other:?}")),
    })
}

fn system(value: &Value) -> Event {
    match value["subtype"].as_str().unwrap_or_default() {
        "init" => {
            let ours = |server: &&Value| server["name"] == crate::tools::SERVER;
            let all = value["mcp_servers"].as_array().map(Vec::as_slice).unwrap_or_default();
            let away = |server: &&Value| {
                !ours(server) && !matches!(server["status"].as_str(), Some("connected" | "pending"))
            };
            Event::Init {
                session: text(&value["session_id"]),
                tools: all.iter().find(ours).map(|server| text(&server["status"])),
                away: all
                    .iter()
                    .filter(away)
                    .map(|server| (text(&server["name"]), text(&server["status"])))
                    .collect(),
            }
        }
        "session_state_changed" => match value["state"].as_str() {
            Some("idle") => Event::State(State::Idle),
            _ => Event::State(State::Running),
        },
        "status" => match value["status"].as_str() {
            Some("requesting") => Event::Requesting,
            Some("compacting") => Event::Compacting,
            _ => Event::Other,
        },
        "api_retry" => Event::Retry(Retry {
            attempt: value["attempt"].as_u64().unwrap_or_default(),
            most: value["max_retries"].as_u64().unwrap_or_default(),
            delay_ms: value["retry_delay_ms"].as_f64().unwrap_or_default() as u64,
            status: value["error_status"].as_u64(),
            error: text(&value["error"]),
        }),
        "task_started" => Event::TaskStarted { id: text(&value["task_id"]) },
        "task_notification" => Event::TaskEnded { id: text(&value["task_id"]) },
        "task_updated" => match value["patch"]["status"].as_str() {
            Some("completed" | "failed" | "killed" | "stopped") => {
                Event::TaskEnded { id: text(&value["task_id"]) }
            }
            _ => Event::Other,
        },
        "background_tasks_changed" => {
            let tasks = value["tasks"].as_array().into_iter().flatten();
            Event::Tasks(tasks.map(|task| text(&task["task_id"])).collect())
        }
        "compact_boundary"
        | "hook_started"
        | "hook_response"
        | "hook_progress"
        | "task_progress"
        | "model_fallback"
        | "model_refusal_no_fallback" => Event::Other,
        other => Event::Unknown(format!("type \"system\", subtype {other:?}")),
    }
}

fn assistant(value: &Value, main: bool) -> Event {
    let message = &value["message"];
    let calls =
        message["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "tool_use");
    let by = match (main, message["model"] == "<synthetic>") {
        (false, _) => By::Subagent,
        (true, true) => By::Cli,
        (true, false) => By::Model,
    };
    let words = message["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "text");
    Event::Assistant {
        by,
        error: value["error"].as_str().map(str::to_owned),
        text: words.map(|block| text(&block["text"])).collect::<Vec<_>>().join("\n\n"),
        calls: calls.map(|call| Call { id: text(&call["id"]), name: text(&call["name"]) }).collect(),
    }
}

fn answers(content: &Value) -> Vec<(String, Ran)> {
    let blocks = content.as_array().into_iter().flatten().filter(|block| block["type"] == "tool_result");
    let ran = |block: &Value| if block["is_error"] == true { Ran::Badly } else { Ran::Well };
    blocks.map(|block| (text(&block["tool_use_id"]), ran(block))).collect()
}

fn outcome(value: &Value) -> Outcome {
    Outcome {
        subtype: text(&value["subtype"]),
        is_error: value["is_error"] == true,
        api_status: value["api_error_status"].as_u64(),
        text: text(&value["result"]),
        errors: value["errors"].as_array().into_iter().flatten().map(text).collect(),
        stop_reason: text(&value["stop_reason"]),
        terminal_reason: text(&value["terminal_reason"]),
    }
}

fn ask(mut request: Value) -> Ask {
    match request["subtype"].as_str().unwrap_or_default() {
        "hook_callback" => Ask::Hook(request["input"].take()),
        "can_use_tool" => Ask::Permission { tool: text(&request["tool_name"]) },
        "mcp_message" => {
            Ask::Mcp { server: text(&request["server_name"]), message: request["message"].take() }
        }
        other => Ask::Other(other.to_owned()),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

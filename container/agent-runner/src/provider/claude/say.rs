//! What we say to the CLI on its stdin.

use serde_json::{Value, json};

/// The id of our `initialize` request.
pub(super) const INITIALIZE: &str = "g2-initialize";
/// The id of our request for the CLI's version.
pub(super) const VERSION: &str = "g2-version";
/// The hooks that we want to be called for; each is its own callback id.
pub(super) const HOOKS: [&str; 4] = ["PreToolUse", "PostToolUse", "PostToolUseFailure", "PreCompact"];

/// Returns the message that carries a prompt.
///
/// The CLI reads the last block of text for `/commands` and `@paths`, so what people write is never the last.
pub(super) fn user(uuid: &str, prompt: &str) -> Value {
    json!({
        "type": "user", "uuid": uuid, "parent_tool_use_id": null,
        "message": {"role": "user", "content": [
            {"type": "text", "text": prompt},
            {"type": "text", "text": "(end of messages)"},
        ]},
    })
}

/// Returns the request that makes our tools and hooks known.
pub(super) fn initialize(append_system_prompt: Option<&str>) -> Value {
    let hooks: serde_json::Map<_, _> =
        HOOKS.iter().map(|name| ((*name).to_owned(), json!([{"hookCallbackIds": [name]}]))).collect();
    let mut request =
        json!({"subtype": "initialize", "sdkMcpServers": [crate::tools::SERVER], "hooks": hooks});
    if let Some(text) = append_system_prompt {
        request["appendSystemPrompt"] = text.into();
    }
    self::request(INITIALIZE, &request)
}

/// Returns the request for the CLI's version.
pub(super) fn version() -> Value {
    request(VERSION, &json!({"subtype": "get_binary_version"}))
}

/// Returns the answer to a request of the CLI.
pub(super) fn answer(request: &str, response: &Value) -> Value {
    json!({"type": "control_response", "response": {"subtype": "success", "request_id": request, "response": response}})
}

/// Returns the answer to a request that we can't follow.
pub(super) fn cannot(request: &str, error: &str) -> Value {
    json!({"type": "control_response", "response": {"subtype": "error", "request_id": request, "error": error}})
}

fn request(id: &str, request: &Value) -> Value {
    json!({"type": "control_request", "request_id": id, "request": request})
}

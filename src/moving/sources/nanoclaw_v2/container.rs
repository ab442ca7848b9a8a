//! Settings of a group: a row of `container_configs`, or `container.json` in versions that had no table for it.

use ipc_handlers::Folder;
use serde_json::{Map, Value, json};

use super::super::parts::{Config, name};
use crate::{
    domain::moved::{
        findings::Finding,
        rows::{Group, Kind},
    },
    moving::{
        foreign::Read,
        installation::{Installation, Unread},
    },
};

/// Settings of a group as both their places have them: JSON.
pub(super) type Settings = Map<String, Value>;

/// The row of a group in `container_configs`.
pub(super) fn of_row(row: &Read) -> Settings {
    let mut settings = Settings::new();
    for (column, key) in [
        ("provider", "provider"),
        ("model", "model"),
        ("effort", "effort"),
        ("image_tag", "imageTag"),
        ("assistant_name", "assistantName"),
    ] {
        settings.extend(row.text(column).map(|text| (key.to_owned(), Value::from(text))));
    }
    settings.extend(
        row.int("max_messages_per_prompt").map(|n| ("maxMessagesPerPrompt".to_owned(), Value::from(n))),
    );
    for (column, key) in
        [("skills", "skills"), ("mcp_servers", "mcpServers"), ("additional_mounts", "additionalMounts")]
    {
        let read = row.text(column).map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)));
        settings.extend(read.map(|value| (key.to_owned(), value)));
    }
    let list = |column| {
        row.text(column).and_then(|text| serde_json::from_str::<Value>(&text).ok()).unwrap_or(json!([]))
    };
    settings
        .insert("packages".to_owned(), json!({ "apt": list("packages_apt"), "npm": list("packages_npm") }));
    settings
}

/// `container.json` of a group, in versions that had no table for it.
pub(super) fn of_file(installation: &Installation, group: &Folder, findings: &mut Vec<Finding>) -> Settings {
    let path = format!("groups/{group}/container.json");
    let why = match installation.text(&path) {
        Ok(text) => match serde_json::from_str::<Settings>(&text) {
            Ok(settings) => return settings,
            Err(error) => format!("it is no JSON object: {error}"),
        },
        Err(Unread::Missing) => return Settings::new(),
        Err(why) => why.to_string(),
    };
    findings.push(Finding::left(Kind::Group, path, why));
    Settings::new()
}

/// Puts the settings into a group; those that are none here are told.
pub(super) fn put_in(
    group: &mut Group,
    settings: &Settings,
    provider: Option<String>,
    findings: &mut Vec<Finding>,
) {
    let folder = group.folder.to_string();
    let text = |key: &str| {
        settings.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let mut told = |why: String, fix: Option<&str>| {
        let finding = Finding::changed(Kind::Group, folder.as_str(), why);
        findings.push(match fix {
            Some(fix) => finding.fix(fix),
            None => finding,
        });
    };
    if let Some(other) = provider.or_else(|| text("provider")).filter(|provider| provider != "claude") {
        told(
            format!("its provider {other:?} is none here; it has the one of all groups"),
            Some("docs/agents.md"),
        );
    }
    if text("effort").is_some() {
        told("its effort is not there".into(), None);
    }
    if settings.get("maxMessagesPerPrompt").is_some_and(|n| !n.is_null()) {
        told(
            "its maxMessagesPerPrompt is a setting of all groups here".into(),
            Some("g2 config set limits.max_messages_per_prompt N"),
        );
    }
    if settings.get("skills").is_some_and(|skills| *skills != json!("all")) {
        told("its choice of skills is not there: it has all of them".into(), None);
    }
    let packages = |kind: &str| {
        settings
            .get("packages")
            .and_then(|p| p.get(kind))
            .and_then(Value::as_array)
            .is_some_and(|p| !p.is_empty())
    };
    if packages("apt") || packages("npm") {
        told(
            "its packages stand in no image here; build one that has them".into(),
            Some("container/README.md"),
        );
    }
    if let Some(image) = text("imageTag") {
        told(
            format!(
                "its image {image:?} has a runner that is not understood here; it has the image of all groups"
            ),
            Some("container/README.md"),
        );
    }
    if let Some(assistant) = text("assistantName") {
        group.trigger = format!("@{}", name(Some(assistant), &group.name));
    }
    let mut config = Config::of(&folder);
    if let Some(model) = text("model") {
        config.set("model", Value::from(model), findings);
    }
    if let Some(mounts) =
        settings.get("additionalMounts").filter(|mounts| mounts.as_array().is_some_and(|m| !m.is_empty()))
    {
        config.set("additionalMounts", mounts.clone(), findings);
    }
    let mut servers = Map::new();
    for (server, value) in
        settings.get("mcpServers").and_then(Value::as_object).into_iter().flatten().take(64)
    {
        let mut with = servers.clone();
        with.insert(server.clone(), tool_server(value));
        if config.set("mcp", Value::Object(with.clone()), findings) {
            servers = with;
        }
    }
    group.config = config.taken();
}

/// A tool server in the form that it has here, with the paths of the containers here.
fn tool_server(value: &Value) -> Value {
    let moved = |text: &str| text.replace("/workspace/agent", "/workspace/group");
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(moved);
    let texts = |key: &str| {
        let pairs = value.get(key).and_then(Value::as_object).into_iter().flatten();
        pairs
            .filter_map(|(name, text)| Some((name.clone(), Value::from(moved(text.as_str()?)))))
            .collect::<Map<_, _>>()
    };
    match text("url") {
        Some(url) => {
            let kind = if text("type").as_deref() == Some("sse") { "sse" } else { "http" };
            json!({ "type": kind, "url": url, "headers": texts("headers") })
        }
        None => {
            let args: Vec<Value> = value
                .get("args")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|word| word.as_str().map(|word| Value::from(moved(word))))
                .collect();
            json!({ "type": "stdio", "command": text("command").unwrap_or_default(), "args": args, "env": texts("env") })
        }
    }
}

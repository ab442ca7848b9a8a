//! The commands as tools for a model: name, description, schema, and the way from a call to a command and from the
//! host's reply to what the model is told.
//!
//! Never decides who may ask what: that is the host's, and its refusals are handed on word for word.

use serde_json::{Map, Value, json};

use crate::{ids, mailbox::Reply};

mod texts;

/// Where the agent sits, as far as tools speak of it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The chat that the run is for.
    pub(crate) chat_jid: String,
    /// Whether the group may name other chats and groups.
    pub(crate) reach: Reach,
    /// The user's time zone, as `Europe/Berlin`.
    pub(crate) zone: String,
}

/// How far an agent's commands may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Its own group.
    Own,
    /// Every group: the main group's.
    All,
}

/// A tool: one command of the catalogue, told to a model.
pub(crate) struct Tool {
    /// The command's `type`, and the tool's name.
    pub(crate) name: &'static str,
    describe: fn(&Place) -> String,
    params: &'static [Param],
}

/// One argument.
struct Param {
    name: &'static str,
    /// The command's field.
    field: &'static str,
    kind: Kind,
    need: Need,
    text: &'static str,
}

enum Kind {
    Text,
    Choice(&'static [&'static str]),
}

enum Need {
    Required,
    Optional,
    /// Left out, this is sent.
    Else(&'static str),
    /// Offered only to a group whose reach is [`Reach::All`].
    Main,
}

/// What the model is told of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done(String),
    Refused(String),
}

const fn param(name: &'static str, field: &'static str, need: Need, text: &'static str) -> Param {
    Param { name, field, kind: Kind::Text, need, text }
}

/// Every tool, in the order of the catalogue.
pub(crate) static TOOLS: [Tool; 5] = [
    Tool {
        name: "send_message",
        describe: texts::send_message,
        params: &[
            param(
                "text",
                "text",
                Need::Required,
                "What to say. Parts in <internal>…</internal> are not sent.",
            ),
            param(
                "sender",
                "sender",
                Need::Optional,
                "A name to speak under, for example of a role in a team. Leave it out to speak as yourself.",
            ),
            param(
                "reply_to",
                "replyTo",
                Need::Optional,
                "The id of the message that is answered, where the chat has such ids.",
            ),
            param(
                "chat_jid",
                "chatJid",
                Need::Main,
                "Another chat's address. Left out: the chat you are in.",
            ),
        ],
    },
    Tool {
        name: "schedule_task",
        describe: texts::schedule_task,
        params: &[
            param(
                "prompt",
                "prompt",
                Need::Required,
                "What you will be told when the task runs. In isolated mode it must hold all that you need to know.",
            ),
            Param {
                name: "schedule_type",
                field: "schedule_type",
                kind: Kind::Choice(&["cron", "interval", "once"]),
                need: Need::Required,
                text: "cron: at set times; interval: every N milliseconds; once: at one time.",
            },
            param(
                "schedule_value",
                "schedule_value",
                Need::Required,
                "cron: \"0 9 * * 1-5\"; interval: \"3600000\"; once: \"2026-12-31T18:30:00\" (local time, no Z).",
            ),
            Param {
                name: "context_mode",
                field: "context_mode",
                kind: Kind::Choice(&["group", "isolated"]),
                need: Need::Else("group"),
                text: "group: in this chat's conversation, with its history; isolated: in a fresh one. Default: group.",
            },
            param(
                "script",
                "script",
                Need::Optional,
                "A bash script that runs first; its last line {\"wakeAgent\": true|false, \"data\": …} decides whether you are woken.",
            ),
            Param {
                name: "catch_up",
                field: "catchUp",
                kind: Kind::Choice(&["latest", "all", "skip"]),
                need: Need::Optional,
                text: "What happens to times that were missed: one run for all (latest, the default), one each (all), none (skip).",
            },
            param(
                "target_group_jid",
                "targetJid",
                Need::Main,
                "The chat of another group that the task is for. Left out: the chat you are in.",
            ),
        ],
    },
    Tool { name: "list_tasks", describe: texts::list_tasks, params: &[] },
    Tool {
        name: "cancel_task",
        describe: texts::cancel_task,
        params: &[param("task_id", "taskId", Need::Required, "The task's id, as list_tasks shows it.")],
    },
    Tool {
        name: "clear_session",
        describe: texts::clear_session,
        params: &[
            param(
                "name",
                "name",
                Need::Optional,
                "A name to keep the conversation under. Left out, it is not kept.",
            ),
            param(
                "target_folder",
                "targetFolder",
                Need::Main,
                "Another group's folder. Left out: your own conversation.",
            ),
        ],
    },
];

/// Returns the tool of that name.
pub(crate) fn tool(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

impl Tool {
    /// Returns the tool as MCP lists it: `{name, description, inputSchema}`.
    pub(crate) fn listed(&self, place: &Place) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for param in self.offered(place) {
            let mut schema = json!({"type": "string", "description": param.text});
            if let Kind::Choice(choices) = param.kind {
                schema["enum"] = choices.into();
            }
            if let Need::Required = param.need {
                required.push(param.name);
            }
            properties.insert(param.name.to_owned(), schema);
        }
        json!({
            "name": self.name,
            "description": (self.describe)(place),
            "inputSchema": {"type": "object", "properties": properties, "required": required, "additionalProperties": false},
        })
    }

    /// Returns the command that a call asks for, with an id to be answered under.
    ///
    /// # Errors
    /// What the model is to be told when an argument is not known. All else is for the host to judge.
    pub(crate) fn command(&self, arguments: &Value, place: &Place) -> Result<Value, String> {
        let none = Map::new();
        let arguments = arguments.as_object().unwrap_or(&none);
        if let Some(unknown) = arguments.keys().find(|name| !self.offered(place).any(|p| p.name == *name)) {
            let known: Vec<_> = self.offered(place).map(|param| param.name).collect();
            return Err(format!("{} has no argument \"{unknown}\"; it has: {}", self.name, known.join(", ")));
        }
        let mut command = Map::new();
        command.insert("type".to_owned(), self.name.into());
        command.insert("requestId".to_owned(), ids::request_id().into());
        if self.name == "send_message" {
            command.insert("chatJid".to_owned(), place.chat_jid.clone().into());
        }
        for param in self.offered(place) {
            match (arguments.get(param.name), &param.need) {
                (Some(value), _) if !value.is_null() => {
                    command.insert(param.field.to_owned(), value.clone());
                }
                (_, Need::Else(default)) => {
                    command.insert(param.field.to_owned(), (*default).into());
                }
                (_, Need::Required | Need::Optional | Need::Main) => {}
            }
        }
        Ok(Value::Object(command))
    }

    fn offered(&self, place: &Place) -> impl Iterator<Item = &'static Param> + use<> {
        let reach = place.reach;
        self.params.iter().filter(move |p| !matches!(p.need, Need::Main) || reach == Reach::All)
    }
}

/// Returns what the model is told of the host's reply.
pub(crate) fn answer(reply: &Reply) -> Answer {
    let Reply::Text(text) = reply else {
        return Answer::Refused(reply.to_text());
    };
    let Ok(json) = serde_json::from_str::<Value>(text) else {
        return Answer::Refused(format!("the host's reply can't be read: {text}"));
    };
    if json["ok"] == true {
        let result = json.get("result").filter(|result| result.as_object().is_none_or(|map| !map.is_empty()));
        return Answer::Done(result.map_or_else(|| "Done.".to_owned(), |result| format!("Done: {result}")));
    }
    let word = |name: &str| json["error"][name].as_str().unwrap_or_default().to_owned();
    Answer::Refused(format!("Refused ({}): {}. Hint: {}", word("code"), word("message"), word("hint")))
}

#[cfg(test)]
mod tests;

//! The commands as tools for a model: name, description, schema, and the way from a call to a command and from the
//! host's reply to what the model is told. One definition for every agent, whatever pipe it is spoken over.
//!
//! Never decides who may ask what: that is the host's, and its refusals are handed on word for word.

use serde_json::{Map, Value, json};

mod ask;
mod catalogue;

pub(crate) use ask::{Answer, Asker};
use catalogue::TOOLS;

/// The name of the server that the tools are on: a model sees `mcp__g2__send_message`.
pub(crate) const SERVER: &str = "g2";

/// Where the agent sits, as far as tools speak of it.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// A tool: one command, told to a model.
pub(crate) struct Tool {
    /// The command's `type`, and the tool's name.
    name: &'static str,
    /// Callers that are offered it: all, or only those whose reach is [`Reach::All`].
    whose: Reach,
    /// What the model is told; `{zone}` stands for the user's time zone.
    text: &'static str,
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

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Number,
    Flag,
    /// A list of texts.
    Texts,
    Choice(&'static [&'static str]),
}

#[derive(Clone, Copy)]
enum Need {
    Required,
    Optional,
    /// Left out, this is sent.
    Else(&'static str),
    /// Offered only to a group whose reach is [`Reach::All`].
    Main,
    /// Left out, the chat of the run is sent; offered as [`Need::Main`] is.
    Chat,
}

/// Returns the tools that are offered at a place: those of commands that the host knows.
pub(crate) fn offered(place: &Place) -> impl Iterator<Item = &'static Tool> + use<> {
    let reach = place.reach;
    TOOLS.iter().filter(move |tool| {
        (tool.whose == Reach::Own || reach == Reach::All)
            && ipc_handlers::commands::entry(tool.name).is_some()
    })
}

/// Returns the tools as MCP lists them.
pub(crate) fn listed(place: &Place) -> Vec<Value> {
    offered(place).map(|tool| tool.listed(place)).collect()
}

/// Returns the command that a call asks for, without an id.
///
/// # Errors
/// What the model is to be told when there is no such tool or argument, or the command is too long to be sent. All
/// else is for the host to judge.
pub(crate) fn command(name: &str, arguments: &Value, place: &Place) -> Result<Value, String> {
    let Some(tool) = offered(place).find(|tool| tool.name == name) else {
        let known: Vec<_> = offered(place).map(|tool| tool.name).collect();
        return Err(format!("there is no tool {:?}; there are: {}", short(name), known.join(", ")));
    };
    let command = tool.command(arguments, place)?;
    let (long, most) = (command.to_string().len(), ipc_handlers::envelope::MAX_BYTES - ROOM_FOR_ID);
    if long > most {
        return Err(format!(
            "{name} was called with {long} bytes, and the host takes {most}: write long text into a file and say where it is"
        ));
    }
    Ok(command)
}

/// What a request id adds to a command, bytes.
const ROOM_FOR_ID: usize = 128;

impl Tool {
    /// Returns the tool as MCP lists it: `{name, description, inputSchema}`.
    fn listed(&self, place: &Place) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for param in self.params(place) {
            let mut schema = json!({"type": param.kind.json_type(), "description": param.text});
            if let Kind::Choice(choices) = param.kind {
                schema["enum"] = choices.into();
            }
            if let Kind::Texts = param.kind {
                schema["items"] = json!({"type": "string"});
            }
            if let Need::Required = param.need {
                required.push(param.name);
            }
            properties.insert(param.name.to_owned(), schema);
        }
        json!({
            "name": self.name,
            "description": self.text.replace("{zone}", &place.zone),
            "inputSchema": {"type": "object", "properties": properties, "required": required, "additionalProperties": false},
        })
    }

    fn command(&self, arguments: &Value, place: &Place) -> Result<Value, String> {
        let none = Map::new();
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            Value::Null => &none,
            _ => return Err(format!("{} takes an object of arguments", self.name)),
        };
        if let Some(unknown) = arguments.keys().find(|name| !self.params(place).any(|p| p.name == *name)) {
            let known: Vec<_> = self.params(place).map(|param| param.name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!("{} has no argument {:?}; it has: {known}", self.name, short(unknown)));
        }
        let mut command = Map::new();
        command.insert("type".to_owned(), self.name.into());
        command.insert("schemaVersion".to_owned(), ipc_handlers::envelope::SCHEMA_VERSION.into());
        for param in self.params {
            let given = arguments.get(param.name).filter(|value| !value.is_null());
            let value = match (given, param.need) {
                (Some(value), _) => value.clone(),
                (None, Need::Else(default)) => default.into(),
                (None, Need::Chat) => place.chat_jid.clone().into(),
                (None, Need::Required | Need::Optional | Need::Main) => continue,
            };
            command.insert(param.field.to_owned(), value);
        }
        Ok(Value::Object(command))
    }

    fn params(&self, place: &Place) -> impl Iterator<Item = &'static Param> + use<> {
        let reach = place.reach;
        self.params.iter().filter(move |p| !matches!(p.need, Need::Main | Need::Chat) || reach == Reach::All)
    }
}

impl Kind {
    const fn json_type(self) -> &'static str {
        match self {
            Self::Text | Self::Choice(_) => "string",
            Self::Number => "integer",
            Self::Flag => "boolean",
            Self::Texts => "array",
        }
    }
}

/// A name may be of any length; a part of it tells which.
fn short(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests;

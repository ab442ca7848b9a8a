//! What programs and forms are told of every operation, made from the types that are read and written.

use clap::{ArgAction, Command};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{Answer, Asker, Op, OpError};
use crate::domain::shown::screen::quoted;

/// What a program has to know of one operation.
pub struct Described {
    pub name: &'static str,
    /// Who may ask for it, beside the owner.
    pub asked_by: &'static [Asker],
    args: fn(&mut SchemaGenerator) -> Value,
    row: fn(&mut SchemaGenerator) -> Value,
    command: fn(Command) -> Command,
}

/// How an argument is written in a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Is {
    Text,
    Number,
    /// Said or not.
    Flag,
    /// Values by keys, a field each: the argument's name, a dot, the key.
    Map,
}

impl Described {
    pub(super) const fn of<A: JsonSchema + clap::Args, R: JsonSchema>(
        name: &'static str,
        asked_by: &'static [Asker],
    ) -> Self {
        // All arguments are called `Args`: each stands where it is used.
        let args = |generator: &mut SchemaGenerator| A::json_schema(generator).to_value();
        Self { name, asked_by, args, row: of::<R>, command: A::augment_args }
    }

    /// Returns its arguments by their names.
    #[must_use]
    pub fn fields(&self) -> Vec<(String, Is)> {
        let inlined = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let args = (self.args)(&mut inlined.into_generator());
        let fields = args["properties"].as_object().into_iter().flatten();
        let is = |field: &Value| {
            let has = |word| field["type"] == word || field["type"][0] == word;
            match (has("integer"), has("boolean"), has("object")) {
                (true, _, _) => Is::Number,
                (_, true, _) => Is::Flag,
                (_, _, true) => Is::Map,
                (false, false, false) => Is::Text,
            }
        };
        fields.map(|(name, field)| (name.clone(), is(field))).collect()
    }
}

impl Op {
    /// Returns the command that does the same, as a person would type it. What has no argument there is `KEY=VALUE`.
    #[must_use]
    pub fn typed(&self) -> String {
        let asked = serde_json::to_value(self).unwrap_or_default();
        let mut left = asked["args"].as_object().cloned().unwrap_or_default();
        let words = match self.name() {
            "web.revoke" => "web sessions revoke".to_owned(),
            "backup.now" => "backup --now".to_owned(),
            name => name.replace('.', " "),
        };
        let mut typed = vec![format!("g2 {words}")];
        if let Self::GroupsEdit(_) | Self::GroupsBack(_) = self {
            // A text is nothing to type, and which one was there is looked up.
            let is_of_all = left.get("folder").is_none_or(Value::is_null);
            typed.extend(is_of_all.then(|| "--global".to_owned()));
            typed.extend(left.remove("text").map(|_| "--file -".to_owned()));
            left.remove("was");
        }
        if let Self::ChannelsAdd(add) = self {
            // A token is asked for, and never typed.
            left.remove("token");
            left.remove("settings");
            let setting = |(key, value)| Some(format!("--set {key}={}", quoted(&word(value)?)));
            typed.extend(add.settings.iter().filter_map(setting));
        }
        if let Self::GroupsSet(_) = self {
            left.remove("was");
        }
        let command = Self::described(self.name()).map(|of| (of.command)(Command::new("g2")));
        for arg in command.iter().flat_map(Command::get_arguments) {
            let Some(value) = left.remove(arg.get_id().as_str()).and_then(|value| word(&value)) else {
                continue;
            };
            let option = arg.get_long().map(|long| format!("--{long}"));
            let is_usual = arg.get_default_values().iter().any(|usual| *usual == *value);
            match (arg.get_action(), option) {
                (ArgAction::SetTrue, option) => typed.extend(option.filter(|_| value == "true")),
                _ if is_usual => {}
                (_, option) => typed.extend(option.into_iter().chain([quoted(&value)])),
            }
        }
        let settings = left.iter().flat_map(|(key, value)| match value {
            Value::Object(all) => all.iter().collect(),
            value => vec![(key, value)],
        });
        typed.extend(settings.filter_map(|(key, value)| Some(format!("{key}={}", set(key, &word(value)?)))));
        typed.join(" ")
    }
}

/// Returns the value of a setting as it is typed: JSON on one line, and that of tool servers in a file.
fn set(key: &str, value: &str) -> String {
    if value.is_empty() {
        return String::new();
    }
    match serde_json::from_str::<Value>(value) {
        _ if !value.contains('\n') => quoted(value),
        _ if key == "mcp" => "@.mcp.json".to_owned(),
        Ok(json) => quoted(&json.to_string()),
        Err(_) => quoted(value),
    }
}

/// Returns a value as a word; `None`: nothing is said.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Array(none) if none.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

/// Returns one document: what a program writes to `data/g2.sock` to have an operation done (`request`), every operation with
/// its arguments, its row and who may ask for it beside the owner (`operations`), and what it is answered (`done`, `refused`). Types are under `$defs`.
#[must_use]
pub fn schema() -> Value {
    // Arguments are read, the rest is written: different fields may be left out.
    let mut read = SchemaSettings::draft2020_12().into_generator();
    let mut written = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut operations = Map::new();
    let mut requests = Vec::new();
    for Described { name, asked_by, args, row, .. } in Op::ALL {
        let (mut args, row) = (args(&mut read), row(&mut written));
        requests.push(json!({
            "properties": {"name": {"const": name}, "args": {"$ref": format!("#/operations/{name}/args")}},
            "required": ["name", "args"],
        }));
        let description = args.as_object_mut().and_then(|args| args.remove("description"));
        operations.insert(
            (*name).to_owned(),
            json!({"description": description, "asked_by": asked_by, "args": args, "row": row}),
        );
    }
    let (answer, error) = (of::<Answer>(&mut written), of::<OpError>(&mut written));
    let mut defs = Map::new();
    for generator in [&mut read, &mut written] {
        for (name, schema) in generator.take_definitions(true) {
            defs.entry(name).or_insert(schema);
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The operations of G2",
        "request": {
            "type": "object",
            "properties": {"op": {"const": "op"}, "do": {"oneOf": requests}},
            "required": ["op", "do"],
        },
        "operations": operations,
        "done": {
            "allOf": [answer],
            "properties": {"is": {"const": "op_done"}},
            "required": ["is"],
        },
        "refused": {
            "type": "object",
            "properties": {"is": {"const": "op_refused"}, "error": error},
            "required": ["is", "error"],
        },
        "$defs": defs,
    })
}

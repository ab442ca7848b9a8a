//! JSON Schema of everything that is written as a file or a record, made from the types that write it.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    Command, TaskRow,
    reply::{self, Answer},
    shown::{ArchivedSession, AvailableGroups},
    wire,
};

/// Returns one document, named after the protocol's version. Under `$defs`: `launch` (what a runner reads on stdin), `command`, `reply` (with the results titled by command), `searchReplyOfG2`,
/// `record`, `input`, `containerState`, and `snapshots/<file>`.
#[must_use]
pub fn all() -> Value {
    let mut defs = Map::new();
    let mut add = |name: &str, generator: &mut SchemaGenerator, of: fn(&mut SchemaGenerator) -> Value| {
        let schema = of(generator);
        defs.insert(name.to_owned(), schema);
    };
    // Commands are read, the rest is written: different fields may be left out.
    let mut read = SchemaSettings::draft2020_12().into_generator();
    let mut written = SchemaSettings::draft2020_12().for_serialize().into_generator();
    add("launch", &mut written, of::<wire::Launch>);
    add("command", &mut read, |g| enveloped(of::<Command>(g)));
    add("reply", &mut written, of::<reply::Reply<'_>>);
    add("result", &mut written, of::<Answer<'_>>);
    add("searchReplyOfG2", &mut written, of::<Vec<reply::BareSession<'_>>>);
    add("record", &mut read, of::<wire::Record>);
    add("input", &mut read, of::<wire::Input>);
    add("containerState", &mut read, of::<wire::ContainerState>);
    add("snapshots/current_tasks.json", &mut written, of::<Vec<TaskRow>>);
    add("snapshots/available_groups.json", &mut written, of::<AvailableGroups>);
    add("snapshots/session_history.json", &mut written, of::<Vec<ArchivedSession>>);
    for generator in [&mut read, &mut written] {
        for (name, schema) in generator.take_definitions(true) {
            defs.entry(name).or_insert(schema);
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("urn:g2:protocol:{}", wire::PROTOCOL),
        "title": "The files and records of G2",
        "$defs": defs,
    })
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    T::json_schema(generator).to_value()
}

/// Adds what every command may carry.
fn enveloped(command: Value) -> Value {
    json!({
        "allOf": [command],
        "properties": {
            "schemaVersion": {"const": crate::envelope::SCHEMA_VERSION},
            "requestId": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
            "token": {"type": "string"},
        },
    })
}

//! JSON Schema of every operation, made from the types that are read and written.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{Answer, Asker, OpError, each_described};

/// What a program has to know of one operation.
pub(super) struct Described {
    name: &'static str,
    doc: &'static str,
    asked_by: &'static [Asker],
    args: fn(&mut SchemaGenerator) -> Value,
    row: fn(&mut SchemaGenerator) -> Value,
}

impl Described {
    pub(super) fn of<A: JsonSchema, R: JsonSchema>(
        name: &'static str,
        doc: &'static str,
        asked_by: &'static [Asker],
    ) -> Self {
        // All arguments are called `Args`: each stands where it is used.
        Self { name, doc, asked_by, args: |generator| A::json_schema(generator).to_value(), row: of::<R> }
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
    each_described(|Described { name, doc, asked_by, args, row }| {
        let (args, row) = (args(&mut read), row(&mut written));
        requests.push(json!({
            "properties": {"name": {"const": name}, "args": {"$ref": format!("#/operations/{name}/args")}},
            "required": ["name", "args"],
        }));
        operations.insert(
            name.to_owned(),
            json!({"description": doc.trim(), "asked_by": asked_by, "args": args, "row": row}),
        );
    });
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

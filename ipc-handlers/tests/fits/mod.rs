//! Whether a value fits a JSON Schema that was made from types.
#![expect(clippy::unwrap_used, reason = "a schema that is no schema fails the test")]

use serde_json::{Value, json};

/// Whether `value` fits `schema`: the keywords that are made from types, and no others.
pub(crate) fn fits(root: &Value, schema: &Value, value: &Value) -> bool {
    let Some(rules) = schema.as_object() else { return schema != &json!(false) };
    rules.iter().all(|(keyword, rule)| match keyword.as_str() {
        "$ref" => fits(root, root.pointer(rule.as_str().unwrap().strip_prefix('#').unwrap()).unwrap(), value),
        "allOf" => rule.as_array().unwrap().iter().all(|one| fits(root, one, value)),
        "anyOf" => rule.as_array().unwrap().iter().any(|one| fits(root, one, value)),
        "oneOf" => rule.as_array().unwrap().iter().filter(|one| fits(root, one, value)).count() == 1,
        "const" => rule == value,
        "enum" => rule.as_array().unwrap().contains(value),
        "type" => match rule {
            Value::Array(types) => types.iter().any(|one| is(one.as_str().unwrap(), value)),
            one => is(one.as_str().unwrap(), value),
        },
        "required" => rule.as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some()),
        "properties" => rule
            .as_object()
            .unwrap()
            .iter()
            .all(|(name, rule)| value.get(name).is_none_or(|field| fits(root, rule, field))),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| fits(root, rule, item))),
        "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
        "additionalProperties" if rule == &json!(false) => {
            let known = |name: &String| schema["properties"].get(name).is_some();
            value.as_object().is_none_or(|fields| fields.keys().all(known))
        }
        "description" | "title" | "default" | "format" | "pattern" | "$schema" | "additionalProperties" => {
            true
        }
        other => panic!("unknown keyword {other}"),
    })
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    }
}

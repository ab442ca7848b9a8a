//! Typed reading of a command's fields; every refusal names the field and shows how the command is written.

use serde_json::{Map, Value};

use crate::{Code, Refusal, json::kind_of, refusal::quoted, schedule::whole, seen::is_seen};

/// The longest name or address, bytes: lists and replies carry them.
const LONGEST_NAME: usize = 1_000;

/// The fields of one command.
pub(crate) struct Fields<'a> {
    /// The command's type, for messages.
    pub(crate) command: &'static str,
    /// A complete command, for hints.
    pub(crate) example: &'static str,
    /// What the file holds.
    pub(crate) map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Returns the field; `None` when it is absent or null.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Returns the field.
    ///
    /// # Errors
    /// `missing_field` when it is absent or null.
    pub(crate) fn required(&self, name: &str) -> Result<&'a Value, Refusal> {
        self.get(name).ok_or_else(|| self.missing(name))
    }

    /// Returns a text that must be there and not be empty.
    pub(crate) fn text(&self, name: &str) -> Result<String, Refusal> {
        let text = self.string(name, self.required(name)?)?;
        if text.is_empty() { Err(self.invalid(name, "is empty")) } else { Ok(text) }
    }

    /// Returns a text that may be left out; an empty one counts as left out, as in v1.
    pub(crate) fn optional_text(&self, name: &str) -> Result<Option<String>, Refusal> {
        let text = self.get(name).map(|value| self.string(name, value)).transpose()?;
        Ok(text.filter(|text| !text.is_empty()))
    }

    /// Returns a name that must be there: not empty, no control characters, no longer than a name may be.
    pub(crate) fn name(&self, name: &str) -> Result<String, Refusal> {
        self.text(name).and_then(|text| self.printable(name, text))
    }

    /// Returns a name that people read: one that can be told by eye, too.
    pub(crate) fn seen_name(&self, name: &str) -> Result<String, Refusal> {
        let text = self.name(name)?;
        if is_seen(&text) {
            return Ok(text);
        }
        let fault = format!("shows nothing, or holds characters that are not seen: {}", quoted(&text));
        Err(self.invalid(name, &fault))
    }

    /// Returns a name that may be left out.
    pub(crate) fn optional_name(&self, name: &str) -> Result<Option<String>, Refusal> {
        self.optional_text(name)?.map(|text| self.printable(name, text)).transpose()
    }

    /// Returns one of `choices` by its name, or the default when the field is left out.
    pub(crate) fn choice<T: Copy + Default>(&self, name: &str, choices: &[(&str, T)]) -> Result<T, Refusal> {
        Ok(self.optional_choice(name, choices)?.unwrap_or_default())
    }

    /// Returns one of `choices` by its name, when the field is there.
    pub(crate) fn optional_choice<T: Copy>(
        &self,
        name: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, Refusal> {
        let Some(text) = self.optional_text(name)? else { return Ok(None) };
        choices.iter().find(|(choice, _)| *choice == text).map(|(_, value)| Some(*value)).ok_or_else(|| {
            let known: Vec<_> = choices.iter().map(|(choice, _)| *choice).collect();
            self.invalid(name, &format!("is {}, not one of {}", quoted(&text), known.join(", ")))
        })
    }

    /// Returns a truth value that may be left out.
    pub(crate) fn optional_bool(&self, name: &str) -> Result<Option<bool>, Refusal> {
        let wrong = |value| self.invalid(name, &format!("is {}, not true or false", kind_of(value)));
        self.get(name).map(|value| value.as_bool().ok_or_else(|| wrong(value))).transpose()
    }

    /// Returns a whole number that must be there; as text it is taken too.
    pub(crate) fn whole_number(&self, name: &str) -> Result<i64, Refusal> {
        let value = self.required(name)?;
        let number = match value {
            Value::Number(number) => whole(number),
            Value::String(text) => text.trim().parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        number.ok_or_else(|| self.invalid(name, "is no whole number"))
    }

    /// Returns the refusal of a field that is absent.
    pub(crate) fn missing(&self, name: &str) -> Refusal {
        Refusal::new(
            Code::MissingField,
            format!("{}: field \"{name}\" is missing", self.command),
            format!("add it, for example {}", self.example),
        )
    }

    /// Returns the refusal of a field that is there; `fault` goes on after its name.
    pub(crate) fn invalid(&self, name: &str, fault: &str) -> Refusal {
        Refusal::new(
            Code::InvalidField,
            format!("{}: field \"{name}\" {fault}", self.command),
            format!("correct it, for example {}", self.example),
        )
    }

    fn string(&self, name: &str, value: &Value) -> Result<String, Refusal> {
        value
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| self.invalid(name, &format!("is {}, not a string", kind_of(value))))
    }

    fn printable(&self, name: &str, text: String) -> Result<String, Refusal> {
        if text.len() > LONGEST_NAME {
            return Err(self.invalid(name, &format!("has {} bytes, more than {LONGEST_NAME}", text.len())));
        }
        if text.chars().any(char::is_control) {
            return Err(self.invalid(name, &format!("holds control characters: {}", quoted(&text))));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_of_a_field_has_its_code_and_names_the_field() {
        let map = serde_json::json!({
            "null": null, "empty": "", "number": 1, "list": [], "text": "x", "control": "a\nb",
            "blank": "\u{3164}", "tagged": "\u{e0041}x",
            "longest": "n".repeat(LONGEST_NAME), "long": "n".repeat(LONGEST_NAME + 1)
        });
        let fields = Fields { command: "c", example: "{}", map: map.as_object().unwrap() };
        let fault = |result: Result<String, Refusal>| {
            let refusal = result.unwrap_err();
            (refusal.code, refusal.message)
        };
        assert_eq!(fields.text("text").unwrap(), "x");
        assert_eq!(fault(fields.text("gone")), (Code::MissingField, "c: field \"gone\" is missing".into()));
        assert_eq!(fault(fields.text("null")), (Code::MissingField, "c: field \"null\" is missing".into()));
        assert_eq!(fault(fields.text("empty")), (Code::InvalidField, "c: field \"empty\" is empty".into()));
        assert_eq!(
            fault(fields.text("number")),
            (Code::InvalidField, "c: field \"number\" is a number, not a string".into())
        );
        assert_eq!(fault(fields.name("control")).0, Code::InvalidField);
        assert_eq!(fault(fields.name("long")).0, Code::InvalidField);
        assert_eq!(fields.seen_name("text").unwrap(), "x");
        assert_eq!(fault(fields.seen_name("blank")).0, Code::InvalidField);
        assert_eq!(fault(fields.seen_name("tagged")).0, Code::InvalidField);
        assert_eq!(fields.name("longest").unwrap().len(), LONGEST_NAME);
        assert_eq!(fields.optional_text("empty").unwrap(), None);
        assert_eq!(fields.optional_text("null").unwrap(), None);
        assert_eq!(fields.optional_text("list").unwrap_err().code, Code::InvalidField);
        assert_eq!(fields.choice("gone", &[("x", 5)]).unwrap(), 0);
        assert_eq!(fields.choice("text", &[("x", 5)]).unwrap(), 5);
        assert_eq!(fields.choice("text", &[("y", 5)]).unwrap_err().code, Code::InvalidField);
    }
}

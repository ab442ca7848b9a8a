//! The words of a turn: what stands for `{{…}}` in a script's strings.

use serde_json::Value;

/// What a turn's placeholders stand for.
pub(super) struct Words<'a> {
    text: &'a str,
    chat_jid: &'a str,
    group: &'a str,
    /// The last command's reply; empty before there is one.
    pub(super) reply: String,
}

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str, chat_jid: &'a str, group: &'a str) -> Self {
        Self { text, chat_jid, group, reply: String::new() }
    }

    /// Returns `template` with its placeholders replaced. Inserted texts are not looked at again, and other text
    /// stays.
    pub(super) fn fill(&self, template: &str) -> String {
        let mut filled = String::new();
        let mut rest = template;
        while let Some(at) = rest.find("{{") {
            let (before, from) = rest.split_at(at);
            filled.push_str(before);
            let word = from[2..].split_once("}}").and_then(|(name, after)| Some((self.word(name)?, after)));
            match word {
                Some((word, after)) => {
                    filled.push_str(word);
                    rest = after;
                }
                None => {
                    filled.push('{');
                    rest = &from[1..];
                }
            }
        }
        filled.push_str(rest);
        filled
    }

    /// Returns `value` with the placeholders in all its strings replaced (not those in names).
    pub(super) fn fill_json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_json(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), self.fill_json(value))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn word(&self, name: &str) -> Option<&str> {
        match name {
            "text" => Some(self.text),
            "chat_jid" => Some(self.chat_jid),
            "group" => Some(self.group),
            "reply" => Some(&self.reply),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn words(text: &str) -> Words<'_> {
        Words { reply: "R".to_owned(), ..Words::new(text, "local:main", "main") }
    }

    #[test]
    fn placeholders_are_replaced_and_everything_else_stays() {
        let words = words("T");
        for (template, filled) in [
            ("", ""),
            ("{{text}}", "T"),
            ("a {{text}} {{chat_jid}} {{group}} {{reply}} z", "a T local:main main R z"),
            ("{{{text}}}", "{T}"),
            ("{{other}} {{ text }} {{", "{{other}} {{ text }} {{"),
            ("{{x {{text}}", "{{x T"),
        ] {
            assert_eq!(words.fill(template), filled, "{template}");
        }
    }

    #[test]
    fn what_somebody_wrote_is_not_a_template() {
        assert_eq!(words("{{reply}}{{text}}").fill("<{{text}}>"), "<{{reply}}{{text}}>");
    }

    #[test]
    fn text_in_a_command_can_not_break_its_json() {
        let filled = words("a\"b\\\n")
            .fill_json(&json!({"{{text}}": ["{{text}}", 1, null], "x": {"y": "<{{text}}>"}}));
        assert_eq!(filled, json!({"{{text}}": ["a\"b\\\n", 1, null], "x": {"y": "<a\"b\\\n>"}}));
    }

    proptest! {
        #[test]
        fn a_template_without_braces_is_its_own_result(template in "[^{]*") {
            prop_assert_eq!(words("T").fill(&template), template);
        }
    }
}

//! `ask_user`: asks the people of a chat something. Their answer comes as a message, and so does it when nobody answers.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{
    Command, Entry, Who,
    send_message::{foreign_chat, own_chats_hint},
};
use crate::{
    Caller, Code, Effect, Facts, Refusal, Wants,
    fields::Fields,
    json::kind_of,
    outbound::strip_internal,
    schedule::{ScheduleValue, duration, whole},
    seen::acts,
};

/// The longest question, characters.
pub const LONGEST_QUESTION: usize = 2_000;
/// At most this many answers are offered.
pub const MOST_OPTIONS: usize = 10;
/// The longest of them, characters: a button has room for as many.
pub const LONGEST_OPTION: usize = 60;
/// How long a question is open that says nothing of it, ms: a day.
pub const DEFAULT_TIMEOUT_MS: i64 = 24 * 3_600_000;
/// The shortest and the longest time that one may say, ms: a minute, a week.
pub const TIMEOUT_MS: std::ops::RangeInclusive<i64> = 60_000..=7 * 24 * 3_600_000;

/// The catalogue's line.
pub static ENTRY: Entry = Entry {
    type_name: "ask_user",
    alias: None,
    who: Who::OwnChatsAlone,
    example: r#"{"type":"ask_user","chatJid":"tg:-100123","question":"Which hotel?","options":["Ibis","Hilton"],"timeout":"2h"}"#,
    read: |fields| AskUser::read(fields).map(Command::AskUser),
};

/// The fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskUser {
    /// The chat's address. It may be left out in a run: then the chat of the run is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat_jid: Option<String>,
    /// The question, at most 2000 characters; `<internal>` blocks are taken out.
    pub question: String,
    /// The answers that are offered, at most ten, each of at most 60 characters in one line. An answer in other words counts
    /// as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub options: Vec<String>,
    /// How long it is open, from 1m to 7d, as `"2h"` or in ms. Left out: a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<ScheduleValue>,
}

impl AskUser {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let question = strip_internal(&fields.text("question")?);
        let long = question.chars().count();
        if question.is_empty() {
            return Err(fields.invalid("question", "asks nothing outside <internal> blocks and white space"));
        }
        if long > LONGEST_QUESTION {
            let fault = format!("has {long} characters, more than {LONGEST_QUESTION}");
            return Err(fields.invalid("question", &fault));
        }
        Ok(Self {
            chat_jid: fields.optional_name("chatJid")?,
            question,
            options: options(fields)?,
            timeout: timeout(fields)?,
        })
    }

    /// The chat that is asked.
    fn chat<'a>(&'a self, caller: &'a Caller) -> Option<&'a str> {
        self.chat_jid.as_deref().or(caller.run.as_ref().map(|seat| seat.chat_jid.as_str()))
    }

    pub(crate) fn wants(&self, caller: &Caller) -> Wants {
        Wants { chat: self.chat(caller).map(str::to_owned), ..Wants::default() }
    }

    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        let Some(chat) = self.chat(caller) else {
            return Err(Refusal::new(
                Code::MissingField,
                "ask_user: field \"chatJid\" is missing, and no run asks",
                own_chats_hint(facts),
            ));
        };
        // The answer comes in a lane of the group, so it has to listen there; main too.
        if !facts.is_own_chat(caller, chat) {
            return Err(foreign_chat("chatJid", chat, caller, facts));
        }
        Ok(vec![Effect::Ask {
            chat_jid: chat.to_owned(),
            question: self.question.clone(),
            options: self.options.clone(),
            expires_at: facts.now.plus_ms(self.timeout.as_ref().and_then(ms).unwrap_or(DEFAULT_TIMEOUT_MS)),
        }])
    }
}

fn options(fields: &Fields<'_>) -> Result<Vec<String>, Refusal> {
    const NAME: &str = "options";
    let Some(value) = fields.get(NAME) else { return Ok(Vec::new()) };
    let Value::Array(given) = value else {
        return Err(fields.invalid(NAME, &format!("is {}, not a list", kind_of(value))));
    };
    if given.len() > MOST_OPTIONS {
        let fault = format!("has {} answers; a question has at most {MOST_OPTIONS}", given.len());
        return Err(fields.invalid(NAME, &fault));
    }
    let mut options: Vec<String> = Vec::with_capacity(given.len());
    for one in given {
        let Value::String(text) = one else {
            return Err(fields.invalid(NAME, &format!("holds {}, not a string", kind_of(one))));
        };
        let option = strip_internal(text);
        let long = option.chars().count();
        let fault = match () {
            () if option.is_empty() => "holds an empty answer".to_owned(),
            () if long > LONGEST_OPTION => {
                format!("holds an answer of {long} characters, more than {LONGEST_OPTION}")
            }
            () if option.chars().any(acts) => {
                "holds an answer with a line break or control characters".to_owned()
            }
            () if options.iter().any(|other| other.to_lowercase() == option.to_lowercase()) => {
                "holds the same answer twice".to_owned()
            }
            () => {
                options.push(option);
                continue;
            }
        };
        return Err(fields.invalid(NAME, &fault));
    }
    Ok(options)
}

fn timeout(fields: &Fields<'_>) -> Result<Option<ScheduleValue>, Refusal> {
    const NAME: &str = "timeout";
    let given = match fields.get(NAME) {
        None => return Ok(None),
        Some(Value::String(text)) => Some(ScheduleValue::Text(text.clone())),
        Some(Value::Number(number)) => Some(ScheduleValue::Number(number.clone())),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => None,
    };
    match given.filter(|given| ms(given).is_some_and(|ms| TIMEOUT_MS.contains(&ms))) {
        Some(given) => Ok(Some(given)),
        None => Err(fields.invalid(NAME, "is no duration from 1m to 7d")),
    }
}

/// Returns the milliseconds of a timeout.
fn ms(timeout: &ScheduleValue) -> Option<i64> {
    match timeout {
        ScheduleValue::Text(text) => duration(text.trim()),
        ScheduleValue::Number(number) => whole(number),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::testing::{NOW, ask, caller, in_run, refused};

    fn to(chat: &str) -> Value {
        json!({"type": "ask_user", "chatJid": chat, "question": "Which hotel?", "options": ["Ibis", "Hilton"]})
    }

    #[test]
    fn a_group_asks_in_its_own_chats_only_and_main_does_too() {
        let asked = ask(&caller("family"), &to("tg:-100")).unwrap();
        assert_eq!(
            asked,
            Effect::Ask {
                chat_jid: "tg:-100".into(),
                question: "Which hotel?".into(),
                options: vec!["Ibis".into(), "Hilton".into()],
                expires_at: NOW.plus_ms(DEFAULT_TIMEOUT_MS),
            }
        );
        for (group, foreign) in
            [("family", "dc:1"), ("family", "tg:-999"), ("main", "tg:-100"), ("main", "tg:-999")]
        {
            assert_eq!(refused(&caller(group), &to(foreign)), Code::NotAuthorized, "{group} {foreign}");
        }
        assert!(ask(&caller("main"), &to("local:main")).is_ok());
    }

    #[test]
    fn a_run_asks_in_its_own_chat_unless_it_names_one_and_by_hand_it_is_named() {
        let mut command = to("x");
        command.as_object_mut().unwrap().remove("chatJid");
        let chat = |caller: &Caller, command: &Value| {
            let Effect::Ask { chat_jid, .. } = ask(caller, command).unwrap() else { panic!("asks") };
            chat_jid
        };
        assert_eq!(chat(&in_run("family", "tg:-101"), &command), "tg:-101");
        assert_eq!(chat(&in_run("family", "tg:-101"), &to("tg:-100")), "tg:-100");
        assert_eq!(refused(&caller("family"), &command), Code::MissingField);
        // Its chat was taken from the group while it worked.
        assert_eq!(refused(&in_run("family", "dc:1"), &command), Code::NotAuthorized);
    }

    #[test]
    fn what_is_no_question_is_refused_with_the_field() {
        let with = |name: &str, value: Value| {
            let mut command = to("tg:-100");
            command[name] = value;
            command
        };
        let many: Vec<String> = (0..=MOST_OPTIONS).map(|n| n.to_string()).collect();
        for (name, value) in [
            ("question", json!(" ")),
            ("question", json!("<internal>hm</internal>")),
            ("question", json!("q".repeat(LONGEST_QUESTION + 1))),
            ("question", json!(5)),
            ("options", json!("Ibis")),
            ("options", json!([1])),
            ("options", json!([""])),
            ("options", json!(["<internal>a</internal>"])),
            ("options", json!(["a\nb"])),
            ("options", json!(["a\u{202e}b"])),
            ("options", json!(["Ibis", "ibis"])),
            ("options", json!(["x".repeat(LONGEST_OPTION + 1)])),
            ("options", json!(many)),
            ("timeout", json!("soon")),
            ("timeout", json!("59s")),
            ("timeout", json!("8d")),
            ("timeout", json!(-1)),
            ("timeout", json!(1.5)),
            ("timeout", json!([])),
        ] {
            assert_eq!(
                refused(&caller("family"), &with(name, value.clone())),
                Code::InvalidField,
                "{name} {value}"
            );
        }
        for (given, ms) in [
            (json!("2h"), 7_200_000),
            (json!(60_000), 60_000),
            (json!("7d"), 604_800_000),
            (json!("1d12h"), 129_600_000),
        ] {
            let Effect::Ask { expires_at, .. } = ask(&caller("family"), &with("timeout", given)).unwrap()
            else {
                panic!("asks");
            };
            assert_eq!(expires_at, NOW.plus_ms(ms));
        }
        let longest = with("question", json!("é".repeat(LONGEST_QUESTION)));
        assert!(ask(&caller("family"), &longest).is_ok());
        assert!(ask(&caller("family"), &with("options", json!([]))).is_ok());
    }
}

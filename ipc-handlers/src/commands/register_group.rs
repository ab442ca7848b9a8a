//! `register_group`: an agent for a chat, with a folder of its own.
//!
//! The same folder again is the same group: with the same chat it is changed, with another one it answers there too.
//! Privilege can't be given: the file has no field for it, and the privileged group is not registered this way.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Command, Entry, Who};
use crate::{
    Caller, Code, Effect, Facts, Folder, Refusal, Wants,
    effect::{EngageMode, IgnoredMessages, Registration, SenderScope},
    fields::Fields,
    json::kind_of,
    refusal::quoted,
};

/// The catalogue's line.
pub static ENTRY: Entry = Entry {
    type_name: "register_group",
    alias: None,
    who: Who::Main,
    example: r#"{"type":"register_group","jid":"tg:-100123","name":"Family","folder":"telegram_family","trigger":"@G2"}"#,
    read: |fields| RegisterGroup::read(fields).map(Command::RegisterGroup),
};

/// The fields. `isMain` and whatever else would give privilege is ignored.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegisterGroup {
    /// The chat's address.
    pub jid: String,
    /// A name for people; no other group has it, and all of it is seen.
    pub name: String,
    /// The folder under `groups/`, which is the group's identity.
    pub folder: Folder,
    /// What a message starts with to wake the agent.
    pub trigger: String,
    /// Whether messages must start with the trigger; left out, they must.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_trigger: Option<bool>,
    /// Settings of its containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_config: Option<Map<String, Value>>,
    /// When the wiring engages; left out, as `requiresTrigger` says.
    #[serde(rename = "engage_mode", skip_serializing_if = "Option::is_none")]
    pub engage_mode: Option<EngageMode>,
    /// The JavaScript pattern of the mode `pattern`.
    #[serde(rename = "engage_pattern", skip_serializing_if = "Option::is_none")]
    pub engage_pattern: Option<String>,
    /// Whose messages count.
    #[serde(rename = "sender_scope", skip_serializing_if = "Option::is_none")]
    pub sender_scope: Option<SenderScope>,
    /// What becomes of messages that don't engage.
    #[serde(rename = "ignored_message_policy", skip_serializing_if = "Option::is_none")]
    pub ignored_message_policy: Option<IgnoredMessages>,
}

/// The longest address of a chat, characters.
const LONGEST_JID: usize = 512;
/// The most that settings may hold, bytes.
const LARGEST_CONFIG: usize = 64 << 10;

impl RegisterGroup {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let jid = fields.seen_name("jid")?;
        if jid.chars().count() > LONGEST_JID {
            return Err(fields.invalid("jid", &format!("has more than {LONGEST_JID} characters")));
        }
        let this = Self {
            jid,
            name: fields.seen_name("name")?,
            folder: folder(fields)?,
            trigger: fields.seen_name("trigger")?,
            requires_trigger: fields.optional_bool("requiresTrigger")?,
            container_config: container_config(fields)?,
            engage_mode: fields.optional_choice("engage_mode", EngageMode::CHOICES)?,
            engage_pattern: fields.optional_text("engage_pattern")?,
            sender_scope: fields.optional_choice("sender_scope", SenderScope::CHOICES)?,
            ignored_message_policy: fields
                .optional_choice("ignored_message_policy", IgnoredMessages::CHOICES)?,
        };
        if this.engage_pattern.is_some() && !matches!(this.engage_mode, None | Some(EngageMode::Pattern)) {
            return Err(fields.invalid("engage_pattern", "is of no use unless engage_mode is \"pattern\""));
        }
        Ok(this)
    }

    pub(crate) fn wants(&self, _caller: &Caller) -> Wants {
        Wants { folder: Some(self.folder.clone()), ..Wants::default() }
    }

    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        caller.must_be_main("register groups")?;
        if facts.group.as_ref().is_some_and(|group| group.folder == self.folder && group.is_main) {
            return Err(Refusal::new(
                Code::NotAuthorized,
                format!(
                    "the folder \"{}\" is the privileged group's, which no command can change",
                    self.folder
                ),
                "choose another folder; the user can wire a chat to the main group with `g2 wirings add`",
            ));
        }
        if facts.group.is_none() && facts.groups.count >= facts.groups.most {
            return Err(Refusal::new(
                Code::TooLarge,
                format!("there are {} groups, and at most {} may be", facts.groups.count, facts.groups.most),
                "give the folder of a group that there is, and it answers in this chat too; the user removes groups with `g2 groups remove`, or raises limits.groups",
            ));
        }
        let (engage_mode, engage_pattern, ignored) = self.engages();
        Ok(vec![Effect::RegisterGroup(Registration {
            folder: self.folder.clone(),
            name: self.name.clone(),
            trigger: self.trigger.clone(),
            chat_jid: self.jid.clone(),
            config: self.container_config.clone(),
            engage_mode,
            engage_pattern,
            sender_scope: self.sender_scope.unwrap_or_default(),
            ignored,
        })])
    }

    /// In v1's terms: without the need of a trigger every message counts; otherwise those that mention the agent, with what
    /// was said before as context.
    fn engages(&self) -> (EngageMode, Option<String>, IgnoredMessages) {
        let pattern = |pattern: &Option<String>| pattern.clone().or_else(|| Some(".".to_owned()));
        let mode = match (self.engage_mode, &self.engage_pattern) {
            (Some(mode), _) => Some(mode),
            (None, Some(_)) => Some(EngageMode::Pattern),
            (None, None) => None,
        };
        let (mode, ignored) = match (mode, self.requires_trigger) {
            (Some(mode), _) => (mode, IgnoredMessages::Drop),
            (None, Some(false)) => (EngageMode::Pattern, IgnoredMessages::Drop),
            (None, Some(true) | None) => (EngageMode::Mention, IgnoredMessages::Accumulate),
        };
        let pattern = if mode == EngageMode::Pattern { pattern(&self.engage_pattern) } else { None };
        (mode, pattern, self.ignored_message_policy.unwrap_or(ignored))
    }
}

/// Reads the folder: v1's rule, and no name that stands for something else.
fn folder(fields: &Fields<'_>) -> Result<Folder, Refusal> {
    const RESERVED: [&str; 4] = ["main", "global", "errors", "_template"];
    let name = fields.text("folder")?;
    if RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(fields.invalid("folder", &format!("is {}, which is reserved", quoted(&name))));
    }
    Folder::parse(&name).map_err(|_| {
        let fault = format!(
            "is {}; a folder name has 1 to 64 letters, digits, '-' or '_', and starts with a letter or digit",
            quoted(&name)
        );
        fields.invalid("folder", &fault)
    })
}

fn container_config(fields: &Fields<'_>) -> Result<Option<Map<String, Value>>, Refusal> {
    match fields.get("containerConfig") {
        None => Ok(None),
        Some(Value::Object(config)) => {
            let size = serde_json::to_vec(config).map_or(usize::MAX, |bytes| bytes.len());
            if size > LARGEST_CONFIG {
                return Err(fields.invalid(
                    "containerConfig",
                    &format!("has {size} bytes; the limit is {LARGEST_CONFIG}"),
                ));
            }
            Ok(Some(config.clone()))
        }
        Some(other) => {
            Err(fields.invalid("containerConfig", &format!("is {}, not an object", kind_of(other))))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        commands::testing::{ask, caller, facts, refused},
        facts::GroupCount,
    };

    fn register() -> Value {
        json!({"type": "register_group", "jid": "tg:-300", "name": "Team", "folder": "team", "trigger": "@Bot"})
    }

    fn with(field: &str, value: impl Into<Value>) -> Value {
        let mut command = register();
        command[field] = value.into();
        command
    }

    fn registration(command: &Value) -> Registration {
        let Effect::RegisterGroup(made) = ask(&caller("main"), command).unwrap() else {
            panic!("registers");
        };
        made
    }

    #[test]
    fn v1s_terms_say_when_it_engages() {
        let made = registration(&register());
        assert_eq!((made.engage_mode, made.engage_pattern), (EngageMode::Mention, None));
        assert_eq!((made.ignored, made.sender_scope), (IgnoredMessages::Accumulate, SenderScope::All));
        assert_eq!(registration(&with("requiresTrigger", true)).engage_mode, EngageMode::Mention);
        let made = registration(&with("requiresTrigger", false));
        assert_eq!((made.engage_mode, made.engage_pattern.as_deref()), (EngageMode::Pattern, Some(".")));
    }

    #[test]
    fn the_engage_columns_win() {
        let made = registration(&with("engage_pattern", "^hi"));
        assert_eq!((made.engage_mode, made.engage_pattern.as_deref()), (EngageMode::Pattern, Some("^hi")));
        let mut command = with("engage_mode", "mention-sticky");
        command["requiresTrigger"] = false.into();
        command["sender_scope"] = "known".into();
        command["ignored_message_policy"] = "accumulate".into();
        let made = registration(&command);
        assert_eq!((made.engage_mode, made.engage_pattern), (EngageMode::MentionSticky, None));
        assert_eq!((made.sender_scope, made.ignored), (SenderScope::Known, IgnoredMessages::Accumulate));
        command["engage_pattern"] = "x".into();
        assert_eq!(refused(&caller("main"), &command), Code::InvalidField);
    }

    #[test]
    fn only_main_registers_and_nobody_the_privileged_group() {
        assert_eq!(refused(&caller("family"), &register()), Code::NotAuthorized);
        // Whatever it is called: here `boss` is the privileged one.
        assert_eq!(refused(&caller("main"), &with("folder", "boss")), Code::NotAuthorized);
        // A field that would give privilege means nothing.
        assert_eq!(registration(&with("isMain", true)), registration(&register()));
    }

    #[test]
    fn above_the_bound_no_group_is_made_and_one_that_there_is_is_changed() {
        let main = caller("main");
        let decide = |json: &Value, count| {
            let command = crate::parse(json.to_string().as_bytes()).unwrap().command;
            let facts = Facts { groups: GroupCount { count, most: 4 }, ..facts(&main, &command) };
            crate::decide(&main, &command, &facts)
        };
        assert!(decide(&register(), 3).is_ok());
        for count in [4, 5] {
            let refusal = decide(&register(), count).unwrap_err();
            assert_eq!(refusal.code, Code::TooLarge);
            assert!(
                refusal.message.contains("at most 4") && refusal.hint.contains("limits.groups"),
                "{refusal:?}"
            );
            assert!(decide(&with("folder", "family"), count).is_ok());
        }
    }

    #[test]
    fn a_folder_that_leads_elsewhere_or_is_reserved_is_refused() {
        for bad in ["../../outside", "/tmp", "a/b", "", "main", "Main", "global", "errors", "_template", "é"]
        {
            assert_eq!(refused(&caller("main"), &with("folder", bad)), Code::InvalidField, "{bad}");
        }
    }

    #[test]
    fn what_is_missing_or_of_the_wrong_type_is_refused() {
        for field in ["jid", "name", "folder", "trigger"] {
            assert_eq!(refused(&caller("main"), &with(field, Value::Null)), Code::MissingField, "{field}");
        }
        for (field, value) in [
            ("jid", json!("x".repeat(513))),
            ("name", json!("\u{3164}")),
            ("name", json!("\u{e0041}Team")),
            ("trigger", json!("\u{2800}")),
            ("jid", json!("tg:1\u{200b}")),
            ("requiresTrigger", json!("no")),
            ("containerConfig", json!([])),
            ("containerConfig", json!({"x": "y".repeat(LARGEST_CONFIG)})),
            ("engage_mode", json!("always")),
            ("sender_scope", json!("some")),
        ] {
            assert_eq!(refused(&caller("main"), &with(field, value)), Code::InvalidField, "{field}");
        }
    }
}

//! `schedule_task`: makes a task that runs by cron, at an interval, or once.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{
    Command, Entry, Who,
    send_message::{foreign_chat, own_chats_hint},
};
use crate::{
    Caller, Code, Effect, Facts, Folder, NewTask, Refusal, Schedule, Wants,
    effect::{CatchUp, ContextMode, OutputMode},
    fields::Fields,
    json::kind_of,
    refusal::quoted,
    schedule::ScheduleValue,
};

/// The catalogue's line.
pub static ENTRY: Entry = Entry {
    type_name: "schedule_task",
    alias: None,
    who: Who::Own,
    example: r#"{"type":"schedule_task","prompt":"Say good morning","schedule_type":"cron","schedule_value":"0 9 * * 1-5"}"#,
    read: |fields| ScheduleTask::read(fields).map(Command::ScheduleTask),
};

/// The fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScheduleTask {
    /// What the agent is told.
    pub prompt: String,
    /// `cron`, `interval` or `once`; checked when decided.
    pub schedule_type: String,
    /// The cron expression, the interval, or the date and time; checked when decided.
    pub schedule_value: ScheduleValue,
    /// The chat it is for; left out, the run's own or the group's only one.
    #[serde(rename = "targetJid", skip_serializing_if = "Option::is_none")]
    pub target_jid: Option<String>,
    /// `group` or, for anything else as in v1, `isolated`.
    #[schemars(default)]
    pub context_mode: ContextMode,
    /// A script that runs before the agent and may call it off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The id; left out, the host makes one.
    #[serde(rename = "taskId", skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// What happens to missed occurrences.
    #[serde(rename = "catchUp")]
    #[schemars(default)]
    pub catch_up: CatchUp,
    /// How long ago a missed occurrence may be for it to be made up for, ms; left out, 7 days.
    #[serde(rename = "catchUpWindowMs", skip_serializing_if = "Option::is_none")]
    pub catch_up_window_ms: Option<i64>,
    /// Where what the agent says goes.
    #[schemars(default)]
    pub output: OutputMode,
}

impl ScheduleTask {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            prompt: fields.text("prompt")?,
            schedule_type: fields.text("schedule_type")?,
            schedule_value: match schedule_value(fields)? {
                Some(value) => value,
                None => ScheduleValue::Text(fields.text("schedule_value")?),
            },
            target_jid: fields.optional_name("targetJid")?,
            context_mode: fields
                .get("context_mode")
                .and_then(Value::as_str)
                .and_then(ContextMode::from_name)
                .unwrap_or_default(),
            script: fields.optional_text("script")?,
            task_id: task_id(fields)?,
            catch_up: fields.choice("catchUp", CatchUp::CHOICES)?,
            catch_up_window_ms: catch_up_window(fields)?,
            output: fields.choice("output", OutputMode::CHOICES)?,
        })
    }

    pub(crate) fn wants(&self, _caller: &Caller) -> Wants {
        Wants { chat: self.target_jid.clone(), ..Wants::default() }
    }

    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        let (group, chat_jid) = self.target(caller, facts)?;
        check_window(self.catch_up_window_ms)?;
        let schedule =
            Schedule::from_value(&self.schedule_type, &self.schedule_value, &facts.zone, facts.now)?;
        schedule.check_ahead(facts.asked, facts.now, &facts.zone, &facts.zone_name)?;
        let next_run = schedule.first_run(facts.now, &facts.zone).ok_or_else(|| schedule.never_runs())?;
        Ok(vec![Effect::CreateTask(NewTask {
            id: self.task_id.clone(),
            group,
            chat_jid,
            prompt: self.prompt.clone(),
            schedule,
            context_mode: self.context_mode,
            script: self.script.clone(),
            catch_up: self.catch_up,
            catch_up_window_ms: self.catch_up_window_ms,
            output: self.output,
            next_run,
        })])
    }

    /// Returns whose task it becomes and for which chat.
    ///
    /// Of several groups wired to a chat, main gets its own if it is one of them, otherwise the one wired first.
    fn target(&self, caller: &Caller, facts: &Facts) -> Result<(Folder, String), Refusal> {
        let own = |jid: &str| Ok((caller.group.clone(), jid.to_owned()));
        let Some(jid) = &self.target_jid else {
            return match (&caller.run, facts.own_chats.as_slice()) {
                (Some(seat), _) => own(&seat.chat_jid),
                (None, [only]) => own(only),
                (None, _) => Err(Refusal::new(
                    Code::MissingField,
                    "schedule_task: field \"targetJid\" is missing, and there is no single chat to take instead",
                    format!("add it, with the address of the chat; {}", own_chats_hint(facts)),
                )),
            };
        };
        if facts.is_own_chat(caller, jid) {
            return own(jid);
        }
        if !caller.is_main {
            return Err(foreign_chat("targetJid", jid, caller, facts));
        }
        match facts.groups_of(jid) {
            [first, ..] => Ok((first.clone(), jid.clone())),
            [] => Err(Refusal::new(
                Code::NotFound,
                format!("targetJid {} is no chat of any group", quoted(jid)),
                "take the address from available_groups.json; an agent must be registered for the chat first",
            )),
        }
    }
}

/// Reads the value of a schedule, a text or a number; an empty text counts as left out.
pub(super) fn schedule_value(fields: &Fields<'_>) -> Result<Option<ScheduleValue>, Refusal> {
    match fields.get("schedule_value") {
        Some(Value::Number(number)) => Ok(Some(ScheduleValue::Number(number.clone()))),
        Some(Value::String(text)) if text.len() > LONGEST_VALUE => {
            Err(fields
                .invalid("schedule_value", &format!("has {} bytes, more than {LONGEST_VALUE}", text.len())))
        }
        Some(Value::String(_)) | None => Ok(fields.optional_text("schedule_value")?.map(ScheduleValue::Text)),
        Some(other @ (Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_))) => {
            let fault = format!("is {}, not a string or a number", kind_of(other));
            Err(fields.invalid("schedule_value", &fault))
        }
    }
}

/// The shortest and the longest window: a minute and 10 years, ms.
const WINDOWS: std::ops::RangeInclusive<i64> = 60_000..=315_576_000_000;

/// Returns how long ago a missed occurrence may be for it to be made up for, where the command says.
pub(super) fn catch_up_window(fields: &Fields<'_>) -> Result<Option<i64>, Refusal> {
    let name = "catchUpWindowMs";
    fields.get(name).map(|_| fields.whole_number(name)).transpose()
}

/// Refuses a window that is too short or too long.
pub(super) fn check_window(window: Option<i64>) -> Result<(), Refusal> {
    match window.filter(|ms| !WINDOWS.contains(ms)) {
        None => Ok(()),
        Some(ms) => Err(Refusal::new(
            Code::InvalidField,
            format!("field \"catchUpWindowMs\" is {ms}, not {} to {}", WINDOWS.start(), WINDOWS.end()),
            "write milliseconds, from a minute to 10 years; for example 86400000 for a day",
        )),
    }
}

/// The longest value of a schedule, bytes.
const LONGEST_VALUE: usize = 1024;
/// The longest task id, characters.
const LONGEST_ID: usize = 128;

fn task_id(fields: &Fields<'_>) -> Result<Option<String>, Refusal> {
    match fields.optional_name("taskId")? {
        Some(id) if id.chars().count() > LONGEST_ID => {
            Err(fields.invalid("taskId", &format!("has more than {LONGEST_ID} characters")))
        }
        id => Ok(id),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Time,
        commands::testing::{NOW, ask, caller, folder, in_run, refused},
    };

    fn daily() -> Value {
        json!({"type": "schedule_task", "prompt": "p", "schedule_type": "cron", "schedule_value": "0 9 * * *"})
    }

    fn with(field: &str, value: impl Into<Value>) -> Value {
        let mut command = daily();
        command[field] = value.into();
        command
    }

    fn task(caller: &Caller, command: &Value) -> NewTask {
        let Effect::CreateTask(task) = ask(caller, command).unwrap() else { panic!("makes a task") };
        task
    }

    #[test]
    fn a_task_has_the_defaults_of_v1() {
        let task = task(&caller("solo"), &daily());
        assert_eq!((task.group, task.chat_jid.as_str()), (folder("solo"), "dc:1"));
        assert_eq!((task.id, task.script, task.prompt.as_str()), (None, None, "p"));
        assert_eq!(
            (task.context_mode, task.catch_up, task.output),
            (ContextMode::Isolated, CatchUp::Latest, OutputMode::History)
        );
        // 09:00 in New York.
        assert_eq!(task.next_run, Time(NOW.0 + 2 * 3_600_000));
    }

    #[test]
    fn any_context_mode_but_group_is_isolated() {
        for (written, mode) in [
            (json!("group"), ContextMode::Group),
            (json!("isolated"), ContextMode::Isolated),
            (json!("bogus"), ContextMode::Isolated),
            (json!(null), ContextMode::Isolated),
            (json!(7), ContextMode::Isolated),
        ] {
            assert_eq!(task(&caller("solo"), &with("context_mode", written)).context_mode, mode);
        }
    }

    #[test]
    fn the_chat_left_out_is_the_runs_own_else_the_only_one() {
        assert_eq!(task(&in_run("family", "tg:-101"), &daily()).chat_jid, "tg:-101");
        assert_eq!(task(&caller("solo"), &daily()).chat_jid, "dc:1");
        assert_eq!(task(&caller("solo"), &with("targetJid", "")).chat_jid, "dc:1");
        let refusal = ask(&caller("family"), &daily()).unwrap_err();
        assert_eq!(refusal.code, Code::MissingField);
        assert!(refusal.hint.contains("tg:-101"), "{refusal:?}");
        assert_eq!(refused(&caller("homeless"), &daily()), Code::MissingField);
    }

    #[test]
    fn a_group_schedules_for_itself_and_main_for_any() {
        let to = |chat: &str| with("targetJid", chat);
        assert_eq!(task(&caller("family"), &to("tg:-100")).group, folder("family"));
        assert_eq!(task(&caller("main"), &to("tg:-100")).group, folder("family"));
        assert_eq!(task(&caller("main"), &to("local:main")).group, folder("main"));
        for foreign in ["local:main", "dc:1", "tg:-200", "tg:-999"] {
            assert_eq!(refused(&caller("family"), &to(foreign)), Code::NotAuthorized, "{foreign}");
        }
        for unwired in ["tg:-200", "tg:-999"] {
            assert_eq!(refused(&caller("main"), &to(unwired)), Code::NotFound, "{unwired}");
        }
    }

    #[test]
    fn a_schedule_that_cannot_be_understood_is_refused() {
        for (kind, value) in [
            ("cron", json!("not a cron")),
            ("cron", json!(5)),
            ("interval", json!("abc")),
            ("interval", json!("0")),
            ("interval", json!(0)),
            ("interval", json!(1.5)),
            ("once", json!("not-a-date")),
            ("weekly", json!("1")),
            ("Cron", json!("0 9 * * *")),
        ] {
            let mut command = with("schedule_type", kind);
            command["schedule_value"] = value;
            assert_eq!(refused(&caller("solo"), &command), Code::InvalidSchedule, "{command}");
        }
    }

    #[test]
    fn a_field_of_the_wrong_type_or_empty_is_refused() {
        for (field, value, code) in [
            ("prompt", json!(null), Code::MissingField),
            ("prompt", json!(""), Code::InvalidField),
            ("prompt", json!(["x"]), Code::InvalidField),
            ("schedule_type", json!(""), Code::InvalidField),
            ("schedule_value", json!(null), Code::MissingField),
            ("schedule_value", json!(""), Code::InvalidField),
            ("schedule_value", json!(true), Code::InvalidField),
            ("schedule_value", json!(format!("0 9 * * 1{}", ",1".repeat(600))), Code::InvalidField),
            ("targetJid", json!(5), Code::InvalidField),
            ("taskId", json!(5), Code::InvalidField),
            ("taskId", json!("a\nb"), Code::InvalidField),
            ("taskId", json!("x".repeat(129)), Code::InvalidField),
            ("script", json!(false), Code::InvalidField),
            ("catchUp", json!("sometimes"), Code::InvalidField),
            ("catchUpWindowMs", json!(59_999), Code::InvalidField),
            ("catchUpWindowMs", json!("a week"), Code::InvalidField),
            ("output", json!("both"), Code::InvalidField),
        ] {
            assert_eq!(refused(&caller("solo"), &with(field, value.clone())), code, "{field}: {value}");
        }
    }

    #[test]
    fn what_is_chosen_is_carried() {
        let mut command = daily();
        for (field, value) in [
            ("taskId", "task-1"),
            ("script", "exit 0"),
            ("catchUp", "all"),
            ("output", "chat"),
            ("context_mode", "group"),
        ] {
            command[field] = value.into();
        }
        let task = task(&caller("solo"), &command);
        assert_eq!((task.id.as_deref(), task.script.as_deref()), (Some("task-1"), Some("exit 0")));
        assert_eq!(
            (task.context_mode, task.catch_up, task.output),
            (ContextMode::Group, CatchUp::All, OutputMode::Chat)
        );
    }

    #[test]
    fn intervals_and_instants_may_be_numbers() {
        let mut command = with("schedule_type", "interval");
        for value in [json!("3600000"), json!(3_600_000), json!(3_600_000.0), json!(3.6e6)] {
            command["schedule_value"] = value;
            assert_eq!(task(&caller("solo"), &command).next_run, Time(NOW.0 + 3_600_000));
        }
        command = with("schedule_type", "once");
        command["schedule_value"] = json!(2_000_000_000_000_i64);
        assert_eq!(task(&caller("solo"), &command).next_run, Time(2_000_000_000_000));
    }

    #[test]
    fn an_instant_that_was_over_for_more_than_a_minute_when_it_was_asked_for_is_refused_with_the_time_now() {
        let mut command = with("schedule_type", "once");
        for (value, is_taken) in [
            (json!(NOW.0 - 60_000), true),
            (json!("2026-03-01T06:59:00"), true),
            (json!("2026-03-01T11:59:00Z"), true),
            (json!(NOW.0 - 60_001), false),
            (json!("2026-03-01T06:58:59"), false),
            (json!("2026-03-01"), false),
            (json!(0), false),
            (json!(-1), false),
            (json!("0001-01-01T00:00:00"), false),
        ] {
            command["schedule_value"] = value.clone();
            match ask(&caller("solo"), &command) {
                Ok(_) => assert!(is_taken, "{value}"),
                Err(refusal) => {
                    assert_eq!((is_taken, refusal.code), (false, Code::InvalidSchedule), "{value}");
                    let now = "is in the past: the time now is Sun 2026-03-01 07:00:00 America/New_York";
                    assert!(refusal.message.ends_with(now), "{refusal:?}");
                    assert!(refusal.hint.contains("\"2026-03-01T08:00:00\""), "{refusal:?}");
                }
            }
        }
    }

    #[test]
    fn what_was_ahead_when_it_was_asked_for_is_taken_however_long_it_waited() {
        let mut command = with("schedule_type", "once");
        command["schedule_value"] = json!("2026-03-01T06:00:00");
        let given = crate::envelope::parse(command.to_string().as_bytes()).unwrap().command;
        let caller = caller("solo");
        let mut facts = crate::commands::testing::facts(&caller, &given);
        facts.asked = NOW.plus_ms(-3_600_000);
        assert!(crate::decide(&caller, &given, &facts).is_ok());
        facts.asked = facts.asked.plus_ms(60_001);
        assert!(crate::decide(&caller, &given, &facts).is_err());
    }
}

use std::time::Duration;

use ipc_handlers::commands::CATALOGUE;

use super::{
    ask::{Answer, answer},
    *,
};
use crate::mailbox::Reply;

fn place(reach: Reach) -> Place {
    Place { chat_jid: "local:kitchen".to_owned(), reach, zone: "Europe/Berlin".to_owned() }
}

fn command(name: &str, arguments: &Value, reach: Reach) -> Value {
    super::command(name, arguments, &place(reach)).unwrap()
}

fn listed(name: &str, reach: Reach) -> Value {
    super::listed(&place(reach)).into_iter().find(|tool| tool["name"] == name).unwrap()
}

#[test]
fn every_command_of_the_catalogue_is_a_tool() {
    let named = |name: &str| ipc_handlers::commands::entry(name).unwrap().type_name;
    let mut tools: Vec<_> = offered(&place(Reach::All)).map(|tool| named(tool.name)).collect();
    let mut commands: Vec<_> = CATALOGUE.iter().map(|entry| entry.type_name).collect();
    tools.sort_unstable();
    commands.sort_unstable();
    assert_eq!(tools, commands, "each command needs an entry in tools/catalogue.rs");
}

#[test]
fn every_field_of_a_tool_is_one_that_the_host_reads() {
    for tool in offered(&place(Reach::All)) {
        let mut arguments = Map::new();
        for param in tool.params {
            let value = match (param.name, param.kind) {
                ("schedule_value", _) => json!("3600000"),
                ("schedule_type", _) => json!("interval"),
                (_, Kind::Choice(choices)) => choices[choices.len() - 1].into(),
                (_, Kind::Number) => json!(7),
                (_, Kind::Flag) => json!(false),
                ("timeout", _) => json!("2h"),
                (_, Kind::Text) => json!("family"),
                (_, Kind::Texts) => json!(["family"]),
            };
            arguments.insert(param.name.to_owned(), value);
        }
        let mut command = command(tool.name, &arguments.into(), Reach::All);
        let envelope = ipc_handlers::parse(command.to_string().as_bytes()).unwrap();
        assert_eq!(envelope.schema_version, Some(1));
        // A tool may have the command's other name.
        command["type"] = envelope.command.type_name().into();
        let mut read = serde_json::to_value(&envelope.command).unwrap();
        // What is left must have come from the call: nothing was lost on the way.
        read["schemaVersion"] = 1.into();
        for (field, value) in command.as_object().unwrap() {
            assert_eq!(&read[field], value, "{}: {field}", tool.name);
        }
    }
}

#[test]
fn what_is_for_the_main_group_is_offered_to_no_other() {
    for tool in TOOLS {
        let listed = super::listed(&place(Reach::Own)).iter().any(|listed| listed["name"] == tool.name);
        assert!(!listed || tool.whose == Reach::Own, "{}", tool.name);
    }
    let words = super::command("register_group", &json!({}), &place(Reach::Own)).unwrap_err();
    assert!(words.starts_with("there is no tool \"register_group\"; there are: send_message"), "{words}");
}

#[test]
fn arguments_that_are_wrong_are_answered_in_few_words() {
    let words_of = |reach: Reach, name: &str, arguments: Value| {
        let words = super::command(name, &arguments, &place(reach)).unwrap_err();
        assert!(words.len() < 400, "{words}");
        words
    };
    let words = |name: &str, arguments: Value| words_of(Reach::Own, name, arguments);
    assert!(words(&"x".repeat(1 << 20), json!({})).starts_with("there is no tool \"xxx"));
    assert!(words("send_message", json!([1])).contains("an object"));
    assert!(words_of(Reach::All, "refresh_groups", json!({"a": 1})).contains("it has: none"));
    assert!(
        words("send_message", json!({"text": "x".repeat(1 << 20)})).contains("write long text into a file")
    );
    let mut many = Map::new();
    many.insert("y".repeat(1 << 20), 1.into());
    assert!(words("send_message", many.into()).contains("it has: text, sender, reply_to"));
}

#[test]
fn the_chat_is_the_run_s_own_and_only_main_is_offered_another() {
    let said = command("send_message", &json!({"text": "hi"}), Reach::Own);
    assert_eq!((&said["chatJid"], &said["text"]), (&json!("local:kitchen"), &json!("hi")));
    let other = json!({"text": "hi", "chat_jid": "tg:1"});
    assert_eq!(command("send_message", &other, Reach::All)["chatJid"], "tg:1");
    let refused = super::command("send_message", &other, &place(Reach::Own)).unwrap_err();
    assert_eq!(refused, "send_message has no argument \"chat_jid\"; it has: text, sender, reply_to");
    let listed = listed("send_message", Reach::Own).to_string();
    assert!(!listed.contains("chat_jid"), "{listed}");
}

#[test]
fn a_task_runs_in_the_group_s_conversation_unless_it_says_otherwise() {
    let mut arguments = json!({"prompt": "p", "schedule_type": "cron", "schedule_value": "0 9 * * *"});
    assert_eq!(command("schedule_task", &arguments, Reach::Own)["context_mode"], "group");
    arguments["context_mode"] = "isolated".into();
    assert_eq!(command("schedule_task", &arguments, Reach::Own)["context_mode"], "isolated");
}

#[test]
fn descriptions_name_the_zone_and_schemas_what_is_required() {
    let listed = listed("schedule_task", Reach::Own);
    assert!(listed["description"].as_str().unwrap().contains("Europe/Berlin"));
    assert_eq!(listed["inputSchema"]["required"], json!(["prompt", "schedule_type", "schedule_value"]));
    assert_eq!(
        listed["inputSchema"]["properties"]["schedule_type"]["enum"],
        json!(["cron", "interval", "once"])
    );
    for tool in TOOLS {
        let description = tool.listed(&place(Reach::All))["description"].as_str().unwrap().to_owned();
        assert!(description.len() > 40 && !description.contains('{'), "{description}");
    }
}

#[test]
fn the_host_s_answer_and_its_refusal_reach_the_model() {
    let text = |json: Value| Reply::Text(json.to_string());
    assert_eq!(
        answer(&text(json!({"ok": true, "result": {"outboxId": 5}}))),
        Answer::Done(r#"Done: {"outboxId":5}"#.to_owned())
    );
    assert_eq!(answer(&text(json!({"ok": true, "result": {}}))), Answer::Done("Done.".to_owned()));
    let refusal =
        json!({"ok": false, "error": {"code": "not_found", "message": "no such task", "hint": "look"}});
    assert_eq!(
        answer(&text(refusal)),
        Answer::Refused("Refused (not_found): no such task. Hint: look".to_owned())
    );
    let late = Reply::TimedOut { request_id: "r".to_owned(), waited: Duration::from_secs(10) };
    let Answer::Refused(words) = answer(&late) else { panic!("no success") };
    assert!(words.contains("may have been applied") && words.contains("10000 ms"), "{words}");
}

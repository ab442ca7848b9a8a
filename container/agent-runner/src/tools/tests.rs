use std::time::Duration;

use ipc_handlers::commands::CATALOGUE;

use super::*;

fn place(reach: Reach) -> Place {
    Place { chat_jid: "local:kitchen".to_owned(), reach, zone: "Europe/Berlin".to_owned() }
}

fn command(name: &str, arguments: &Value, reach: Reach) -> Value {
    tool(name).unwrap().command(arguments, &place(reach)).unwrap()
}

#[test]
fn every_tool_is_a_command_in_the_order_of_the_catalogue() {
    let tools: Vec<_> = TOOLS.iter().map(|tool| tool.name).collect();
    let mut commands: Vec<_> = CATALOGUE.iter().map(|entry| entry.type_name).collect();
    commands.retain(|command| tools.contains(command));
    assert_eq!(tools, commands);
}

#[test]
fn every_field_of_a_tool_is_one_that_the_host_reads() {
    for tool in &TOOLS {
        let mut arguments = Map::new();
        for param in tool.params {
            let value = match (param.name, &param.kind) {
                ("schedule_value", _) => "3600000",
                ("schedule_type", _) => "interval",
                (_, Kind::Choice(choices)) => choices[choices.len() - 1],
                (_, Kind::Text) => "family",
            };
            arguments.insert(param.name.to_owned(), value.into());
        }
        let command = command(tool.name, &arguments.into(), Reach::All);
        let envelope = ipc_handlers::parse(command.to_string().as_bytes()).unwrap();
        assert!(envelope.request_id.is_some());
        let mut read = serde_json::to_value(&envelope.command).unwrap();
        // What is left must have come from the call: nothing was lost on the way.
        read["requestId"] = command["requestId"].clone();
        for (field, value) in command.as_object().unwrap() {
            assert_eq!(&read[field], value, "{}: {field}", tool.name);
        }
    }
}

#[test]
fn the_chat_is_the_run_s_own_and_only_main_is_offered_another() {
    let said = command("send_message", &json!({"text": "hi"}), Reach::Own);
    assert_eq!((&said["chatJid"], &said["text"]), (&json!("local:kitchen"), &json!("hi")));
    let other = json!({"text": "hi", "chat_jid": "tg:1"});
    assert_eq!(command("send_message", &other, Reach::All)["chatJid"], "tg:1");
    let refused = tool("send_message").unwrap().command(&other, &place(Reach::Own)).unwrap_err();
    assert_eq!(refused, "send_message has no argument \"chat_jid\"; it has: text, sender, reply_to");
    let listed = tool("send_message").unwrap().listed(&place(Reach::Own)).to_string();
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
    let listed = tool("schedule_task").unwrap().listed(&place(Reach::Own));
    assert!(listed["description"].as_str().unwrap().contains("Europe/Berlin"));
    assert_eq!(listed["inputSchema"]["required"], json!(["prompt", "schedule_type", "schedule_value"]));
    assert_eq!(
        listed["inputSchema"]["properties"]["schedule_type"]["enum"],
        json!(["cron", "interval", "once"])
    );
    for tool in &TOOLS {
        let listed = tool.listed(&place(Reach::All));
        assert!(listed["description"].as_str().unwrap().len() > 40, "{listed}");
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
    assert!(words.contains("may have been applied"), "{words}");
}

//! What both CLIs must pass.

use std::fs;

use ipc_handlers::wire::{Kind, Record, Status};
use serde_json::{Value, json};

use super::{
    cli::{Cli, Stage},
    with_both,
};
use crate::fixture::{Runner, go_on, wait_until};

with_both! {
    turns_are_answered_and_the_session_is_gone_on_with
    a_session_that_is_not_known_is_dropped_and_the_message_is_answered
    what_people_write_is_never_a_command_and_never_attaches_a_file
    what_comes_while_a_tool_runs_joins_the_turn_and_is_no_command_either
    a_tool_call_becomes_a_command_and_the_model_is_told_the_host_s_answer
    a_tool_that_runs_is_shown_with_its_timeout_and_a_blocked_one_is_refused
    the_cli_s_own_question_is_asked_in_the_chat
    errors_of_the_api_are_told_apart_and_never_said
    silence_before_and_in_the_middle_of_an_answer_is_told_apart
    background_work_defers_the_end_of_the_run
    a_conversation_that_is_shortened_is_archived_first
    the_agent_s_own_settings_do_not_take_our_hooks_away
    settings_that_the_agent_writes_do_not_take_our_hooks_away
    secrets_reach_the_cli_and_not_its_commands
    what_is_said_between_tools_is_not_sent_and_the_last_word_is_sent_once
    a_task_ends_with_a_record_without_text
    another_version_than_the_one_asked_for_does_not_start
}

fn bash(command: &str) -> Value {
    json!({"tool_use": {"name": "Bash", "input": {"command": command, "timeout": 50_000}}})
}

/// Passes over records that are neither an answer nor an error.
fn next(runner: &Runner) -> Record {
    loop {
        let record = runner.record();
        if record.kind != Kind::Progress {
            return record;
        }
    }
}

/// Returns the kind of the error that ends the run; nothing may have been said before.
fn failure(runner: Runner) -> String {
    let record = next(&runner);
    assert_eq!((record.status, &record.result), (Status::Error, &None), "{record:?}");
    assert_eq!(runner.end().code(), Some(1));
    let error = record.error.unwrap();
    error.strip_prefix("claude/").unwrap_or_else(|| panic!("{error}")).split_once(':').unwrap().0.to_owned()
}

fn turns_are_answered_and_the_session_is_gone_on_with(cli: &Cli) {
    let stage = Stage::new(cli, &json!(["one", "two", "three"]));
    let runner = stage.run("a").ready();
    // Before the first answer, so that what is asked for during it can be about this conversation.
    let named = runner.any_record();
    assert_eq!((named.kind, named.result), (Kind::Ready, None));
    let first = next(&runner);
    assert_eq!(named.new_session_id, first.new_session_id);
    assert_eq!((first.result.as_deref(), &first.handled[..]), (Some("one"), &["1".to_owned()][..]));
    let session = first.new_session_id.unwrap();
    wait_until("a heartbeat", || stage.home.path("ipc/state/heartbeat").exists());
    stage.home.follow_up("2", "b");
    runner.says("two", &["2"]);
    stage.home.close();
    assert!(runner.end().success());
    assert_eq!(stage.home.names("ipc/input"), [""; 0]);
    let runner = stage.run_with("c", |launch| go_on(launch, &session)).ready();
    let third = next(&runner);
    assert_eq!((third.result.as_deref(), third.new_session_id), (Some("three"), Some(session)));
    stage.home.close();
    assert!(runner.end().success());
    assert!(!stage.seen()[2].contains("said before"), "{:?}", stage.seen());
    assert!(stage.requests()[2]["messages"].as_u64() >= Some(4), "{:?}", stage.requests());
}

fn a_session_that_is_not_known_is_dropped_and_the_message_is_answered(cli: &Cli) {
    for unknown in ["00000000-0000-4000-8000-000000000000", "scripted-7"] {
        let stage = Stage::new(cli, &json!(["hello"]));
        let runner = stage.run_with("a", |launch| go_on(launch, unknown));
        assert_eq!(runner.record().kind, Kind::Ready);
        let dropped = runner.record();
        assert_eq!(dropped.kind, Kind::Progress);
        assert!(dropped.result.unwrap().contains(unknown));
        let record = next(&runner);
        assert_eq!((record.result.as_deref(), &record.handled[..]), (Some("hello"), &["1".to_owned()][..]));
        assert_ne!(record.new_session_id.unwrap(), unknown);
        assert_eq!(stage.seen().len(), 1);
        assert!(stage.seen()[0].contains("said before"), "{:?}", stage.seen());
    }
}

fn what_people_write_is_never_a_command_and_never_attaches_a_file(cli: &Cli) {
    for text in ["/clear", "/compact", "/nosuchcommand hi", "@/etc/passwd"] {
        let stage = Stage::new(cli, &json!(["seen"]));
        // A prompt is not always wrapped: a task's is not.
        let runner = stage.run_with("", |launch| launch["prompt"] = text.into()).ready();
        runner.says("seen", &["1"]);
        let seen = stage.seen().join("");
        assert!(seen.contains(text), "{seen}");
        assert!(!seen.contains("root:") && !seen.contains("ATTACHED"), "{seen}");
    }
}

fn what_comes_while_a_tool_runs_joins_the_turn_and_is_no_command_either(cli: &Cli) {
    let stage = Stage::new(
        cli,
        &json!([bash("until [ -e go ] || [ ! -d $PWD ]; do sleep 0.05; done; echo ran"), "after"]),
    );
    let runner = stage.run("first").ready();
    stage.tool(Some("Bash"));
    for (id, text) in [("2", "/clear"), ("3", "@/etc/passwd")] {
        stage.home.put(
            &format!("ipc/input/{id}.json"),
            json!({"type": "message", "id": id, "text": text}).to_string(),
        );
        wait_until("the claim", || stage.home.path(format!("ipc/input/{id}.claimed")).exists());
    }
    stage.home.put("group/go", "");
    let mut handled = Vec::new();
    // Whether the last one was in time is the machine's business; that each is answered is ours.
    while handled.len() < 3 {
        let record = next(&runner);
        assert_eq!(record.status, Status::Success, "{record:?}");
        handled.extend(record.handled);
    }
    assert_eq!(handled, ["1", "2", "3"]);
    let seen = stage.seen().join("\n");
    assert!(seen.contains("/clear") && seen.contains("@/etc/passwd"), "{seen}");
    assert!(!seen.contains("root:") && !seen.contains("ATTACHED"), "{seen}");
}

fn a_tool_call_becomes_a_command_and_the_model_is_told_the_host_s_answer(cli: &Cli) {
    let say = |text: &str| json!({"tool_use": {"name": "mcp__g2__send_message", "input": {"text": text}}});
    let cancel = json!({"tool_use": {"name": "mcp__g2__cancel_task", "input": {"task_id": "task-1"}}});
    let stage = Stage::new(cli, &json!([say("on it"), cancel, say("late"), "done"]));
    let runner = stage.run_with("a", |launch| launch["limits"]["replyTimeoutMs"] = 5000.into()).ready();
    let command = stage.answer(&json!({"ok": true, "result": {"outboxId": 5}}));
    assert_eq!(
        (&command["type"], &command["chatJid"], &command["text"]),
        (&json!("send_message"), &json!("local:kitchen"), &json!("on it"))
    );
    let refusal = json!({"ok": false, "error": {"code": "not_found", "message": "no task \"task-1\"", "hint": "look again"}});
    assert_eq!(stage.answer(&refusal)["taskId"], "task-1");
    runner.says("done", &["1"]);
    let told = stage.requests();
    let told = |n: usize| {
        let of_tool = &told[n]["tool_results"][0];
        let text = of_tool["text"].as_str().or(told[n]["new"].as_str()).unwrap();
        (text.to_owned(), of_tool["is_error"].as_bool())
    };
    let (sent, failed) = told(1);
    assert!(sent.contains(r#"{"outboxId":5}"#) && failed != Some(true), "{sent}");
    let (refused, failed) = told(2);
    assert!(refused.contains("Refused (not_found): no task \"task-1\". Hint: look again"), "{refused}");
    assert!(failed != Some(false));
    assert!(told(3).0.contains("may have been applied"), "{}", told(3).0);
}

fn a_tool_that_runs_is_shown_with_its_timeout_and_a_blocked_one_is_refused(cli: &Cli) {
    let blocked = json!({"tool_use": {"name": "AskUserQuestion", "input": {"questions": []}}});
    let stage = Stage::new(
        cli,
        &json!([bash("until [ -e go ] || [ ! -d $PWD ]; do sleep 0.05; done; exit 3"), blocked, "done"]),
    );
    let runner = stage.run("a").ready();
    let state = stage.tool(Some("Bash"));
    assert_eq!(state["tool_declared_timeout_ms"], 50_000);
    assert!(state["tool_started_at"].as_i64() > Some(0));
    stage.home.put("group/go", "");
    let record = next(&runner);
    assert_eq!((record.kind, record.result.as_deref()), (Kind::Result, Some("done")));
    stage.tool(None);
}

fn the_cli_s_own_question_is_asked_in_the_chat(cli: &Cli) {
    let question = json!({"question": "Which hotel?", "header": "Hotel", "multiSelect": false, "options": [
        {"label": "Ibis", "description": "cheap"}, {"label": "Hilton", "description": "dear"}]});
    let asks = json!({"tool_use": {"name": "AskUserQuestion", "input": {"questions": [question]}}});
    let stage = Stage::new(cli, &json!([asks, "I have asked"]));
    let runner = stage.run("a").ready();
    let command = stage.answer(&json!({"ok": true, "result": {"questionId": 5}}));
    assert_eq!(
        (&command["type"], &command["question"], &command["options"]),
        (
            &json!("ask_user"),
            &json!("Which hotel?\n- Ibis: cheap\n- Hilton: dear"),
            &json!(["Ibis", "Hilton"])
        )
    );
    runner.says("I have asked", &["1"]);
    let told = &stage.requests()[1];
    let of_tool = &told["tool_results"][0];
    let text = of_tool["text"].as_str().or(told["new"].as_str()).unwrap();
    assert!(text.contains("This was asked in the chat"), "{told}");
}

fn errors_of_the_api_are_told_apart_and_never_said(cli: &Cli) {
    for (status, kind, waits) in [
        (401, "authentication", Some(())),
        (400, "invalid_request", None),
        (429, "rate_limit", Some(())),
        (500, "server_error", Some(())),
        (529, "overloaded", Some(())),
    ] {
        let stage = Stage::new(cli, &json!([{"status": status, "times": -1}]));
        let runner = stage.run("a").ready();
        if waits.is_some() {
            let wait = runner.record();
            assert_eq!(wait.kind, Kind::Progress);
            let words = wait.result.unwrap();
            assert!(words.contains("waiting") && words.contains(&status.to_string()), "{words}");
        }
        assert_eq!(failure(runner), kind, "{status}");
        assert_eq!(stage.home.names("ipc/messages"), [""; 0]);
    }
}

fn silence_before_and_in_the_middle_of_an_answer_is_told_apart(cli: &Cli) {
    for (turn, kind) in [
        (json!({"hang": 600}), "stalled_before_answer"),
        (json!({"text": "one two three", "hang_mid": 600}), "stalled_mid_answer"),
    ] {
        let stage = Stage::new(cli, &json!([turn])).with(|provider| provider["stallTimeoutMs"] = 8000.into());
        assert_eq!(failure(stage.run("a").ready()), kind);
    }
}

fn background_work_defers_the_end_of_the_run(cli: &Cli) {
    let work = json!({"tool_use": {"name": "Bash", "input": {"command": "until [ -e go ] || [ ! -d $PWD ]; do sleep 0.05; done", "run_in_background": true}}});
    let stage = Stage::new(cli, &json!([work, "started", "it is done"]));
    let runner = stage.run("a").ready();
    runner.says("started", &[]);
    let deferred = next(&runner);
    assert_eq!((deferred.kind, &deferred.handled[..]), (Kind::Deferred, &["1".to_owned()][..]));
    wait_until("the batch is gone", || stage.home.names("ipc/input").is_empty());
    stage.home.put("group/go", "");
    runner.says("it is done", &[]);
    stage.home.close();
    assert!(runner.end().success());
}

fn a_conversation_that_is_shortened_is_archived_first(cli: &Cli) {
    let full = json!({"text": "a long story", "usage": {"input_tokens": 190_000}});
    let stage = Stage::new(cli, &json!(["short", full, "after"])).with(|provider| {
        provider["env"]["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = "200000".into();
        // The real one's default model has room for more.
        provider["model"] = "claude-sonnet-4-5".into();
    });
    let runner = stage.run("tell me").ready();
    runner.says("short", &["1"]);
    stage.home.follow_up("2", "more");
    runner.says("a long story", &["2"]);
    stage.home.follow_up("3", "go on");
    let archived = stage
        .answer(&json!({"ok": false, "error": {"code": "unknown_command", "message": "m", "hint": "h"}}));
    assert_eq!(archived["type"], "archive_session");
    let page = archived["content"].as_str().unwrap();
    assert!(page.contains("**G2**: a long story") && page.contains("tell me"), "{page}");
    runner.says("after", &["3"]);
    let names = stage.home.names("group/conversations");
    assert_eq!(names.len(), 1);
    assert!(names[0].ends_with(".md") && names[0].contains("conversation-"), "{names:?}");
    assert_eq!(
        fs::read_to_string(stage.home.path(format!("group/conversations/{}", names[0]))).unwrap(),
        page
    );
}

fn the_agent_s_own_settings_do_not_take_our_hooks_away(cli: &Cli) {
    let settings = json!({"disableAllHooks": true, "env": {"FROM_SETTINGS": "yes"}}).to_string();
    for sources in [json!([]), json!(["user", "project", "local"])] {
        let stage = Stage::new(
            cli,
            &json!([
                bash("until [ -e go ] || [ ! -d $PWD ]; do sleep 0.05; done; echo \"<$FROM_SETTINGS>\""),
                "done"
            ]),
        )
        .with(|provider| provider["settingSources"] = sources.clone());
        for (folder, file) in [
            ("group/.claude", "settings.json"),
            ("group/.claude", "settings.local.json"),
            ("home/.claude", "settings.json"),
        ] {
            fs::create_dir_all(stage.home.path(folder)).unwrap();
            stage.home.put(&format!("{folder}/{file}"), &settings);
        }
        let runner = stage.run("a").ready();
        stage.tool(Some("Bash"));
        stage.home.put("group/go", "");
        runner.says("done", &["1"]);
        if sources == json!([]) {
            let told = stage.requests()[1].to_string();
            assert!(told.contains("<>"), "{told}");
        }
    }
}

fn secrets_reach_the_cli_and_not_its_commands(cli: &Cli) {
    let show = "echo \"<${ANTHROPIC_API_KEY-unset} ${AWS_SECRET-unset}>\"";
    let environ = "tr '\\0' '\\n' </proc/$PPID/environ | grep -c sk-real";
    let background = json!({"tool_use": {"name": "Bash", "input": {"command": format!("{show} >seen; : >ran"), "run_in_background": true}}});
    let wait = bash("until [ -e ran ]; do :; done; cat seen");
    let script = json!([bash(show), bash(environ), background, wait, "done", "and woken"]);
    let stage = Stage::with_key(cli, &script, Some("sk-real"));
    let runner = stage.run_with("a", |launch| {
        launch["secrets"] = json!({"ANTHROPIC_API_KEY": "sk-real", "AWS_SECRET": "aws-real"});
    });
    let record = next(&runner.ready());
    assert_eq!(record.status, Status::Success, "{record:?}");
    let told = stage.seen().join("\n");
    assert!(told.contains("<unset unset>") && !told.contains("aws-real"), "{told}");
    assert_eq!(fs::read_to_string(stage.home.path("group/seen")).unwrap().trim(), "<unset unset>");
}

fn what_is_said_between_tools_is_not_sent_and_the_last_word_is_sent_once(cli: &Cli) {
    let work = json!({"text": "let me look", "tool_use": {"name": "Bash", "input": {"command": "echo ran"}}});
    let stage = Stage::new(cli, &json!([work, work, "here it is"]));
    let runner = stage.run("a").ready();
    runner.says("here it is", &["1"]);
    stage.home.close();
    assert!(runner.end().success());
}

fn settings_that_the_agent_writes_do_not_take_our_hooks_away(cli: &Cli) {
    let write = "mkdir -p .claude && echo '{\"disableAllHooks\":true}' | tee .claude/settings.json .claude/settings.local.json >\"$CLAUDE_CONFIG_DIR/settings.json\"";
    let wait = bash("until [ -e go ] || [ ! -d $PWD ]; do sleep 0.05; done; rm go");
    let stage = Stage::new(cli, &json!([bash(write), wait, "one", wait, "two"]));
    let mut session = None;
    for (prompt, answer) in [("a", "one"), ("b", "two")] {
        let runner = stage.run_with(prompt, |launch| launch["sessionId"] = json!(session)).ready();
        wait_until("the settings", || stage.home.path("home/.claude/settings.json").exists());
        stage.tool(Some("Bash"));
        stage.home.put("group/go", "");
        let record = next(&runner);
        assert_eq!(record.result.as_deref(), Some(answer));
        stage.tool(None);
        session = record.new_session_id;
        stage.home.close();
        assert!(runner.end().success());
    }
}

fn a_task_ends_with_a_record_without_text(cli: &Cli) {
    let stage = Stage::new(cli, &json!(["watered"]));
    let runner = stage
        .run_with("", |launch| {
            launch["prompt"] = "water the plants".into();
            launch["isScheduledTask"] = true.into();
            launch["batchId"] = "".into();
        })
        .ready();
    runner.says("watered", &[]);
    assert_eq!(runner.result(), (None, vec![]));
    assert!(stage.seen()[0].contains("[SCHEDULED TASK"), "{:?}", stage.seen());
    stage.home.close();
    assert!(runner.end().success());
}

fn another_version_than_the_one_asked_for_does_not_start(cli: &Cli) {
    let stage = Stage::new(cli, &json!([])).with(|provider| provider["version"] = "0.0.1".into());
    let runner = stage.run("a");
    assert_eq!(failure(runner), "version");
}

//! The provider `acp`: one suite with an agent of our own and, where it can be had, with Claude Code's adapter in front of a
//! scripted model.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use ipc_handlers::wire::{Kind, Record, Status};
use serde_json::{Value, json};

use crate::{
    claude::{
        cli::{Cli, Stage},
        servers::{server, until_said},
    },
    fixture::{Runner, go_on, wait_until},
};

/// Which agent.
#[derive(Clone, Debug)]
enum Agent {
    Ours,
    /// Where Claude Code's adapter is.
    Adapter(PathBuf),
}

/// Runs each test with both.
macro_rules! with_both {
    ($($test:ident)*) => {
        mod ours {
            $(#[test] fn $test() { super::$test(&super::Agent::Ours); })*
        }
        mod adapter {
            $(#[test] fn $test() {
                if let Some(agent) = super::Agent::adapter() { super::$test(&agent); }
            })*
        }
    };
}

with_both! {
    turns_are_answered_and_the_session_is_gone_on_with
    a_session_that_is_not_known_is_dropped_and_the_message_is_answered
    a_tool_call_becomes_a_command_and_the_model_is_told_the_host_s_answer
    a_tool_that_runs_is_shown
    a_tool_that_the_rules_refuse_does_not_run
    what_is_said_between_tools_is_not_sent_unless_it_is_wanted
    an_agent_that_is_silent_is_asked_to_stop
    a_task_ends_with_a_record_without_text
    a_tool_server_of_the_group_is_called
}

impl Agent {
    /// Returns Claude Code's adapter from below `target/peers`, where `peers.sh` puts it, or from `G2_ACP_PEERS`; says so where
    /// it is not there, unless `G2_REQUIRE_ACP=1`.
    fn adapter() -> Option<Self> {
        let target = Path::new(env!("CARGO_BIN_EXE_g2-agent")).ancestors().nth(2).unwrap();
        let peers = env::var_os("G2_ACP_PEERS").map_or_else(|| target.join("peers/acp"), PathBuf::from);
        let program = peers.join("node_modules/.bin/claude-code-acp");
        if program.exists() && Cli::real().is_some() {
            return Some(Self::Adapter(program));
        }
        assert!(env::var_os("G2_REQUIRE_ACP").is_none(), "{} is required", program.display());
        eprintln!("SKIPPED: {} is not there; src/adapters/tests/peers.sh installs it", program.display());
        None
    }

    /// A stage whose model gives the answers of `script`.
    fn stage(&self, script: &Value) -> Stage {
        self.stage_with(script, |_| {})
    }

    fn stage_with(&self, script: &Value, change: impl FnOnce(&mut Value)) -> Stage {
        let cli = match self {
            Self::Ours => Cli::fake(),
            Self::Adapter(_) => Cli::real().unwrap(),
        };
        Stage::new(&cli, script).with(|provider| {
            let mut env = provider["env"].clone();
            let command = match self {
                Self::Ours => {
                    let fake = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/fake_acp.py");
                    json!(["python3", fake])
                }
                Self::Adapter(program) => {
                    env["ANTHROPIC_BASE_URL"] = provider["baseUrl"].clone();
                    env["ANTHROPIC_API_KEY"] = "placeholder".into();
                    env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1".into();
                    env["ENABLE_TOOL_SEARCH"] = "false".into();
                    json!([program])
                }
            };
            *provider = json!({"name": "acp", "command": command, "env": env, "timezone": "Europe/Berlin"});
            change(provider);
        })
    }
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

/// Returns the error that ends the run; nothing may have been said before.
fn failure(runner: Runner) -> String {
    let record = next(&runner);
    assert_eq!((record.status, &record.result), (Status::Error, &None), "{record:?}");
    assert_eq!(runner.end().code(), Some(1));
    record.error.unwrap()
}

fn turns_are_answered_and_the_session_is_gone_on_with(agent: &Agent) {
    let stage = agent.stage(&json!(["one", "two", "three"]));
    let runner = stage.run("a").ready();
    let first = next(&runner);
    assert_eq!((first.result.as_deref(), &first.handled[..]), (Some("one"), &["1".to_owned()][..]));
    let session = first.new_session_id.expect("a session that a later run can go on with");
    wait_until("a heartbeat", || stage.home.path("ipc/state/heartbeat").exists());
    stage.home.follow_up("2", "b");
    runner.says("two", &["2"]);
    stage.home.close();
    assert!(runner.end().success());
    assert_eq!(stage.home.names("ipc/input"), [""; 0]);
    let stage = stage.with(|provider| provider["env"]["FAKE_SKIP"] = "2".into());
    let runner = stage.run_with("c", |launch| go_on(launch, &session)).ready();
    let third = next(&runner);
    assert_eq!((third.result.as_deref(), third.new_session_id), (Some("three"), Some(session)));
    stage.home.close();
    assert!(runner.end().success());
    let seen = stage.seen();
    let last = seen.last().unwrap();
    assert!(
        last.contains(">a</message>") && !last.contains("said before"),
        "the conversation is whole: {seen:?}"
    );
}

fn a_session_that_is_not_known_is_dropped_and_the_message_is_answered(agent: &Agent) {
    let stage = agent.stage(&json!(["fresh"]));
    let unknown = "6e1b7a4c-4c43-4b5e-9d39-0f6f1f2a7c11";
    let runner = stage.run_with("a", |launch| go_on(launch, unknown)).ready();
    let answer = next(&runner);
    assert_eq!((answer.result.as_deref(), &answer.handled[..]), (Some("fresh"), &["1".to_owned()][..]));
    assert_ne!(answer.new_session_id.as_deref(), Some(unknown));
    assert!(stage.seen().last().unwrap().contains("said before"), "{:?}", stage.seen());
}

fn a_tool_call_becomes_a_command_and_the_model_is_told_the_host_s_answer(agent: &Agent) {
    let call = json!({"tool_use": {"name": "mcp__g2__cancel_task", "input": {"task_id": "t"}}});
    let stage = agent.stage(&json!([call, "done"]));
    let runner = stage.run("a").ready();
    let refusal = json!({"code": "not_found", "message": "no such task", "hint": "look"});
    let command = stage.answer(&json!({"ok": false, "error": refusal}));
    assert_eq!((&command["type"], &command["taskId"]), (&json!("cancel_task"), &json!("t")));
    assert_eq!(next(&runner).result.as_deref(), Some("done"));
    assert!(stage.seen().last().unwrap().contains("no such task"), "{:?}", stage.seen());
}

fn a_tool_that_runs_is_shown(agent: &Agent) {
    let stage = agent.stage(&json!([bash("until [ -e go ]; do sleep 0.05; done; echo DONE-IT"), "done"]));
    let runner = stage.run("a").ready();
    let shown = stage.tool(Some("Bash"));
    assert_eq!(shown["current_tool"], "Bash");
    // The session is named in a record of its own.
    let named =
        std::iter::repeat_with(|| runner.any_record()).find(|record| record.kind != Kind::Ready).unwrap();
    assert_eq!((named.kind, named.tool.as_deref()), (Kind::Progress, Some("Bash")), "{named:?}");
    fs::write(stage.home.path("group/go"), "").unwrap();
    runner.says("done", &["1"]);
    assert!(stage.seen().last().unwrap().contains("DONE-IT"));
    stage.tool(None);
}

fn a_tool_that_the_rules_refuse_does_not_run(agent: &Agent) {
    for refuse in ["execute", "Bash"] {
        let script = json!([bash("touch it-ran"), "done"]);
        let stage = agent.stage_with(&script, |provider| provider["refuse"] = json!([refuse]));
        let runner = stage.run("a").ready();
        let mut told = false;
        loop {
            let record = runner.record();
            match record.kind {
                Kind::Progress => told |= record.result.unwrap_or_default().contains("was refused"),
                Kind::Result => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(told && !stage.home.path("group/it-ran").exists(), "{refuse}");
    }
}

fn what_is_said_between_tools_is_not_sent_unless_it_is_wanted(agent: &Agent) {
    let mut look = bash("true");
    look["text"] = "I look".into();
    let script = json!([look, "done"]);
    let stage = agent.stage(&script);
    stage.run("a").ready().says("done", &["1"]);
    let stage = agent.stage(&script);
    let runner = stage.run_with("a", |launch| launch["say"] = "texts".into()).ready();
    let texts = [next(&runner), next(&runner)].map(|record| record.result);
    assert_eq!(texts, [Some("I look".to_owned()), Some("done".to_owned())]);
}

fn an_agent_that_is_silent_is_asked_to_stop(agent: &Agent) {
    let script = json!([{"hang": 600}]);
    let stage = agent.stage_with(&script, |provider| provider["stallTimeoutMs"] = 3000.into());
    let error = failure(stage.run("a").ready());
    assert!(error.starts_with("acp/stalled: "), "{error}");
}

fn a_task_ends_with_a_record_without_text(agent: &Agent) {
    let stage = agent.stage(&json!(["watered"]));
    let runner = stage
        .run_with("water", |launch| {
            launch["isScheduledTask"] = true.into();
            launch["batchId"] = "".into();
        })
        .ready();
    assert_eq!(next(&runner).result.as_deref(), Some("watered"));
    assert_eq!(next(&runner).result, None);
}

/// What goes wrong with our own agent, and the words for it.
#[test]
fn errors_are_told_apart() {
    let ours = Agent::Ours;
    let fault =
        |fault: &'static str| move |provider: &mut Value| provider["env"]["FAKE_FAULT"] = fault.into();
    let error = |script: Value, fault_is: &'static str| {
        let stage = ours.stage_with(&script, fault(fault_is));
        failure(stage.run("a").ready())
    };
    let overloaded =
        json!({"error": {"code": -32603, "message": "Internal error", "data": {"details": "overloaded"}}});
    for (script, fault, words) in [
        (json!([overloaded]), "", "acp/agent: Internal error: overloaded"),
        (json!([{"text": "I won't", "stop": "refusal"}]), "", "acp/refusal: I won't"),
        (json!([{"stop": "max_tokens"}]), "", "acp/max_tokens: "),
        (json!([{"text": "x", "stop": "cancelled"}]), "", "acp/cancelled: "),
        (json!(["x"]), "dies", "acp/exited: "),
    ] {
        let error = error(script, fault);
        assert!(error.starts_with(words), "{words}: {error}");
    }
    for (fault, words) in
        [("auth", "acp/authentication: "), ("version", "acp/protocol: the agent speaks version 9")]
    {
        let stage = ours.stage_with(&json!(["x"]), |provider| provider["env"]["FAKE_FAULT"] = fault.into());
        let error = failure(stage.run("a"));
        assert!(error.starts_with(words), "{words}: {error}");
        assert!(fault != "auth" || error.contains("auth_method = by-key"), "{error}");
    }
    let stage = ours.stage_with(&json!(["x"]), |provider| provider["command"] = json!(["/nowhere/agent"]));
    let error = failure(stage.run("a"));
    assert!(error.starts_with("acp/start: starting /nowhere/agent failed"), "{error}");
}

#[test]
fn an_agent_is_logged_in_as_the_settings_say() {
    let stage = Agent::Ours.stage_with(&json!(["in"]), |provider| {
        provider["env"]["FAKE_FAULT"] = "auth".into();
        provider["authMethod"] = "by-key".into();
    });
    stage.run("a").ready().says("in", &["1"]);
}

#[test]
fn an_agent_without_sessions_begins_anew_and_lines_that_are_none_are_passed_over() {
    let stage =
        Agent::Ours.stage_with(&json!(["a"]), |provider| provider["env"]["FAKE_FAULT"] = "no_load".into());
    let runner = stage.run_with("a", |launch| go_on(launch, "s")).ready();
    let answer = next(&runner);
    assert_eq!(answer.result.as_deref(), Some("a"));
    // The host knows by it that there is a conversation, of which it gives a summary.
    assert!(answer.new_session_id.is_some_and(|id| id != "s"));
    assert!(stage.seen().last().unwrap().contains("said before"), "{:?}", stage.seen());
    let stage =
        Agent::Ours.stage_with(&json!(["b"]), |provider| provider["env"]["FAKE_FAULT"] = "garbage".into());
    stage.run("a").ready().says("b", &["1"]);
}

#[test]
fn a_refused_tool_that_runs_all_the_same_is_told() {
    let script = json!([bash("true"), "done"]);
    let stage = Agent::Ours.stage_with(&script, |provider| {
        provider["env"]["FAKE_FAULT"] = "rude".into();
        provider["refuse"] = json!(["Bash"]);
    });
    let runner = stage.run("a").ready();
    let told = next(&runner);
    assert_eq!((told.kind, told.result.as_deref()), (Kind::BlockedTool, Some("Bash")));
    assert_eq!(next(&runner).result.as_deref(), Some("done"));
}

fn a_tool_server_of_the_group_is_called(agent: &Agent) {
    let call = json!({"tool_use": {"name": "mcp__weather__forecast", "input": {"city": "Rome"}}});
    let stage = agent.stage(&json!([call, "sunny"]));
    let runner = stage
        .run_with("a", |launch| {
            launch["mcpServers"] = json!({"weather": server(""), "lacking": server("")});
            launch["mcpServers"]["lacking"]["env"] = json!({"A": "${NOT_THERE}"});
            launch["mcpSecrets"] = json!({"WEATHER_TOKEN": "sk-weather"});
        })
        .ready();
    let (tools, notes, said) = until_said(&runner);
    assert_eq!(said.result.as_deref(), Some("sunny"), "{said:?}");
    assert_eq!(tools, ["mcp__weather__forecast"]);
    assert_eq!(notes, ["the tool server lacking is left out: .env has no NOT_THERE"]);
    assert!(stage.seen()[1].contains("sunny in Rome, by sk-weather"), "{:?}", stage.seen());
}

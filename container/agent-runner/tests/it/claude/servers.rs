//! Tool servers (MCP) of a group's own, with both CLIs.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use ipc_handlers::wire::{Kind, Record};
use serde_json::{Value, json};

use super::{
    cli::{Cli, Is, Stage},
    with_both,
};
use crate::fixture::Runner;

with_both! {
    a_server_of_the_group_is_called_and_its_secret_stands_in_no_argument
    a_server_without_its_secret_is_left_out_and_said
    servers_that_do_not_work_are_said_and_the_agent_works_on
}

/// A server that goes wrong in this way, or not at all.
pub(crate) fn server(fault: &str) -> Value {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/mcp_server.py");
    json!({"type": "stdio", "command": "python3", "args": [program, fault], "env": {"WEATHER_TOKEN": "${WEATHER_TOKEN}"}})
}

/// Returns the tools and the notes that records name, up to the first answer, and that.
pub(crate) fn until_said(runner: &Runner) -> (Vec<String>, Vec<String>, Record) {
    let (mut tools, mut notes) = (Vec::new(), Vec::new());
    loop {
        let record = runner.any_record();
        if record.kind == Kind::Ready {
            continue;
        }
        if record.kind != Kind::Progress {
            return (tools, notes, record);
        }
        tools.extend(record.tool);
        notes.extend(record.result);
    }
}

fn stage(cli: &Cli, script: &Value) -> Stage {
    let stage = Stage::new(cli, script);
    let temporary = stage.home.path("tmp");
    fs::create_dir_all(&temporary).unwrap();
    stage.with(|provider| {
        provider["env"]["TMPDIR"] = temporary.to_str().into();
        provider["env"]["MCP_TIMEOUT"] = "4000".into();
    })
}

fn a_server_of_the_group_is_called_and_its_secret_stands_in_no_argument(cli: &Cli) {
    let call = json!({"tool_use": {"name": "mcp__weather__forecast", "input": {"city": "Rome"}}});
    let stage = stage(cli, &json!([call, "sunny"]));
    let runner = stage
        .run_with("a", |launch| {
            launch["mcpServers"] = json!({"weather": server("")});
            launch["mcpSecrets"] = json!({"WEATHER_TOKEN": "sk-weather"});
        })
        .ready();
    let (tools, notes, said) = until_said(&runner);
    assert_eq!(said.result.as_deref(), Some("sunny"), "{said:?}");
    assert_eq!((tools, notes), (vec!["mcp__weather__forecast".to_owned()], Vec::new()));
    assert!(stage.seen()[1].contains("sunny in Rome, by sk-weather"), "{:?}", stage.seen());
    let parent = String::from_utf8(fs::read(stage.home.path("group/parent")).unwrap()).unwrap();
    assert!(!parent.contains("sk-weather") && parent.contains("--mcp-config"), "{parent}");
    let files =
        || stage.home.names("tmp").into_iter().filter(|name| name.starts_with("g2-mcp-")).collect::<Vec<_>>();
    use std::os::unix::fs::PermissionsExt as _;
    let file = stage.home.path(format!("tmp/{}", files()[0]));
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    stage.home.close();
    assert!(runner.end().success());
    assert_eq!(files(), [""; 0], "the file with the secret is gone");
}

fn a_server_without_its_secret_is_left_out_and_said(cli: &Cli) {
    let stage = stage(cli, &json!(["done"]));
    let runner = stage.run_with("a", |launch| launch["mcpServers"] = json!({"weather": server("")})).ready();
    let (_, notes, said) = until_said(&runner);
    assert_eq!(said.result.as_deref(), Some("done"));
    assert_eq!(notes, ["the tool server weather is left out: .env has no WEATHER_TOKEN"]);
    assert!(!stage.home.path("group/parent").exists(), "it was not started");
}

/// A server over HTTP that is a proxy, too: a name that nobody knows leads to it by the proxy alone.
struct Http(Child, u64);

impl Http {
    fn start() -> Self {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/mcp_http.py");
        let mut child = Command::new("python3").arg(program).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self(child, line.trim().parse().unwrap())
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_outside_is_reached_by_the_proxy_with_its_header() {
    let Some(cli) = Cli::real() else { return };
    let call = json!({"tool_use": {"name": "mcp__docs__find", "input": {"what": "it"}}});
    let stage = stage(&cli, &json!([call, "found"]));
    let http = Http::start();
    let proxy = format!("http://127.0.0.1:{}", http.1);
    let stage = stage.with(|provider| {
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"] {
            provider["env"][name] = proxy.as_str().into();
        }
        for name in ["NO_PROXY", "no_proxy"] {
            provider["env"][name] = "localhost,127.0.0.1,::1,model".into();
        }
    });
    let headers = json!({"Authorization": "Bearer ${DOCS_TOKEN}"});
    let runner = stage
        .run_with("a", |launch| {
            launch["mcpServers"] =
                json!({"docs": {"type": "http", "url": "http://docs.example/mcp", "headers": headers}});
            launch["mcpSecrets"] = json!({"DOCS_TOKEN": "sk-docs"});
        })
        .ready();
    let (tools, notes, said) = until_said(&runner);
    assert_eq!((said.result.as_deref(), &notes[..]), (Some("found"), &[][..]), "{said:?}");
    assert_eq!(tools, ["mcp__docs__find"]);
    assert!(stage.seen()[1].contains("found it at docs.example, by Bearer sk-docs"), "{:?}", stage.seen());
}

fn servers_that_do_not_work_are_said_and_the_agent_works_on(cli: &Cli) {
    // The fake waits for no server.
    let faults: &[&str] =
        if cli.is == Is::Fake { &["dies"] } else { &["dies", "silent", "garbage", "flood"] };
    for fault in faults {
        let stage = stage(cli, &json!(["done"]));
        let runner = stage
            .run_with("a", |launch| {
                launch["mcpServers"] = json!({"weather": server(fault)});
                launch["mcpSecrets"] = json!({"WEATHER_TOKEN": "t"});
            })
            .ready();
        let (_, notes, said) = until_said(&runner);
        assert_eq!(said.result.as_deref(), Some("done"), "{fault}");
        assert!(
            notes.iter().any(|note| note.starts_with("the tool server weather is not connected")),
            "{fault}: {notes:?}"
        );
    }
}

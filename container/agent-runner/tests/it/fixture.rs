//! A mailbox in a temporary folder and a runner that works in it.

use std::{
    ffi::OsStr,
    fs,
    io::{Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use ipc_handlers::wire::{Kind, OUTPUT_END, OUTPUT_START, Record, Status};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Only a runner that is stuck gets here.
const DEADLINE: Duration = Duration::from_secs(60);

/// The folders of one group.
pub(crate) struct Home {
    root: PathBuf,
    _made: Option<TempDir>,
}

impl Home {
    pub(crate) fn new() -> Self {
        let root = TempDir::new().unwrap();
        for folder in ["group", "ipc/messages", "ipc/tasks", "ipc/input", "ipc/responses", "ipc/state"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        Self { root: root.path().to_owned(), _made: Some(root) }
    }

    /// Returns the home that is at `root`, for a second thread.
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), _made: None }
    }

    /// Returns a path below the home, as `ipc/input/1.json`.
    pub(crate) fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.root.join(name.as_ref())
    }

    /// Makes a file appear at once, as the host does.
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let temp = self.path("being-written");
        fs::write(&temp, bytes).unwrap();
        fs::rename(temp, self.path(name)).unwrap();
    }

    /// Publishes a follow-up.
    pub(crate) fn follow_up(&self, id: &str, text: &str) {
        let input = json!({"type": "message", "id": id, "text": message(text)});
        self.put(&format!("ipc/input/{id}.json"), input.to_string());
    }

    pub(crate) fn close(&self) {
        self.put("ipc/input/_close", "");
    }

    /// Returns the names in a folder, sorted.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// Waits for a command in a box, removes it and returns what it says.
    pub(crate) fn command(&self, folder: &str) -> Value {
        let commands = || -> Vec<String> {
            self.names(folder).into_iter().filter(|name| name.ends_with(".json")).collect()
        };
        wait_until(&format!("a command in {folder}"), || !commands().is_empty());
        let name = format!("{folder}/{}", commands()[0]);
        let command = self.json(&name);
        fs::remove_file(self.path(name)).unwrap();
        command
    }

    /// Starts a runner and gives it the whole document.
    pub(crate) fn launch(&self, launch: &Value) -> Runner {
        self.launch_with(launch, |_| {})
    }

    /// Starts a runner after `change` has had its way with the command.
    pub(crate) fn launch_with(&self, launch: &Value, change: impl FnOnce(&mut Command)) -> Runner {
        let (runner, mut stdin) = self.start(change);
        // A runner that does not want to read it all leaves a broken pipe.
        let _ = stdin.write_all(launch.to_string().as_bytes());
        runner
    }

    /// Starts a runner whose stdin is still open.
    pub(crate) fn start(&self, change: impl FnOnce(&mut Command)) -> (Runner, ChildStdin) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_g2-agent"));
        command
            .env("G2_IPC_DIR", self.path("ipc"))
            .env("G2_GROUP_DIR", self.path("group"))
            .env_remove("G2_LIFE_FD")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0);
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = child.stdout.take().unwrap();
        let raw = Arc::new(Mutex::new(Vec::new()));
        let (sender, records) = channel();
        let seen = Arc::clone(&raw);
        thread::spawn(move || read_records(stdout, &seen, |record| sender.send(record).is_ok()));
        (Runner { child, records, raw }, stdin)
    }
}

/// Whether a record only tells that a tool begins to be used, or was used.
fn tells_of_a_tool(record: &Record) -> bool {
    record.tool.is_some() || record.tool_end.is_some()
}

/// A running runner. Killed when the test is done with it.
pub(crate) struct Runner {
    child: Child,
    records: Receiver<Record>,
    raw: Arc<Mutex<Vec<u8>>>,
}

impl Runner {
    /// Returns the next record, but no second `ready`, which only names the session, and none that only tells of a tool.
    pub(crate) fn record(&self) -> Record {
        loop {
            let record = self.any_record();
            let names_session = record.kind == Kind::Ready && record.seq > Some(1);
            if !names_session && !tells_of_a_tool(&record) {
                return record;
            }
        }
    }

    /// Returns the next record, whatever it is.
    pub(crate) fn any_record(&self) -> Record {
        self.records.recv_timeout(DEADLINE).expect("a record")
    }

    /// Passes over `ready`.
    pub(crate) fn ready(self) -> Self {
        let record = self.record();
        assert_eq!((record.kind, record.seq, record.protocol), (Kind::Ready, Some(1), Some(2)), "{record:?}");
        self
    }

    /// Returns the next record's text and the batches it names; it must be a result.
    pub(crate) fn result(&self) -> (Option<String>, Vec<String>) {
        let record = self.record();
        assert_eq!((record.kind, record.status), (Kind::Result, Status::Success), "{record:?}");
        (record.result, record.handled)
    }

    /// Passes over a result that says `text` and names `handled`.
    pub(crate) fn says(&self, text: &str, handled: &[&str]) {
        assert_eq!(self.result(), (Some(text.to_owned()), handled.iter().map(|&id| id.to_owned()).collect()));
    }

    /// Passes over an error record and returns its text.
    pub(crate) fn error(&self) -> String {
        let record = self.record();
        assert_eq!(
            (record.status, &record.result, record.handled.len()),
            (Status::Error, &None, 0),
            "{record:?}"
        );
        record.error.expect("a reason")
    }

    /// Waits for the end, with no record before it but those that only tell of a tool.
    pub(crate) fn end(mut self) -> ExitStatus {
        let mut next = self.records.recv_timeout(DEADLINE);
        while next.as_ref().is_ok_and(tells_of_a_tool) {
            next = self.records.recv_timeout(DEADLINE);
        }
        assert_eq!(next, Err(RecvTimeoutError::Disconnected));
        self.child.wait().unwrap()
    }

    /// Waits until `bytes` were printed.
    pub(crate) fn printed(&self, bytes: &str) {
        wait_until(bytes, || String::from_utf8_lossy(&self.raw.lock().unwrap()).contains(bytes));
    }

    /// Returns everything that was printed so far.
    pub(crate) fn raw(&self) -> Vec<u8> {
        self.raw.lock().unwrap().clone()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // What it started is in its group, and would outlive it.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a launch document for batch 1 that says `text`, with or without a script.
pub(crate) fn launch(text: &str, script: Option<&Value>) -> Value {
    let mut provider = json!({"name": "scripted"});
    if let Some(script) = script {
        provider["script"] = script.to_string().into();
    }
    json!({
        "prompt": message(text), "groupFolder": "family", "chatJid": "local:kitchen", "isMain": false,
        "assistantName": "G2", "protocol": 2, "runId": "7", "lane": "family local:kitchen", "generation": 3,
        "batchId": "1", "blockedTools": ["AskUserQuestion"], "provider": provider,
        "limits": {"replyTimeoutMs": 0}
    })
}

/// Lets a run go on with a session, and says what to tell an agent that does not know it.
pub(crate) fn go_on(launch: &mut Value, session: &str) {
    launch["sessionId"] = session.into();
    launch["summary"] = "said before\n".into();
}

/// Returns a prompt as v1 formats it, with one message.
pub(crate) fn message(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    format!(
        "<context timezone=\"UTC\" />\n<messages>\n<message sender=\"A\" time=\"Jan 1, 2024, 1:30 PM\">{text}</message>\n</messages>"
    )
}

/// Waits for something to become true.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < DEADLINE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Reads stdout to its end and passes on every record in it.
fn read_records(mut stdout: impl Read, seen: &Mutex<Vec<u8>>, mut pass: impl FnMut(Record) -> bool) {
    let (start, end) = (format!("{OUTPUT_START}\n"), format!("\n{OUTPUT_END}\n"));
    let mut chunk = [0; 1 << 16];
    let mut open = Vec::new();
    let mut searched = 0;
    while let Ok(n @ 1..) = stdout.read(&mut chunk) {
        seen.lock().unwrap().extend_from_slice(&chunk[..n]);
        open.extend_from_slice(&chunk[..n]);
        while let Some(to) = find(&open[searched..], end.as_bytes()).map(|at| searched + at) {
            let from = find(&open, start.as_bytes()).unwrap() + start.len();
            if !pass(serde_json::from_slice(&open[from..to]).unwrap()) {
                return;
            }
            open.drain(..to + end.len());
            searched = 0;
        }
        searched = open.len().saturating_sub(end.len());
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

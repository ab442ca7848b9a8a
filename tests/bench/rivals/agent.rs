//! The stand-in for an agent, the same for every host: says which messages it was given, and stays until it is told to leave.
//! For rivals it is the program `docker` as well, as far as they use it.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use regex::Regex;
use serde_json::{Value, json};

use super::hub::{Heard, Reporter};
use crate::events::Events;

/// The argument by which this program is the agent of our own host; the hub's socket follows.
pub(crate) const AGENT: &str = "be-a-rival-agent";

/// The word that has it think before it answers, and for how long.
pub(crate) const SLOWLY: &str = "slowly";
const THINKS: Duration = Duration::from_millis(400);

/// Names of messages and tasks of the bench, as they stand in a prompt.
const NAMES: &str = r"\b[mt]-\d+\b";

/// Whether this program was called by the name of Docker, and then does what that was to do.
pub(crate) fn was_docker() -> bool {
    let mut arguments = std::env::args();
    if arguments.next().is_none_or(|own| Path::new(&own).file_name().is_none_or(|name| name != "docker")) {
        return false;
    }
    let arguments: Vec<String> = arguments.collect();
    // Which containers there are: a link each, from the name to the process.
    let containers = PathBuf::from(std::env::var_os("BENCH_CONTAINERS").unwrap());
    match arguments.first().map(String::as_str) {
        Some("run") => {
            let after = |option: &str| arguments.iter().skip_while(move |one| *one != option).nth(1);
            let name = containers.join(after("--name").unwrap());
            let mailbox = arguments.iter().find_map(|one| one.strip_suffix(":/workspace/ipc")).unwrap();
            symlink(std::process::id().to_string(), &name).unwrap();
            serve(Path::new(&std::env::var_os("BENCH_HUB").unwrap()), Path::new(mailbox));
            let _ = fs::remove_file(name);
        }
        Some("ps") => {
            for name in fs::read_dir(&containers).unwrap().flatten() {
                let _ = writeln!(std::io::stdout(), "{}", name.file_name().display());
            }
        }
        Some("stop") => {
            let name = containers.join(arguments.last().unwrap());
            let id = fs::read_link(&name).ok().and_then(|id| id.to_str()?.parse().ok());
            if let Some(id) = id.and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
            }
            let _ = fs::remove_file(name);
        }
        _ => {}
    }
    true
}

/// The agent of our own host. It ends with the host, as the runner in that place does.
pub(crate) fn run(hub: &str) {
    let host = rustix::process::getppid();
    std::thread::spawn(move || {
        while rustix::process::getppid() == host {
            std::thread::sleep(Duration::from_millis(50));
        }
        std::process::exit(1);
    });
    serve(Path::new(hub), Path::new(&std::env::var_os("G2_IPC_DIR").unwrap()));
}

fn serve(hub: &Path, mailbox: &Path) {
    let mut document = String::new();
    std::io::stdin().read_to_string(&mut document).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let mut agent = Agent {
        hub: Reporter::connect(hub),
        names: Regex::new(NAMES).unwrap(),
        is_ours: document["protocol"] == 2,
        records: 0,
    };
    agent.hub.tell(&Heard::Asked);
    let input = mailbox.join("input");
    let mut events = Events::new();
    events.watch_files(&input);
    if agent.is_ours {
        let _ = fs::remove_file(input.join("_close"));
        agent.record(json!({"status": "success", "result": null, "type": "ready", "protocol": 2}));
    }
    agent.answer(&document["prompt"], &document["batchId"]);
    if document["isScheduledTask"] == true {
        return;
    }
    loop {
        if input.join("_close").exists() {
            let _ = fs::remove_file(input.join("_close"));
            return;
        }
        let mut files: Vec<PathBuf> =
            fs::read_dir(&input).unwrap().flatten().map(|file| file.path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        if files.is_empty() {
            events.any();
            continue;
        }
        for file in files {
            agent.hub.tell(&Heard::Given);
            agent.take(&file);
        }
    }
}

struct Agent {
    hub: Reporter,
    names: Regex,
    /// Whether the host speaks our protocol.
    is_ours: bool,
    records: u64,
}

impl Agent {
    /// Takes a file of input, and answers it.
    fn take(&mut self, file: &Path) {
        let claimed = file.with_extension("claimed");
        // The host may have taken it back.
        if self.is_ours && fs::rename(file, &claimed).is_err() {
            return;
        }
        let held = if self.is_ours { &claimed } else { file };
        let Ok(text) = fs::read_to_string(held) else { return };
        let given: Value = serde_json::from_str(&text).unwrap();
        if self.is_ours {
            self.answer(&given["text"], &given["id"]);
        }
        let _ = fs::remove_file(held);
        if !self.is_ours {
            self.answer(&given["text"], &Value::Null);
        }
    }

    fn answer(&mut self, prompt: &Value, batch: &Value) {
        let prompt = prompt.as_str().unwrap_or_default();
        if prompt.contains(SLOWLY) {
            std::thread::sleep(THINKS);
        }
        let names = self.names.find_iter(prompt);
        let text = names.map(|name| name.as_str()).collect::<Vec<_>>().join(" ");
        let mut record = json!({"status": "success", "result": format!("did {text}"), "newSessionId": "s-1"});
        if self.is_ours {
            record["handled"] = json!([batch]);
        }
        self.record(record);
    }

    /// A host that has died reads no more.
    fn record(&mut self, mut record: Value) {
        self.records += 1;
        if self.is_ours {
            record["seq"] = self.records.into();
        }
        let mark = std::env::var("BENCH_MARK").unwrap_or_else(|_| "G2".into());
        let text = format!("---{mark}_OUTPUT_START---\n{record}\n---{mark}_OUTPUT_END---\n");
        let _ = std::io::stdout().write_all(text.as_bytes());
    }
}

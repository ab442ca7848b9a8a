//! Speaks with the agent: brings it up, asks, waits, reports.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

use ipc_handlers::wire::{self, Launch};
use serde_json::{Value, json};

use super::{
    failure::AcpError,
    talk::{Act, Rules, Talk},
};
use crate::{
    clock::Deadline,
    host::{Event as Report, Host},
    provider::{
        Leave, Provider, ProviderError,
        process::{Ended, FromCli, Process},
        servers::Servers,
    },
    runner::chain,
    tools,
    turns::Turns,
};

/// How long the agent may take over one step of coming up.
const STARTING: Duration = Duration::from_secs(120);
/// How long it may say nothing in a turn while no tool runs, unless the launch says otherwise.
const STALL: Duration = Duration::from_secs(240);
/// How long it may take to stop when it is asked to.
const STOPPING: Duration = Duration::from_secs(10);
/// How long it may be silent when it is asked whether it has shown an older conversation to its end.
const SHOWING: Duration = Duration::from_secs(5);
/// How often what it says counts as a sign of life.
const ALIVE_EVERY: Duration = Duration::from_millis(500);
/// How often the beginning of an answer is shown.
const SHOWN_EVERY: Duration = Duration::from_millis(750);
/// The version of the protocol.
const VERSION: u64 = 1;

/// The agent, up and waiting for turns.
pub(in crate::provider) struct Acp {
    process: Process,
    said: Receiver<FromCli>,
    talk: Talk,
    session: Value,
    /// That the agent does not know its session any more, told once the runner is `ready`.
    lost: Option<String>,
    /// What was said before, for that case.
    summary: String,
    /// Tool servers that are left out, told once the runner is `ready`.
    left_out: Vec<String>,
    stall: Duration,
    asked: u64,
    alive_again: Deadline,
}

/// How waiting for an answer ended without one.
enum Without {
    Stalled,
    Failed(ProviderError),
}

impl From<ProviderError> for Without {
    fn from(error: ProviderError) -> Self {
        Self::Failed(error)
    }
}

impl Acp {
    /// Brings the agent up.
    pub(in crate::provider) fn start(
        acp: &wire::Acp,
        launch: &Launch,
        host: &Host,
    ) -> Result<Self, ProviderError> {
        let (program, args) =
            acp.command.split_first().ok_or_else(|| AcpError::new("start", "the launch names no program"))?;
        let env = environment(acp, launch, &host.seat.inherited);
        if let Some(home) = env.get("HOME") {
            let made = std::fs::DirBuilder::new().recursive(true).create(home);
            made.map_err(|e| AcpError::new("start", format!("the agent's home {home} can't be made: {e}")))?;
        }
        let (sender, said) = channel();
        let pass = move |line| sender.send(line).is_ok();
        let process = Process::start(program, args, &env, &[], &host.seat.group, pass)
            .map_err(|e| AcpError::new("start", format!("starting {program} failed: {e}")))?;
        let rules =
            Rules { blocked: launch.blocked_tools.clone(), refuse: acp.refuse.clone(), say: launch.say };
        let stall =
            if acp.stall_timeout_ms == 0 { STALL } else { Duration::from_millis(acp.stall_timeout_ms) };
        let mut this = Self {
            process,
            said,
            talk: Talk::new(rules),
            session: Value::Null,
            lost: None,
            summary: launch.summary.clone(),
            left_out: Vec::new(),
            stall,
            asked: 0,
            alive_again: Deadline::after(Duration::ZERO),
        };
        this.come_up(acp, launch, host)?;
        Ok(this)
    }

    fn come_up(&mut self, acp: &wire::Acp, launch: &Launch, host: &Host) -> Result<(), ProviderError> {
        let hello = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
            "clientInfo": {"name": "g2", "title": "G2", "version": env!("CARGO_PKG_VERSION")},
        });
        let agent = self.step("initialize", hello)??;
        if agent["protocolVersion"] != VERSION {
            let words = format!(
                "the agent speaks version {} of the protocol, not {VERSION}",
                agent["protocolVersion"]
            );
            return Err(AcpError::new("protocol", words).into());
        }
        if let Some(method) = &acp.auth_method {
            self.step("authenticate", json!({"methodId": method}))??;
        }
        let can = &agent["agentCapabilities"];
        let resume = can["sessionCapabilities"].get("resume").is_some_and(|resume| !resume.is_null());
        let load = can["loadSession"] == true;
        let mut servers = Servers::of(launch);
        let mut named = vec![server(acp, launch, host)];
        named.extend(servers.as_acp(&can["mcpCapabilities"]));
        self.left_out = servers.left_out;
        let mut place = json!({"cwd": host.seat.group, "mcpServers": named});
        if !acp.directories.is_empty() && can["sessionCapabilities"]["additionalDirectories"].is_object() {
            place["additionalDirectories"] = json!(acp.directories);
        }
        if let Some(id) = &launch.session_id {
            let mut known = place.clone();
            known["sessionId"] = id.as_str().into();
            let method = if resume { "session/resume" } else { "session/load" };
            let answer = if resume || load { Some(self.step(method, known)?) } else { None };
            match answer {
                Some(Ok(_)) => {
                    self.session = id.as_str().into();
                    return if resume { Ok(()) } else { self.see_out_the_past() };
                }
                Some(Err(error)) if error.is_authentication() => return Err(error.into()),
                Some(Err(error)) => {
                    self.lost = Some(format!(
                        "the agent does not go on with the session {id} ({error}); a fresh one begins"
                    ));
                }
                None => {
                    self.lost =
                        Some(format!("the agent can't go on with the session {id}; a fresh one begins"));
                }
            }
        }
        let answer = self.step("session/new", place)?.map_err(|error| {
            let methods = agent["authMethods"].as_array().map(Vec::as_slice).unwrap_or_default();
            let offered: Vec<&str> = methods.iter().filter_map(|method| method["id"].as_str()).collect();
            if error.is_authentication() && !offered.is_empty() {
                let words = format!("{error}; it offers agent.acp.auth_method = {}", offered.join(", "));
                return AcpError::new("authentication", words.trim_start_matches("acp/authentication: "));
            }
            error
        })?;
        self.session = answer["sessionId"].clone();
        if !self.session.is_string() {
            return Err(AcpError::new("protocol", "the agent named no session").into());
        }
        Ok(())
    }

    /// Asks while coming up, and waits for the answer.
    fn step(&mut self, method: &str, params: Value) -> Result<Result<Value, AcpError>, ProviderError> {
        let id = self.ask(method, params);
        let until = Deadline::after(STARTING);
        loop {
            let Some(left) = until.left() else {
                let words = format!("{method} was not answered in {} s", STARTING.as_secs());
                return Err(AcpError::new("start", words).into());
            };
            for act in self.hear(left)?.unwrap_or_default() {
                match act {
                    Act::Answered { id: of, answer } if of == id => {
                        return Ok(answer.map_err(|error| AcpError::answered(&error)));
                    }
                    Act::Write(line) => self.process.say(line),
                    // Nothing may be said before `ready`.
                    Act::Answered { .. } | Act::Report(_) => {}
                }
            }
        }
    }

    /// Passes over the older conversation that an agent shows when it loads a session: some show it behind their answer.
    ///
    /// It is over once a question of ours is answered with nothing said in between. The protocol wants an answer to each
    /// method; of an agent that gives none the past counts as over when it falls silent.
    fn see_out_the_past(&mut self) -> Result<(), ProviderError> {
        let until = Deadline::after(STARTING);
        let mut id = self.ask("_g2/ping", json!({}));
        let mut is_quiet = true;
        while let Some(left) = until.left() {
            let Some(acts) = self.hear(left.min(SHOWING))? else { break };
            let is_answer = acts.iter().any(|act| matches!(act, Act::Answered { id: of, .. } if *of == id));
            match (is_answer, is_quiet) {
                (true, true) => break,
                (true, false) => {
                    id = self.ask("_g2/ping", json!({}));
                    is_quiet = true;
                }
                (false, _) => is_quiet = false,
            }
            for act in acts {
                if let Act::Write(line) = act {
                    self.process.say(line);
                }
            }
        }
        Ok(())
    }

    fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.asked += 1;
        self.process.say(json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}));
        self.asked
    }

    /// Returns what the next line asks for; `None` when none came in time.
    fn hear(&mut self, within: Duration) -> Result<Option<Vec<Act>>, ProviderError> {
        match self.said.recv_timeout(within) {
            Ok(FromCli::Line(line)) => match serde_json::from_slice::<Value>(&line) {
                Ok(line) => Ok(Some(self.talk.on(&line))),
                Err(e) => {
                    eprintln!("acp: a line that is not JSON was passed over: {e}");
                    Ok(Some(Vec::new()))
                }
            },
            Ok(FromCli::TooLong) => {
                eprintln!("acp: a line that is far too long was passed over");
                Ok(Some(Vec::new()))
            }
            Ok(FromCli::End) | Err(RecvTimeoutError::Disconnected) => {
                let words = match self.process.end() {
                    Ended::Well(words) => format!("the agent's program ended. {words}"),
                    Ended::Badly(words) => words,
                };
                let kind = if self.session.is_null() { "start" } else { "exited" };
                Err(AcpError::new(kind, words).into())
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
        }
    }

    /// Waits for the answer to a prompt.
    fn turn(&mut self, id: u64, host: &Host) -> Result<Result<Value, Value>, Without> {
        let mut shown_again = Deadline::after(Duration::ZERO);
        let mut until = Deadline::after(self.stall);
        loop {
            let Some(acts) = self.hear(until.left().unwrap_or_default())? else {
                // A tool takes its time; the host judges it.
                if self.talk.is_in_a_tool() {
                    until = Deadline::after(self.stall);
                    continue;
                }
                return Err(Without::Stalled);
            };
            until = Deadline::after(self.stall);
            if self.alive_again.left().is_none() {
                self.alive_again = Deadline::after(ALIVE_EVERY);
                host.report(Report::Alive).map_err(ProviderError::from)?;
            }
            for act in acts {
                match act {
                    Act::Answered { id: of, answer } if of == id => return Ok(answer),
                    Act::Answered { .. } => {}
                    Act::Write(line) => self.process.say(line),
                    Act::Report(report) => host.report(report).map_err(ProviderError::from)?,
                }
            }
            if let Some(text) = self.talk.so_far().filter(|_| shown_again.left().is_none()) {
                shown_again = Deadline::after(SHOWN_EVERY);
                host.report(Report::SoFar(text)).map_err(ProviderError::from)?;
            }
        }
    }

    /// Asks the agent to stop, and gives it a moment to do so.
    fn cancel(&mut self) {
        let params = json!({"sessionId": self.session});
        self.process.say(json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}));
        let until = Deadline::after(STOPPING);
        while let Some(left) = until.left() {
            match self.hear(left) {
                Ok(Some(acts)) if acts.iter().any(|act| matches!(act, Act::Answered { .. })) => return,
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// `Err`: why the turn has failed.
    fn prompt(
        &mut self,
        prompt: &str,
        host: &Host,
    ) -> Result<Result<Option<String>, AcpError>, ProviderError> {
        self.talk.begin();
        let params = json!({"sessionId": self.session, "prompt": [
            {"type": "text", "text": prompt},
            // What people write is never the last text: some agents take a command or a file's name from there.
            {"type": "text", "text": "(end of messages)"},
        ]});
        let id = self.ask("session/prompt", params);
        let answer = match self.turn(id, host) {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Ok(Err(AcpError::answered(&error))),
            Err(Without::Stalled) => {
                self.cancel();
                let words =
                    format!("the agent said nothing for {} ms while no tool ran", self.stall.as_millis());
                return Ok(Err(AcpError::new("stalled", words)));
            }
            // Its batch is to be given back in words of its own.
            Err(Without::Failed(ProviderError::Acp(error))) => return Ok(Err(error)),
            Err(Without::Failed(error)) => return Err(error),
        };
        if self.talk.is_in_a_tool() {
            host.report(Report::ToolFinished)?;
        }
        let said = self.talk.finish();
        let why = answer["stopReason"].as_str().unwrap_or("end_turn");
        let kind = match why {
            "refusal" => "refusal",
            "cancelled" => "cancelled",
            // What was said until then is an answer, if anything was.
            "max_tokens" if said.is_none() => "max_tokens",
            "max_turn_requests" if said.is_none() => "max_turn_requests",
            _ => return Ok(Ok(said)),
        };
        let words = said.unwrap_or_else(|| format!("the agent ended its turn: {why}"));
        Ok(Err(AcpError::new(kind, words)))
    }
}

impl Provider for Acp {
    fn run(&mut self, turns: &Turns, host: &Host) -> Result<Leave, ProviderError> {
        let mut summary = None;
        if let Some(note) = self.lost.take() {
            host.report(Report::Progress(Some(note)))?;
            summary = Some(std::mem::take(&mut self.summary));
        }
        for why in std::mem::take(&mut self.left_out) {
            host.report(Report::Progress(Some(why)))?;
        }
        // The session of an agent that can't go on with any is named too: then the host knows that there was a conversation.
        if let Some(session) = self.session.as_str() {
            host.report(Report::Session(session.to_owned()))?;
        }
        while let Some(mut turn) = turns.next()? {
            turn.prompt.insert_str(0, &summary.take().unwrap_or_default());
            match self.prompt(&turn.prompt, host)? {
                Ok(say) => {
                    host.report(Report::TurnDone { say, batches: turn.batch.into_iter().collect() })?
                }
                Err(error) => {
                    host.report(Report::Failed(chain(&error)))?;
                    return Ok(Leave::Exit(1));
                }
            }
        }
        if let Ended::Badly(words) = self.process.end() {
            eprintln!("acp: {words}");
        }
        Ok(Leave::Closed)
    }
}

/// The agent's whole environment. Its home lies in the folder that outlives the container.
fn environment(
    acp: &wire::Acp,
    launch: &Launch,
    inherited: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut env = inherited.clone();
    if let Some(home) = inherited.get("HOME").map(|home| PathBuf::from(home).join(".claude")) {
        env.insert("HOME".to_owned(), home.join("acp").display().to_string());
        env.insert("CLAUDE_CONFIG_DIR".to_owned(), home.display().to_string());
    }
    env.insert("LANG".to_owned(), "C.UTF-8".to_owned());
    env.extend(launch.secrets.0.clone());
    env.extend(acp.env.clone());
    env
}

/// Our tools, as a server that the agent starts.
fn server(acp: &wire::Acp, launch: &Launch, host: &Host) -> Value {
    let (program, args) = &host.seat.tools;
    let zone = acp.timezone.clone().unwrap_or_else(|| "UTC".to_owned());
    let env = [
        ("G2_CHAT_JID", launch.chat_jid.clone()),
        ("G2_IPC_DIR", host.seat.ipc.display().to_string()),
        ("G2_IS_MAIN", if launch.is_main { "1" } else { "0" }.to_owned()),
        ("G2_REPLY_TIMEOUT_MS", launch.limits.reply_timeout_ms.to_string()),
        ("TZ", zone),
    ]
    .map(|(name, value)| json!({"name": name, "value": value}));
    json!({"name": tools::SERVER, "command": program, "args": args, "env": env})
}

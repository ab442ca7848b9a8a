//! The thread that speaks with the CLI: it brings it up, passes events to the conversation and does what that says.

use std::{
    collections::VecDeque,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

use ipc_handlers::wire::{self, Launch};
use tempfile::{NamedTempFile, TempDir};

use super::{
    beside::{self, Input, Job},
    event::{self, Event},
    failure::{self, Failure},
    folders::{self, FolderError},
    say,
    setup::{Session, Setup, User},
    talk::{Act, Rules, Talk},
};
use crate::{
    clock::Deadline,
    host::{Event as Report, Host},
    ids,
    provider::{
        Leave, Provider, ProviderError,
        process::{Ended, FromCli, Process},
        servers::Servers,
    },
    runner::chain,
    tools::{Place, Reach},
    turns::Turns,
};

/// How long the CLI may take to come up.
const STARTING: Duration = Duration::from_secs(120);
/// How often pieces of an answer count as a sign of life.
const ALIVE_EVERY: Duration = Duration::from_millis(500);

/// How often the beginning of an answer is shown.
const SHOWN_EVERY: Duration = Duration::from_millis(750);

/// The CLI did not come up.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ClaudeError(Failure);

/// The CLI, up and waiting for turns.
pub(in crate::provider) struct Claude {
    setup: Setup,
    assistant: String,
    talk: Talk,
    process: Process,
    /// Which process it is; what an earlier one still says is not heard.
    life: u32,
    inputs: (Sender<Input>, Receiver<Input>),
    /// What the CLI said while it came up, for later.
    early: VecDeque<Event>,
    /// The session that it should have gone on with and did not know.
    lost: Option<String>,
    /// What was said before, for an agent that has lost its session.
    summary: Option<String>,
    /// Tool servers that are left out, told once the runner is `ready`.
    left_out: Vec<String>,
    /// Where the CLI finds the skills and the tool servers, removed at the end.
    _beside: Beside,
}

impl Claude {
    /// Brings the CLI up.
    pub(in crate::provider) fn start(
        claude: &wire::Claude,
        launch: &Launch,
        host: &Host,
    ) -> Result<Self, ProviderError> {
        let user = if rustix::process::getuid().is_root() { User::Root } else { User::Other };
        let mut setup = Setup::new(claude, launch, &host.seat.group, &host.seat.inherited, user);
        let servers = Servers::of(launch);
        let beside =
            prepare(&mut setup, &servers).map_err(|e| ClaudeError(Failure::new("start", chain(&e))))?;
        let rules = Rules {
            place: Place {
                chat_jid: launch.chat_jid.clone(),
                reach: if launch.is_main { Reach::All } else { Reach::Own },
                zone: claude.timezone.clone().unwrap_or_else(|| "UTC".to_owned()),
            },
            blocked: launch.blocked_tools.clone(),
            stall: setup.stall,
            say: launch.say,
        };
        let session = match &launch.session_id {
            Some(id) if ids::is_uuid(id) => Session::Resumed(id.clone()),
            Some(_) | None => Session::Fresh(ids::uuid()),
        };
        let inputs = channel();
        let process = spawn(&setup, &session, host, 0, &inputs.0)?;
        let assistant = launch.assistant_name.clone().unwrap_or_else(|| "Assistant".to_owned());
        let mut this = Self {
            setup,
            assistant,
            talk: Talk::new(rules),
            process,
            life: 0,
            inputs,
            early: VecDeque::new(),
            lost: launch.session_id.clone().filter(|id| !ids::is_uuid(id)),
            summary: Some(launch.summary.clone()),
            left_out: servers.left_out,
            _beside: beside,
        };
        match this.come_up()? {
            Up::Ready => {}
            Up::UnknownSession => {
                // Said once the runner is `ready`: nothing may come before that.
                this.lost = launch.session_id.clone();
                this.fresh(host)?;
                if let Up::UnknownSession = this.come_up()? {
                    return Err(ClaudeError(Failure::new(
                        "start",
                        "the CLI does not know its own new session",
                    ))
                    .into());
                }
            }
        }
        Ok(this)
    }

    /// Waits until the CLI has taken note of our tools and hooks and is of the right version.
    fn come_up(&mut self) -> Result<Up, ProviderError> {
        let until = Deadline::after(STARTING);
        let (mut knows_us, mut right_version) = (false, false);
        let fail = |kind, words: String| Err(ClaudeError(Failure::new(kind, words)).into());
        while !(knows_us && right_version) {
            let input = match self.inputs.1.recv_timeout(until.left().unwrap_or_default()) {
                Ok(input) => input,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return fail("start", format!("the CLI did not answer in {} s", STARTING.as_secs()));
                }
            };
            match input {
                Input::Cli(life, _) if life != self.life => {}
                Input::Cli(_, FromCli::End) => {
                    return match self.process.end() {
                        Ended::Well(words) => fail("start", format!("the CLI ended at once. {words}")),
                        Ended::Badly(words) => fail("start", words),
                    };
                }
                Input::Cli(_, FromCli::TooLong) => {}
                Input::Cli(_, FromCli::Line(line)) => match parse(&line) {
                    Some(Event::Reply { request, answer }) if request == say::INITIALIZE => match answer {
                        Ok(_) => knows_us = true,
                        Err(e) => return fail("start", format!("the CLI refused our tools and hooks: {e}")),
                    },
                    Some(Event::Reply { request, answer }) if request == say::VERSION => {
                        let version =
                            answer.unwrap_or_default()["version"].as_str().unwrap_or_default().to_owned();
                        match &self.setup.version {
                            Some(wanted) if *wanted != version => {
                                return fail(
                                    "version",
                                    format!("the CLI is {version:?}, and {wanted:?} was asked for"),
                                );
                            }
                            Some(_) | None => right_version = true,
                        }
                    }
                    Some(Event::Result(outcome)) if failure::is_unknown_session(&outcome) => {
                        return Ok(Up::UnknownSession);
                    }
                    Some(event @ Event::Asked { .. }) => {
                        for act in self.talk.on(event) {
                            match act {
                                Act::Write(line) => self.process.say(line),
                                other => eprintln!("claude: {other:?} is not for the start"),
                            }
                        }
                    }
                    Some(event) => self.early.push_back(event),
                    None => {}
                },
                Input::Turn(_) | Input::NoMore | Input::Gone(_) | Input::Line(_) => {}
            }
        }
        Ok(Up::Ready)
    }

    /// Replaces the process by one with a new session and gives it everything that is not handled.
    fn fresh(&mut self, host: &Host) -> Result<(), ProviderError> {
        self.life += 1;
        self.process = spawn(&self.setup, &Session::Fresh(ids::uuid()), host, self.life, &self.inputs.0)?;
        for line in self.talk.again() {
            self.process.say(line);
        }
        Ok(())
    }

    fn sum_up(&mut self) {
        if let Some(summary) = self.summary.take() {
            self.talk.sum_up(summary);
        }
    }

    fn converse(&mut self, host: &Host, jobs: &Sender<Job>) -> Result<Leave, ProviderError> {
        if let Some(id) = self.lost.take() {
            self.sum_up();
            host.report(Report::Progress(Some(dropped(&id))))?;
        }
        for why in std::mem::take(&mut self.left_out) {
            host.report(Report::Progress(Some(why)))?;
        }
        for event in std::mem::take(&mut self.early) {
            for act in self.talk.on(event) {
                if let Some(leave) = self.perform(act, host, jobs)? {
                    return Ok(leave);
                }
            }
        }
        let mut alive_again = Deadline::after(Duration::ZERO);
        let mut shown_again = Deadline::after(Duration::ZERO);
        loop {
            let acts = match self.next_input()? {
                None => self.talk.silent(),
                Some(Input::Turn(turn)) => vec![self.talk.turn(turn)],
                Some(Input::NoMore) => self.talk.close().into_iter().collect(),
                Some(Input::Gone(e)) => return Err(e.into()),
                Some(Input::Line(line)) => vec![Act::Write(line)],
                Some(Input::Cli(life, _)) if life != self.life => continue,
                Some(Input::Cli(_, FromCli::TooLong)) => {
                    vec![Act::Note("claude: a line that is far too long was passed over".to_owned())]
                }
                Some(Input::Cli(_, FromCli::End)) => {
                    let how = self.process.end();
                    self.talk.ended(&how)
                }
                Some(Input::Cli(_, FromCli::Line(line))) => match parse(&line) {
                    None => Vec::new(),
                    Some(event) => {
                        match &event {
                            Event::Reply { .. } => {}
                            Event::Stream { .. } if alive_again.left().is_some() => {}
                            _ => {
                                alive_again = Deadline::after(ALIVE_EVERY);
                                host.report(Report::Alive)?;
                            }
                        }
                        let acts = self.talk.on(event);
                        let text = if shown_again.left().is_none() { self.talk.so_far() } else { None };
                        match text {
                            Some(text) => {
                                shown_again = Deadline::after(SHOWN_EVERY);
                                acts.into_iter().chain([Act::Report(Report::SoFar(text))]).collect()
                            }
                            None => acts,
                        }
                    }
                },
            };
            for act in acts {
                if let Some(leave) = self.perform(act, host, jobs)? {
                    return Ok(leave);
                }
            }
        }
    }

    /// Returns what comes next; `None` when the CLI has been silent for too long.
    fn next_input(&mut self) -> Result<Option<Input>, ProviderError> {
        let gone = || ClaudeError(Failure::new("exited", "nobody speaks any more"));
        match self.talk.patience() {
            None => self.inputs.1.recv().map(Some).map_err(|_| gone().into()),
            Some(patience) => match self.inputs.1.recv_timeout(patience) {
                Ok(input) => Ok(Some(input)),
                Err(RecvTimeoutError::Timeout) => Ok(None),
                Err(RecvTimeoutError::Disconnected) => Err(gone().into()),
            },
        }
    }

    fn perform(&mut self, act: Act, host: &Host, jobs: &Sender<Job>) -> Result<Option<Leave>, ProviderError> {
        match act {
            Act::Report(report) => host.report(report)?,
            Act::Write(line) => self.process.say(line),
            Act::Call(call) => drop(jobs.send(Job::Call(call))),
            Act::Archive { request, transcript, session } => {
                drop(jobs.send(Job::Archive { request, transcript, session }));
            }
            Act::Note(line) => eprintln!("{line}"),
            Act::Fresh => {
                host.report(Report::Progress(Some(dropped("of this run"))))?;
                self.sum_up();
                self.fresh(host)?;
            }
            Act::Close => {
                if let Ended::Badly(words) = self.process.end() {
                    eprintln!("claude: {words}");
                }
                return Ok(Some(Leave::Closed));
            }
            Act::Fail => return Ok(Some(Leave::Exit(1))),
        }
        Ok(None)
    }
}

/// How a start went.
enum Up {
    Ready,
    UnknownSession,
}

impl Provider for Claude {
    fn run(&mut self, turns: &Turns, host: &Host) -> Result<Leave, ProviderError> {
        let (jobs, todo) = channel();
        let (to_feed, to_answer) = (self.inputs.0.clone(), self.inputs.0.clone());
        let assistant = self.assistant.clone();
        thread::scope(|threads| {
            threads.spawn(move || beside::feed(turns, &to_feed));
            threads.spawn(move || beside::work(&todo, host, &assistant, &to_answer));
            // Whatever comes of it, the other threads must hear that it is over.
            let left = self.converse(host, &jobs);
            turns.stop();
            drop(jobs);
            left
        })
    }
}

/// What lies beside the CLI for as long as it runs.
struct Beside {
    _skills: Option<TempDir>,
    _servers: Option<NamedTempFile>,
}

/// Sees to the folders and files that the CLI needs.
fn prepare(setup: &mut Setup, servers: &Servers) -> Result<Beside, FolderError> {
    if let Some(state) = &setup.state {
        folders::check_writable("its sessions", state)?;
    }
    folders::check_writable("what it needs for a while (TMPDIR)", &setup.temporary)?;
    let skills = setup.skills.as_deref().map(folders::plugin).transpose()?.flatten();
    if let Some(skills) = &skills {
        setup.with_plugin(skills.path());
    }
    let known = (!servers.is_empty()).then(|| servers.as_claude().to_string());
    let servers = known.map(|known| folders::servers(&setup.temporary, known.as_bytes())).transpose()?;
    if let Some(file) = &servers {
        setup.with_servers(file.path());
    }
    Ok(Beside { _skills: skills, _servers: servers })
}

fn spawn(
    setup: &Setup,
    session: &Session,
    host: &Host,
    life: u32,
    inputs: &Sender<Input>,
) -> Result<Process, ProviderError> {
    let inputs = inputs.clone();
    let pass = move |said| inputs.send(Input::Cli(life, said)).is_ok();
    let (args, group) = (setup.args(session), &host.seat.group);
    let process = Process::start(&setup.program, &args, &setup.env, &setup.piped, group, pass)
        .map_err(|e| ClaudeError(Failure::new("start", format!("starting {} failed: {e}", setup.program))))?;
    process.say(say::initialize(setup.append_system_prompt.as_deref()));
    process.say(say::version());
    Ok(process)
}

fn parse(line: &[u8]) -> Option<Event> {
    event::parse(line).inspect_err(|e| eprintln!("claude: a line that is not JSON was passed over: {e}")).ok()
}

fn dropped(session: &str) -> String {
    format!("the session {session} is not known to the CLI; a fresh one begins")
}

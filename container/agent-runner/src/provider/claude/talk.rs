//! The conversation with the CLI as a machine without input or output: events in, [`Act`]s out.
//!
//! ```text
//! a message: sent ──taken (its uuid comes back)──→ taken ──result──→ handled
//!    └────────────────── a failed turn, or the CLI's end ───→ not handled; we leave
//! ```
//!
//! Never says that a batch is handled because it was written: only a result that came after the CLI took it counts.

mod acts;

use std::{collections::BTreeSet, time::Duration};

use ipc_handlers::wire::{LONGEST_SO_FAR, Say};
use serde_json::{Value, json};

use super::{
    event::{Ask, By, Call, Event, Ran, State},
    failure::{self, Failure},
    hooks::{self, Hook, Tools},
    mcp::{self, Message, ToolCall},
    say,
};
use crate::{host::Event as Report, ids, provider::process::Ended, tools, turns::Turn};

pub(super) use self::acts::{Act, Rules};
use self::acts::{fail, waits};

/// For how long background work that has ended may take to wake the CLI.
const WAKING: Duration = Duration::from_secs(30);
/// How much longer a compaction may take than an answer to begin.
const COMPACTION: u32 = 3;

/// The tool of ours that asks people.
const ASK_USER: &str = "ask_user";

/// One conversation.
pub(super) struct Talk {
    rules: Rules,
    sent: Vec<Sent>,
    /// What stands in front of the next message.
    summary: Option<String>,
    state: State,
    waiting: Waiting,
    tools: Tools,
    /// Calls of blocked tools that have not been answered.
    blocked_calls: Vec<Call>,
    tasks: BTreeSet<String>,
    deferred: bool,
    closing: bool,
    last: Option<(By, Option<String>)>,
    results: u64,
    unknown: BTreeSet<String>,
    /// Tool servers of the group that are not connected, as was told.
    away: BTreeSet<String>,
    /// Texts of this turn that are not said yet.
    texts: Vec<String>,
    /// The words of the next one, as far as they came.
    words: String,
    /// They are more than what was shown.
    is_more: bool,
}

struct Sent {
    uuid: String,
    turn: Turn,
    taken: bool,
}

/// What a running CLI waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// The first piece of an answer.
    Answer,
    /// The next piece.
    More,
    /// The next try, this much later.
    Retry(Duration),
    Compaction,
}

impl Talk {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            sent: Vec::new(),
            summary: None,
            state: State::Idle,
            waiting: Waiting::Answer,
            tools: Tools::default(),
            blocked_calls: Vec::new(),
            tasks: BTreeSet::new(),
            deferred: false,
            closing: false,
            last: None,
            results: 0,
            unknown: BTreeSet::new(),
            away: BTreeSet::new(),
            texts: Vec::new(),
            words: String::new(),
            is_more: false,
        }
    }

    /// Hands over a turn.
    pub(super) fn turn(&mut self, turn: Turn) -> Act {
        self.turn_as(ids::uuid(), turn)
    }

    fn turn_as(&mut self, uuid: String, mut turn: Turn) -> Act {
        turn.prompt.insert_str(0, &self.summary.take().unwrap_or_default());
        let line = say::user(&uuid, &turn.prompt);
        self.sent.push(Sent { uuid, turn, taken: false });
        Act::Write(line)
    }

    /// The agent begins afresh: what was said before stands in front of its first message.
    pub(super) fn sum_up(&mut self, summary: String) {
        match self.sent.first_mut() {
            Some(sent) => sent.turn.prompt.insert_str(0, &summary),
            None => self.summary = Some(summary),
        }
    }

    /// Returns the lines that give a new process everything that is not handled.
    pub(super) fn again(&mut self) -> Vec<Value> {
        self.state = State::Idle;
        self.waiting = Waiting::Answer;
        self.sent.iter_mut().for_each(|sent| sent.taken = false);
        self.sent.iter().map(|sent| say::user(&sent.uuid, &sent.turn.prompt)).collect()
    }

    /// There will be no more turns.
    pub(super) fn close(&mut self) -> Option<Act> {
        self.closing = true;
        self.done()
    }

    /// Takes an event.
    pub(super) fn on(&mut self, event: Event) -> Vec<Act> {
        match event {
            Event::Init { session, tools, away } => self.init(session, tools.as_deref(), away),
            Event::State(state) => {
                self.state = state;
                self.waiting = Waiting::Answer;
                self.done().into_iter().collect()
            }
            Event::Taken { uuid } => {
                self.sent.iter_mut().filter(|sent| sent.uuid == uuid).for_each(|sent| sent.taken = true);
                Vec::new()
            }
            Event::Assistant { by, error, text, calls } => {
                let mut acts = Vec::new();
                if by == By::Model && self.rules.say != Say::Final {
                    self.words.clear();
                    if error.is_none() && !text.is_empty() {
                        self.texts.push(text);
                    }
                    // A tool call ends the text before it: the text is whole.
                    if !calls.is_empty() && !self.texts.is_empty() {
                        self.is_more = false;
                        acts.push(Act::Report(Report::Say(std::mem::take(&mut self.texts).join("\n\n"))));
                    }
                }
                let blocked = |call: &Call| self.rules.blocked.contains(&call.name);
                self.blocked_calls.extend(calls.into_iter().filter(blocked));
                if by != By::Subagent {
                    self.last = Some((by, error));
                }
                acts
            }
            Event::Answers(answers) => {
                answers.into_iter().flat_map(|(id, ran)| self.answered(&id, ran)).collect()
            }
            Event::Requesting => self.wait_for(Waiting::Answer),
            Event::Stream { words } => {
                if self.rules.say == Say::Growing && self.words.len() <= LONGEST_SO_FAR {
                    self.is_more |= !words.is_empty();
                    self.words.push_str(&words);
                }
                self.wait_for(Waiting::More)
            }
            Event::Compacting => self.wait_for(Waiting::Compaction),
            Event::Retry(retry) => {
                self.waiting = Waiting::Retry(Duration::from_millis(retry.delay_ms));
                vec![Act::Report(Report::Progress(Some(waits(&retry))))]
            }
            Event::TaskStarted { id } => {
                self.tasks.insert(id);
                Vec::new()
            }
            Event::TaskEnded { id } => {
                self.tasks.remove(&id);
                Vec::new()
            }
            Event::Tasks(tasks) => {
                self.tasks = tasks.into_iter().collect();
                Vec::new()
            }
            Event::Result(outcome) => self.result(&outcome),
            Event::Asked { request, what } => self.asked(&request, what),
            Event::Reply { .. } | Event::Other => Vec::new(),
            Event::Unknown(what) => {
                let note = format!("claude: a line of {what} is not known and is ignored");
                if self.unknown.insert(what) { vec![Act::Note(note)] } else { Vec::new() }
            }
        }
    }

    /// Returns the unfinished text, if it has grown since the last call.
    pub(super) fn so_far(&mut self) -> Option<String> {
        let words = Some(self.words.clone()).filter(|words| !words.is_empty());
        let all = self.texts.iter().cloned().chain(words).collect::<Vec<_>>().join("\n\n");
        std::mem::take(&mut self.is_more).then_some(all)
    }

    /// Returns for how long the CLI may say nothing; `None`: as long as it likes.
    pub(super) fn patience(&self) -> Option<Duration> {
        if self.state == State::Idle && self.sent.is_empty() {
            return (self.deferred && self.tasks.is_empty()).then_some(WAKING);
        }
        if self.tools.any() {
            return None;
        }
        Some(match self.waiting {
            Waiting::Answer | Waiting::More => self.rules.stall,
            Waiting::Retry(delay) => self.rules.stall + delay,
            Waiting::Compaction => self.rules.stall * COMPACTION,
        })
    }

    /// The CLI has said nothing for longer than that.
    pub(super) fn silent(&mut self) -> Vec<Act> {
        if self.state == State::Idle && self.sent.is_empty() {
            self.deferred = false;
            return vec![Act::Report(Report::TurnDone { say: None, batches: Vec::new() })];
        }
        let (kind, when) = match self.waiting {
            Waiting::More => ("stalled_mid_answer", "in the middle of the model's answer"),
            Waiting::Answer | Waiting::Retry(_) => {
                ("stalled_before_answer", "before the model began to answer")
            }
            Waiting::Compaction => ("stalled_before_answer", "while it shortened the conversation"),
        };
        fail(&Failure::new(
            kind,
            format!("the CLI said nothing for {} s {when}", self.rules.stall.as_secs_f32()),
        ))
    }

    /// The CLI has ended, as `how` says.
    pub(super) fn ended(&mut self, how: &Ended) -> Vec<Act> {
        let failure = match how {
            Ended::Well(words) if self.results == 0 => Failure::new(
                "no_result",
                format!("the CLI ended with code 0 and said nothing; is its TMPDIR writable? {words}"),
            ),
            Ended::Well(words) | Ended::Badly(words) => Failure::new("exited", words),
        };
        fail(&failure)
    }

    fn init(&mut self, session: String, tools: Option<&str>, away: Vec<(String, String)>) -> Vec<Act> {
        let mut acts = vec![Act::Report(Report::Session(session))];
        for (server, state) in away {
            let note = format!("the tool server {server} is not connected: {state}; `g2 doctor` tries it");
            if self.away.insert(server) {
                acts.push(Act::Report(Report::Progress(Some(note))));
            }
        }
        if tools != Some("connected") {
            let state = tools.unwrap_or("not listed");
            acts.extend(fail(&Failure::new(
                "tools",
                format!("the server {} of our tools is {state}", crate::tools::SERVER),
            )));
        }
        acts
    }

    fn result(&mut self, outcome: &super::event::Outcome) -> Vec<Act> {
        if failure::is_unknown_session(outcome) {
            return vec![Act::Fresh];
        }
        self.results += 1;
        self.waiting = Waiting::Answer;
        let mut acts: Vec<Act> = self.tools.clear().map(Act::Report).into_iter().collect();
        let last = self.last.take();
        if let Some(failure) = failure::of(outcome, last.as_ref().map(|(by, error)| (*by, error.as_deref())))
        {
            if self.sent.is_empty() {
                // Nobody has asked for this turn, so nobody waits for it.
                acts.push(Act::Report(Report::Failed(failure.to_string())));
            } else {
                acts.extend(fail(&failure));
            }
            return acts;
        }
        let taken: Vec<Sent> = self.sent.extract_if(.., |sent| sent.taken).collect();
        // The result is the last text alone.
        let texts = std::mem::take(&mut self.texts);
        (self.words, self.is_more) = (String::new(), false);
        let whole =
            if texts.last() == Some(&outcome.text) { texts.join("\n\n") } else { outcome.text.clone() };
        let say = Some(whole).filter(|text| !text.is_empty());
        let was_deferred = std::mem::replace(&mut self.deferred, !self.tasks.is_empty());
        let asked = !taken.is_empty();
        let batches = taken.into_iter().filter_map(|sent| sent.turn.batch).collect();
        let report = match (asked, self.deferred) {
            (_, true) => Report::TurnDeferred { say, batches },
            (true, false) => Report::TurnDone { say, batches },
            (false, false) => match say {
                Some(text) => Report::Say(text),
                None if was_deferred => Report::TurnDone { say: None, batches },
                None => Report::Alive,
            },
        };
        acts.push(Act::Report(report));
        acts
    }

    fn asked(&mut self, request: &str, what: Ask) -> Vec<Act> {
        match what {
            Ask::Hook(input) => self.hook(request, &input),
            Ask::Permission { tool } => vec![Act::Write(say::answer(
                request,
                &json!({"behavior": "deny", "message": format!("{tool} needs somebody to allow it, and nobody is here")}),
            ))],
            Ask::Mcp { server, message } if server == crate::tools::SERVER => {
                vec![match mcp::on(request, &message, &self.rules.place) {
                    Message::Answer(line) => Act::Write(line),
                    Message::Call(call) => Act::Call(call),
                }]
            }
            Ask::Mcp { server, .. } => {
                vec![Act::Write(say::cannot(request, &format!("no server {server:?}")))]
            }
            Ask::Other(what) => vec![
                Act::Note(format!("claude: a request of type {what:?} is not known and is refused")),
                Act::Write(say::cannot(request, "not known")),
            ],
        }
    }

    fn hook(&mut self, request: &str, input: &Value) -> Vec<Act> {
        let go_on = || Act::Write(say::answer(request, &json!({"continue": true})));
        match hooks::read(input) {
            Hook::Before { asks: Some(input), .. } if self.rules.asks() => self.asks(request, &input),
            Hook::Before { id, name, .. } if self.rules.blocked.contains(&name) => {
                vec![
                    Act::Note(format!("claude: {name} was asked for ({id}) and refused")),
                    Act::Write(say::answer(request, &hooks::deny(&name))),
                ]
            }
            Hook::Before { id, name, timeout_ms, asks: _, about } => {
                let started = Report::ToolStarted { id: id.clone(), name: name.clone(), about };
                self.tools.started(id, name, timeout_ms);
                let shown = self.tools.shown();
                shown.into_iter().chain([started]).map(Act::Report).chain([go_on()]).collect()
            }
            Hook::After { id, failed } => {
                let ended = self.tools.ended(&id).then_some(Report::ToolEnded { id, failed });
                let shown = self.tools.shown();
                ended.into_iter().chain(shown).map(Act::Report).chain([go_on()]).collect()
            }
            Hook::Compact { transcript, session } => {
                self.waiting = Waiting::Compaction;
                vec![Act::Archive { request: request.to_owned(), transcript, session }]
            }
            Hook::Other => vec![go_on()],
        }
    }

    /// The CLI's own tool for questions: they are asked in the chat in its place.
    fn asks(&self, request: &str, input: &Value) -> Vec<Act> {
        let place = &self.rules.place;
        let commands: Result<Vec<_>, _> =
            hooks::questions(input).iter().map(|call| tools::command(ASK_USER, call, place)).collect();
        vec![match commands {
            Ok(commands) if commands.is_empty() => {
                Act::Write(say::answer(request, &hooks::deny(hooks::ASKS)))
            }
            Ok(commands) => Act::Call(ToolCall::of_hook(request, commands)),
            Err(words) => Act::Write(say::answer(request, &hooks::asked(&[tools::Answer::Refused(words)]))),
        }]
    }

    /// A blocked tool that has answered well has run, whatever the hooks say.
    fn answered(&mut self, id: &str, ran: Ran) -> Vec<Act> {
        self.waiting = Waiting::Answer;
        let call = self.blocked_calls.extract_if(.., |call| call.id == id).next();
        match (call, ran) {
            (Some(call), Ran::Well) => vec![Act::Report(Report::BlockedTool(call.name))],
            (Some(_), Ran::Badly) | (None, _) => Vec::new(),
        }
    }

    fn wait_for(&mut self, what: Waiting) -> Vec<Act> {
        self.waiting = what;
        Vec::new()
    }

    fn done(&self) -> Option<Act> {
        (self.closing && self.state == State::Idle && self.sent.is_empty()).then_some(Act::Close)
    }
}

#[cfg(test)]
mod tests;

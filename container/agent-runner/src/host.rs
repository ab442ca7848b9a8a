//! The host as a provider sees it: somebody to report to and to ask.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use ipc_handlers::wire::{Kind, LONGEST_SO_FAR, PROTOCOL, Record, Say, Status};

use crate::{
    inbox::Inbox,
    mailbox::Mailbox,
    records::{OutputGone, Records},
    seat::Seat,
    state::State,
    uses::Uses,
};

/// Something that happened to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The agent has said something, and its turn goes on.
    Say(String),
    /// What there is so far of the text that the agent says next.
    SoFar(String),
    /// The agent has finished with these batches, perhaps with a last word. A task's turn has no batch.
    TurnDone { say: Option<String>, batches: Vec<String> },
    /// The same, and the agent works on in the background: its run must not end yet.
    TurnDeferred { say: Option<String>, batches: Vec<String> },
    /// The turn has failed; its batches are not handled.
    Failed(String),
    /// The agent is at work.
    Progress(Option<String>),
    /// The agent works on in the background after its turn.
    Deferred,
    /// A use of a tool begins; `about`: its first argument.
    ToolStarted { id: String, name: String, about: String },
    /// The use has ended.
    ToolEnded { id: String, failed: bool },
    /// Of the tools that run, this one may take longest: `timeout_ms`.
    InTool { name: String, timeout_ms: Option<u64> },
    /// No tool runs.
    ToolFinished,
    /// This blocked tool has run, whatever was done against it.
    BlockedTool(String),
    /// The agent's session has this id from now on. No sign of life.
    Session(String),
    /// The agent lives; nothing else is known.
    Alive,
}

/// What a provider reports to and asks through. Threads may share it.
pub struct Host {
    pub(crate) records: Arc<Records>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) state: State,
    pub(crate) mailbox: Mailbox,
    pub(crate) blocked_tools: Vec<String>,
    /// What of an answer the host wants before it is whole.
    pub(crate) say: Say,
    pub(crate) session: Mutex<Option<String>>,
    /// The session that the host knows of: that of the launch document, or the one that `ready` named.
    pub(crate) known_session: Mutex<Option<String>>,
    /// Whether `ready` was said.
    pub(crate) is_ready: AtomicBool,
    pub(crate) seat: Seat,
    /// Uses of tools that have begun.
    pub(crate) uses: Mutex<Uses>,
}

impl Host {
    /// Passes on what happened: as records, as a sign of life, in `state/`, by removing what was handled.
    ///
    /// # Errors
    /// [`OutputGone`]: nobody listens any more; leave.
    pub fn report(&self, event: Event) -> Result<(), OutputGone> {
        match event {
            Event::Session(id) => {
                *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
                return self.name_session();
            }
            Event::Say(text) => self.result(Some(text), Vec::new()),
            Event::SoFar(text) if self.say == Say::Growing && text.len() <= LONGEST_SO_FAR => {
                self.note(Kind::SoFar, Some(text))
            }
            Event::SoFar(_) => Ok(()),
            Event::TurnDone { say, batches } => self.turn_done(say, batches),
            Event::TurnDeferred { say, batches } => self.turn_deferred(say, batches),
            Event::Failed(error) => self.records.write(Record {
                status: Status::Error,
                error: Some(error),
                new_session_id: self.session(),
                ..Record::default()
            }),
            Event::Progress(text) => self.note(Kind::Progress, text),
            Event::Deferred => self.note(Kind::Deferred, None),
            Event::ToolStarted { id, name, about } => self.tool_started(&id, name, &about),
            Event::ToolEnded { id, failed } => self.tool_ended(&id, failed),
            Event::InTool { name, timeout_ms } => {
                self.state.tool_started(&name, timeout_ms);
                Ok(())
            }
            Event::ToolFinished => {
                self.state.tool_finished();
                Ok(())
            }
            Event::BlockedTool(name) => self.note(Kind::BlockedTool, Some(name)),
            Event::Alive => Ok(()),
        }?;
        self.state.alive();
        Ok(())
    }

    /// Returns the way to send commands.
    #[must_use]
    pub fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Writes bytes to stdout that are no record, as a badly behaved agent would.
    ///
    /// # Errors
    /// [`OutputGone`]: nobody listens any more; leave.
    pub fn print_raw(&self, bytes: &[u8]) -> Result<(), OutputGone> {
        self.records.raw(bytes)
    }

    /// Announces protocol 2, with the session if it is known by now. No sign of life.
    pub(crate) fn ready(&self) -> Result<(), OutputGone> {
        self.is_ready.store(true, Ordering::Release);
        let named = self.session();
        if named.is_some() {
            self.known_session.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&named);
        }
        self.records.write(Record {
            kind: Kind::Ready,
            protocol: Some(PROTOCOL),
            new_session_id: named,
            ..Record::default()
        })
    }

    /// Says `ready` again where only that tells the host of the session: a command that archives the conversation may come
    /// long before the first answer.
    fn name_session(&self) -> Result<(), OutputGone> {
        let is_known = *self.known_session.lock().unwrap_or_else(PoisonError::into_inner) == self.session();
        if is_known || !self.is_ready.load(Ordering::Acquire) { Ok(()) } else { self.ready() }
    }

    /// A turn without a batch ends with a record without text, so that its end can be told from a word in between.
    fn turn_done(&self, say: Option<String>, batches: Vec<String>) -> Result<(), OutputGone> {
        if batches.is_empty() && say.is_some() {
            self.result(say, Vec::new())?;
            return self.result(None, Vec::new());
        }
        self.result(say, batches.clone())?;
        for id in &batches {
            self.inbox.finished(id);
        }
        Ok(())
    }

    /// One record says both that the batches are handled and that there is more to come: between two the host might
    /// end the run.
    fn turn_deferred(&self, say: Option<String>, batches: Vec<String>) -> Result<(), OutputGone> {
        if say.is_some() {
            self.result(say, Vec::new())?;
        }
        self.records.write(Record {
            kind: Kind::Deferred,
            handled: batches.clone(),
            new_session_id: self.session(),
            ..Record::default()
        })?;
        for id in &batches {
            self.inbox.finished(id);
        }
        Ok(())
    }

    fn tool_started(&self, id: &str, name: String, about: &str) -> Result<(), OutputGone> {
        if self.blocked_tools.contains(&name) {
            return self.note(Kind::BlockedTool, Some(name));
        }
        let begun = self.uses.lock().unwrap_or_else(PoisonError::into_inner).begin(
            id,
            &name,
            about,
            self.state.passed(),
        );
        self.records.write(Record {
            kind: Kind::Progress,
            tool: Some(name),
            tool_call: begun.call,
            tool_about: begun.about,
            ..Record::default()
        })
    }

    fn tool_ended(&self, id: &str, failed: bool) -> Result<(), OutputGone> {
        let ended =
            self.uses.lock().unwrap_or_else(PoisonError::into_inner).end(id, failed, self.state.passed());
        match ended {
            Some(end) => self.records.write(Record {
                kind: Kind::Progress,
                tool_end: Some(Box::new(end)),
                ..Record::default()
            }),
            None => Ok(()),
        }
    }

    fn result(&self, result: Option<String>, handled: Vec<String>) -> Result<(), OutputGone> {
        self.records.write(Record { result, handled, new_session_id: self.session(), ..Record::default() })
    }

    fn note(&self, kind: Kind, result: Option<String>) -> Result<(), OutputGone> {
        self.records.write(Record { kind, result, ..Record::default() })
    }

    fn session(&self) -> Option<String> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

//! The sessions: what came in, and the agent's own conversation.

use std::collections::VecDeque;

use ipc_handlers::{Folder, Time, names::is_session_id};
use serde_json::Value;

use super::{
    super::parts::{key, keyed, name, read_json},
    NanoclawV2,
    central::all,
    content::{files, text_of},
    names,
    receipts::{Noted, Opened, finished},
};
use crate::{
    domain::moved::{
        findings::Finding,
        rows::{Fate, Heard, Keyed, Kind, LONGEST_KEY, LONGEST_ROW, Lane, Message, Reply, Row},
    },
    moving::{
        addresses::known,
        foreign::{Foreign, NotReadable, Read},
        installation::Unread,
        moment,
        source::{Batch, MOST_BYTES, MOST_ROWS},
    },
};

/// As many sessions are read.
const MOST_SESSIONS: usize = 10_000;
/// As many findings of one session are told one by one; the others are counted.
const MOST_TOLD: usize = 10_000;
const IN: [&str; 13] = [
    "id",
    "seq",
    "kind",
    "timestamp",
    "status",
    "process_after",
    "recurrence",
    "series_id",
    "trigger",
    "platform_id",
    "channel_type",
    "thread_id",
    "content",
];
/// A session that is read.
pub(super) struct Session {
    pub id: String,
    pub group: Folder,
    /// Its folder, below that of the installation.
    pub inner: String,
    pub chat: Option<String>,
    pub channel: String,
    pub thread: String,
    last_active: Option<Time>,
}

/// Whether an agent has finished with a message.
fn is_done(row: &Read, finished: &Noted<bool>) -> bool {
    match row.text("status").as_deref() {
        Some("completed" | "failed") => true,
        Some(_) | None => row.text("id").and_then(|id| finished.by_id.get(&id).copied()).unwrap_or(false),
    }
}

/// Returns the number of the newest message that was answered.
fn given_up_to(inbound: &Foreign, outbound: Option<&Opened>) -> i64 {
    let (mut newest, mut after) = (i64::MIN, i64::MIN);
    loop {
        // A damaged place is told where the messages themselves are read.
        let page = inbound.page("messages_in", &["id", "seq", "status", "trigger"], after, MOST_ROWS);
        let finished = finished(outbound, &page.rows);
        let answered =
            page.rows.iter().filter(|row| is_done(row, &finished) && row.int("trigger") != Some(0));
        newest = answered.filter_map(|row| row.int("seq")).fold(newest, i64::max);
        match page.next {
            Some(next) => after = next,
            None => return newest,
        }
    }
}

impl NanoclawV2 {
    /// Reads the next session; returns whether there may be more.
    pub(super) fn read_sessions(&mut self, out: &mut Batch) -> anyhow::Result<bool> {
        let mut waiting = match self.waiting.take() {
            Some(waiting) => waiting,
            None => self.list_sessions(out),
        };
        let next = waiting.pop_front();
        self.waiting = Some(waiting);
        let Some(row) = next else {
            self.order.sort()?;
            return Ok(false);
        };
        match self.session(&row) {
            Ok(session) => {
                self.read_session(&row, &session, out)?;
                match std::mem::take(&mut self.untold) {
                    0 => {}
                    more => {
                        let why = format!("{more} more of its rows are not taken, or with a change");
                        out.findings.push(Finding::left(Kind::Source, session.inner, why));
                    }
                }
            }
            Err(why) => {
                let id = row.text("id").unwrap_or_default();
                out.findings.push(Finding::left(Kind::Lane, id, why));
            }
        }
        Ok(true)
    }

    /// Bounds what is told of one session.
    pub(super) fn bound_told(&mut self, out: &mut Batch) {
        self.untold += out.findings.len().saturating_sub(MOST_TOLD) as u64;
        out.findings.truncate(MOST_TOLD);
    }

    fn list_sessions(&self, out: &mut Batch) -> VecDeque<Read> {
        let columns = &[
            "id",
            "agent_group_id",
            "messaging_group_id",
            "thread_id",
            "agent_provider",
            "status",
            "last_active",
            "created_at",
        ];
        let mut rows = all(&self.store, "sessions", columns, Kind::Lane, &mut out.findings);
        if rows.len() > MOST_SESSIONS {
            let why = format!("there are more than {MOST_SESSIONS} sessions; the others are not read");
            out.findings.push(Finding::left(Kind::Lane, "sessions", why));
        }
        rows.truncate(MOST_SESSIONS);
        rows.into()
    }

    fn session(&self, row: &Read) -> Result<Session, &'static str> {
        let id = key(row.text("id"))?;
        let agent = row.text("agent_group_id").unwrap_or_default();
        if [&id, &agent].iter().any(|part| part.contains('/') || part.starts_with('.') || part.is_empty()) {
            return Err("its id leads to another folder");
        }
        let group = self.central.folders.get(&agent).cloned().ok_or("its agent is not there")?;
        let place = row.text("messaging_group_id").and_then(|id| self.central.places.get(&id));
        let channel = place.map(|place| place.channel.clone()).unwrap_or_default();
        let thread = row.text("thread_id");
        Ok(Session {
            inner: format!("data/v2-sessions/{agent}/{id}"),
            chat: place.map(|place| place.jid.clone()),
            thread: names::thread(&channel, None, thread.as_deref()),
            last_active: row.text("last_active").and_then(|at| moment::read(&at, &self.zone)),
            id,
            group,
            channel,
        })
    }

    /// Opens a store of a session; `None`: it can't be read, which is told unless it is not there.
    fn store_of(&self, session: &Session, file: &str, out: &mut Batch) -> Option<Opened> {
        let inner = format!("{}/{file}", session.inner);
        match Foreign::open(&self.installation, &inner) {
            Ok((store, findings)) => {
                let is_whole = findings.is_empty();
                out.findings.extend(findings);
                Some(Opened { store, is_whole })
            }
            Err(NotReadable::Copy(crate::moving::foreign::NoCopy::Unread(Unread::Missing))) => None,
            Err(why) => {
                out.findings.push(Finding::left(Kind::Source, inner, why.to_string()));
                None
            }
        }
    }

    fn read_session(&mut self, row: &Read, session: &Session, out: &mut Batch) -> anyhow::Result<()> {
        let inbound = self.store_of(session, "inbound.db", out);
        let outbound = self.store_of(session, "outbound.db", out);
        let mut continuation = None;
        if let Some(Opened { store, .. }) = &outbound {
            for row in all(store, "session_state", &["key", "value"], Kind::Lane, &mut out.findings) {
                match row.text("key").as_deref() {
                    Some("continuation:claude") => continuation = row.text("value"),
                    Some("sdk_session_id") if continuation.is_none() => continuation = row.text("value"),
                    Some(_) | None => {}
                }
            }
        }
        self.lane(row, session, continuation, out);
        if let Some(inbound) = &inbound {
            self.read_inbound(inbound, outbound.as_ref(), session, out)?;
        }
        if let Some(outbound) = &outbound {
            self.read_outbound(outbound, inbound.as_ref(), session, out)?;
        }
        Ok(())
    }

    fn lane(&mut self, row: &Read, session: &Session, continuation: Option<String>, out: &mut Batch) {
        let chats: Vec<String> = match &session.chat {
            Some(chat) => vec![chat.clone()],
            // One session for all chats goes on in each of them.
            None => self.central.chats_of(&session.group).map(str::to_owned).take(100).collect(),
        };
        if row.text("status").as_deref() == Some("closed") {
            return;
        }
        let continuation = continuation.filter(|id| {
            let taken = is_session_id(id);
            if !taken {
                let why = "its conversation has no id that an agent takes; a new one begins";
                out.findings.push(Finding::changed(Kind::Lane, session.id.as_str(), why));
            }
            taken
        });
        for chat in chats {
            let is_sticky = self.central.sticky.contains(&(session.group.clone(), chat.clone()));
            let lane = Lane {
                group: session.group.clone(),
                thread: session.thread.clone(),
                sticky_at: session.last_active.filter(|_| is_sticky),
                session: continuation.clone(),
                active_at: session.last_active,
                chat,
            };
            self.lanes.push_back(keyed(format!("{} {}", session.id, lane.chat), Row::Lane(lane)));
        }
    }

    fn read_inbound(
        &mut self,
        inbound: &Opened,
        outbound: Option<&Opened>,
        session: &Session,
        out: &mut Batch,
    ) -> anyhow::Result<()> {
        // Context that stands before an answered message was given with it.
        let given_up_to = given_up_to(&inbound.store, outbound);
        let mut after = i64::MIN;
        loop {
            let page = inbound.store.page("messages_in", &IN, after, MOST_ROWS);
            let finished = finished(outbound, &page.rows);
            if !finished.is_all && outbound.is_some() && !page.rows.is_empty() {
                let why =
                    "what its agent has finished with can't be read whole; the others count as unanswered";
                out.findings.push(Finding::changed(Kind::Message, session.id.as_str(), why));
            }
            super::super::parts::told(
                &format!("{}: messages_in", session.id),
                &page,
                Kind::Message,
                &mut out.findings,
            );
            for row in &page.rows {
                let told = format!("{}: messages_in row {}", session.id, row.number);
                if row.too_long || row.has_bytes() {
                    out.findings.push(Finding::left(
                        Kind::Message,
                        told,
                        "it is longer than a message is, or no text",
                    ));
                    continue;
                }
                match row.text("kind").as_deref() {
                    Some("task") => self.task(row, session, out),
                    Some("chat" | "chat-sdk") => {
                        let fate = match (row.int("trigger") != Some(0), is_done(row, &finished)) {
                            (true, true) => Fate::Answered,
                            (true, false) => Fate::Waits,
                            (false, _) if row.int("seq").is_some_and(|seq| seq < given_up_to) => Fate::Given,
                            (false, _) => Fate::Kept,
                        };
                        match self.message(row, session, fate, &mut out.findings) {
                            Ok(message) => {
                                let key =
                                    format!("{:015} {} {}", message.received_at.0, message.chat, message.id);
                                let row = keyed(
                                    format!("{} {}", message.chat, message.id),
                                    Row::Message(Box::new(message)),
                                );
                                self.order.add(&key, &serde_json::to_string(&row)?)?;
                            }
                            Err(why) => out.findings.push(Finding::left(Kind::Message, told, why)),
                        }
                    }
                    // The host's answers to its own agent.
                    Some("system") => {}
                    Some(_) | None => {
                        out.findings.push(Finding::left(Kind::Message, told, "it is no message of a person"));
                    }
                }
            }
            self.bound_told(out);
            match page.next {
                Some(next) => after = next,
                None => return Ok(()),
            }
        }
    }

    /// The chat and the thread of a row.
    pub(super) fn place(&self, row: &Read, session: &Session) -> Result<(String, String), &'static str> {
        let channel = row.text("channel_type").unwrap_or_else(|| session.channel.clone());
        if channel == "agent" {
            return Err("it is between two agents, which do not talk to each other here");
        }
        let platform_id = row.text("platform_id");
        let thread = names::thread(&channel, platform_id.as_deref(), row.text("thread_id").as_deref());
        match platform_id {
            Some(id) => {
                let jid = names::jid(&channel, &id);
                if self.central.has_chat(&jid) {
                    Ok((jid, thread))
                } else {
                    Err("its chat is not in the store")
                }
            }
            None => Ok((session.chat.clone().ok_or("it has no chat")?, session.thread.clone())),
        }
    }

    fn message(
        &self,
        row: &Read,
        session: &Session,
        fate: Fate,
        findings: &mut Vec<Finding>,
    ) -> Result<Message, &'static str> {
        let (chat, thread) = self.place(row, session)?;
        let whole = key(row.text("id"))?;
        // The id of the platform, and the agent that it was given to.
        let mut ends = whole.match_indices(':');
        let id = ends
            .find(|(at, _)| self.central.folders.contains_key(&whole[at + 1..]))
            .map_or(whole.as_str(), |(at, _)| &whole[..at])
            .to_owned();
        if chat.len() + id.len() >= LONGEST_KEY {
            return Err("its id is longer than one is");
        }
        let content = row.text("content").unwrap_or_default();
        let read = read_json(&content);
        let told = format!("{chat} {id}");
        if read.is_none() {
            findings.push(Finding::changed(
                Kind::Message,
                told.as_str(),
                "its content is no JSON; it is taken as its text",
            ));
        }
        let read = read.unwrap_or(Value::String(content));
        let text = match &read {
            Value::String(text) => text.clone(),
            other => text_of(other, &["text"]).unwrap_or_default(),
        };
        if text.len() > LONGEST_ROW {
            return Err("it is longer than a message is");
        }
        let at = row.text("timestamp").and_then(|at| moment::read(&at, &self.zone));
        if at.is_none() {
            findings.push(Finding::changed(Kind::Message, told.as_str(), "its time is none; it comes first"));
        }
        if row.mended() {
            findings.push(Finding::changed(
                Kind::Message,
                told,
                "some of its bytes are no text; U+FFFD stands there",
            ));
        }
        let author = read.get("author");
        let of_author = |keys: &[&str]| author.and_then(|author| text_of(author, keys));
        let native =
            text_of(&read, &["senderId", "sender"]).or_else(|| of_author(&["userId"])).unwrap_or_default();
        let sender_name = text_of(&read, &["senderName"]).or_else(|| of_author(&["fullName", "userName"]));
        let native = native.strip_prefix(&format!("{}:", session.channel)).unwrap_or(&native).to_owned();
        let reply = read.get("replyTo").map(|reply| Reply {
            id: text_of(reply, &["id", "messageId"]),
            text: text_of(reply, &["text"]),
            sender: text_of(reply, &["sender", "senderName"]),
            ..Reply::default()
        });
        let heard = Heard {
            group: session.group.clone(),
            fate,
            rule: None,
            reason: Some(
                match fate {
                    Fate::Answered => "the agent was given it before it moved",
                    Fate::Waits => "its agent had not finished with it",
                    Fate::Given => "the agent was given it as context before it moved",
                    Fate::Kept | Fate::Ignored => "it woke nobody, and is context for the next one",
                }
                .to_owned(),
            ),
        };
        Ok(Message {
            replay_key: id.clone(),
            sender: known().user_id(&chat, &native),
            sender_name: name(sender_name, &native),
            at,
            received_at: at.unwrap_or(Time(0)),
            from_me: false,
            bot: author.and_then(|author| author.get("isBot")) == Some(&Value::Bool(true)),
            mentioned: read.get("isMention") == Some(&Value::Bool(true)),
            late: false,
            reply: reply.filter(|reply| reply.id.is_some() || reply.text.is_some()),
            origin: None,
            forwarded_from: None,
            comment: None,
            title: None,
            edited_at: None,
            files: files(&read, session),
            heard: vec![heard],
            id,
            thread,
            text,
            chat,
        })
    }

    /// Yields a batch of messages and texts; returns whether there may be more. The same message in several sessions is one.
    pub(super) fn said(&mut self, out: &mut Batch) -> anyhow::Result<bool> {
        let mut bytes = 0;
        while out.rows.len() < MOST_ROWS && bytes < MOST_BYTES {
            let Some((_, value)) = self.order.take(1)?.pop() else {
                out.rows.extend(self.open.take());
                return Ok(false);
            };
            bytes += value.len();
            let next: Keyed = serde_json::from_str(&value)?;
            match (&mut self.open, next) {
                (
                    Some(Keyed { key, row: Row::Message(open) }),
                    Keyed { key: same, row: Row::Message(more) },
                ) if *key == same => {
                    for heard in more.heard {
                        if open.heard.iter().all(|known| known.group != heard.group) {
                            open.heard.push(heard);
                        }
                    }
                }
                (open, next) => out.rows.extend(open.replace(next)),
            }
        }
        Ok(true)
    }
}

//! The sessions: what came in, and the agent's own conversation.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, Time, names::is_session_id};
use serde_json::Value;

use super::{
    super::parts::{key, keyed, name, read_json},
    NanoclawV2,
    central::all,
    content::{files, text_of},
    names,
    texts::Delivered,
};
use crate::{
    domain::{
        moved::{
            findings::Finding,
            rows::{Fate, Heard, Keyed, Kind, LONGEST_KEY, LONGEST_ROW, Lane, Message, Reply, Row},
        },
        platforms::addresses::user_id,
    },
    moving::{
        foreign::{Foreign, NotReadable, Read},
        installation::Unread,
        moment,
        source::{Batch, MOST_BYTES, MOST_ROWS},
    },
};

/// As many sessions are read.
const MOST_SESSIONS: usize = 10_000;
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

impl NanoclawV2 {
    /// Reads every session.
    pub(super) fn read_sessions(&mut self, out: &mut Batch) -> anyhow::Result<()> {
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
        let rows = all(&self.store, "sessions", columns, Kind::Lane, &mut out.findings);
        if rows.len() > MOST_SESSIONS {
            let why = format!("there are more than {MOST_SESSIONS} sessions; the others are not read");
            out.findings.push(Finding::left(Kind::Lane, "sessions", why));
        }
        for row in rows.iter().take(MOST_SESSIONS) {
            match self.session(row) {
                Ok(session) => self.read_session(row, &session, out)?,
                Err(why) => {
                    let id = row.text("id").unwrap_or_default();
                    out.findings.push(Finding::left(Kind::Lane, id, why));
                }
            }
        }
        self.order.sort()
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
    fn store_of(&self, session: &Session, file: &str, out: &mut Batch) -> Option<Foreign> {
        let inner = format!("{}/{file}", session.inner);
        match Foreign::open(&self.installation, &inner) {
            Ok((store, findings)) => {
                out.findings.extend(findings);
                Some(store)
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
        let mut finished: BTreeMap<String, bool> = BTreeMap::new();
        let mut continuation = None;
        if let Some(store) = &outbound {
            for row in
                all(store, "processing_ack", &["message_id", "status"], Kind::Message, &mut out.findings)
            {
                let done = matches!(row.text("status").as_deref(), Some("completed" | "failed"));
                finished.extend(row.text("message_id").map(|id| (id, done)));
            }
            for row in all(store, "session_state", &["key", "value"], Kind::Lane, &mut out.findings) {
                match row.text("key").as_deref() {
                    Some("continuation:claude") => continuation = row.text("value"),
                    Some("sdk_session_id") if continuation.is_none() => continuation = row.text("value"),
                    Some(_) | None => {}
                }
            }
        }
        self.lane(row, session, continuation, out);
        let mut delivered = BTreeMap::new();
        if let Some(store) = &inbound {
            for row in all(
                store,
                "delivered",
                &["message_out_id", "platform_message_id", "status", "delivered_at"],
                Kind::Text,
                &mut out.findings,
            ) {
                let told = Delivered {
                    failed: row.text("status").as_deref() == Some("failed"),
                    at: row.text("delivered_at").and_then(|at| moment::read(&at, &self.zone)),
                    platform_id: row.text("platform_message_id"),
                };
                delivered.extend(row.text("message_out_id").map(|id| (id, told)));
            }
            self.read_inbound(store, session, &finished, out)?;
        }
        if let Some(store) = &outbound {
            self.read_outbound(store, session, &delivered, out)?;
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
        store: &Foreign,
        session: &Session,
        finished: &BTreeMap<String, bool>,
        out: &mut Batch,
    ) -> anyhow::Result<()> {
        let is_done = |row: &Read| match row.text("status").as_deref() {
            Some("completed" | "failed") => true,
            Some(_) | None => row.text("id").and_then(|id| finished.get(&id).copied()).unwrap_or(false),
        };
        // Context that stands before an answered message was given with it.
        let given_up_to = {
            let rows = all(
                store,
                "messages_in",
                &["id", "seq", "status", "trigger", "kind"],
                Kind::Message,
                &mut Vec::new(),
            );
            let answered = rows.iter().filter(|row| is_done(row) && row.int("trigger") != Some(0));
            answered.filter_map(|row| row.int("seq")).max().unwrap_or(i64::MIN)
        };
        let mut after = i64::MIN;
        loop {
            let page = store.page("messages_in", &IN, after, MOST_ROWS);
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
                        let fate = match (row.int("trigger") != Some(0), is_done(row)) {
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
        let id = self
            .central
            .folders
            .keys()
            .find_map(|agent| whole.strip_suffix(agent.as_str()).and_then(|rest| rest.strip_suffix(':')))
            .unwrap_or(&whole)
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
            sender: user_id(&chat, &native),
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

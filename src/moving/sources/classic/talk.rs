//! Chats and messages, in the order of their times, with what became of each.

use std::collections::{BTreeMap, BTreeSet};

use ipc_handlers::Time;

use super::{
    super::parts::{jid, key, keyed, name},
    Classic, told,
};
use crate::{
    domain::{
        heard::{
            access::{Listed, UnknownSenders},
            engage::{Author, EngageVerdict, Heard as Hearing, Mentioned, Sticky},
        },
        moved::{
            findings::Finding,
            rows::{Chat, Fate, Heard, Keyed, Kind, LONGEST_KEY, LONGEST_ROW, Message, Reply, Row},
        },
        platforms::chats::ChatKind,
    },
    moving::{
        addresses::known,
        foreign::{Foreign, Read},
        moment,
        source::{Batch, MOST_BYTES, MOST_ROWS},
    },
};

const COLUMNS: [&str; 14] = [
    "id",
    "chat_jid",
    "sender",
    "sender_name",
    "content",
    "timestamp",
    "is_from_me",
    "is_bot_message",
    "reply_to_message_id",
    "reply_to_message_content",
    "reply_to_sender_name",
    "media_type",
    "media_mimetype",
    "media_path",
];
/// As many chats are known.
const MOST_CHATS: usize = 200_000;
/// A chat that holds no messages: the time of the last look at the names of groups.
const SYNC: &str = "__group_sync__";

impl Classic {
    /// Yields a page of chats; returns where the next one begins.
    pub(super) fn chats(&mut self, after: i64, out: &mut Batch) -> Option<i64> {
        let columns = ["jid", "name", "last_message_time", "channel", "is_group"];
        let page = self.store.page("chats", &columns, after, MOST_ROWS);
        told("chats", &page, Kind::Chat, &mut out.findings);
        for row in &page.rows {
            let address = row.text("jid");
            if address.as_deref() == Some(SYNC) {
                continue;
            }
            let jid = match jid(address.clone()) {
                Ok(jid) => jid,
                Err(why) => {
                    out.findings.push(Finding::left(Kind::Chat, told_of("chats", row, address), why));
                    continue;
                }
            };
            let kind = if row.int("is_group") == Some(1) { ChatKind::Group } else { known().kind_of(&jid) };
            let time = row.text("last_message_time").and_then(|at| moment::read(&at, &self.zone));
            let heard = self.registry.of(&jid).is_some();
            out.rows.push(chat(&jid, row.text("name"), (kind, heard), time.unwrap_or(self.now)));
            self.told_chats.remove(&jid);
        }
        if page.next.is_none() {
            // A registered chat may have no row of its own.
            for jid in std::mem::take(&mut self.told_chats) {
                let called = self.registry.of(&jid).map(|one| one.group.to_string());
                out.rows.push(chat(&jid, called, (known().kind_of(&jid), true), self.now));
            }
        }
        page.next
    }

    /// Sorts the messages by their times, as their program did: by the text of the time.
    pub(super) fn sort(&mut self, out: &mut Batch) -> anyhow::Result<()> {
        let mut after = i64::MIN;
        // The newest answer in each chat, where its place is not known.
        let mut answered: BTreeMap<String, String> = BTreeMap::new();
        let unknown: Vec<String> =
            self.registry.all.iter().filter(|one| one.cursor.is_empty()).map(|one| one.jid.clone()).collect();
        let columns: &[&'static str] = match unknown.is_empty() {
            true => &["timestamp"],
            false => &["timestamp", "chat_jid", "is_bot_message", "is_from_me", "content"],
        };
        loop {
            let page = self.store.page("messages", columns, after, MOST_ROWS);
            told("messages", &page, Kind::Message, &mut out.findings);
            for row in &page.rows {
                let time = row.text("timestamp").unwrap_or_default();
                self.order.add(&time, &row.number.to_string())?;
                if unknown.is_empty() {
                    continue;
                }
                let Some(chat) = row.text("chat_jid").filter(|chat| unknown.contains(chat)) else { continue };
                if self.is_bots(row) {
                    let newest = answered.entry(chat).or_default();
                    if *newest < time {
                        *newest = time;
                    }
                }
            }
            let Some(next) = page.next else { break };
            after = next;
        }
        for (chat, time) in answered {
            if let Some(one) = self.registry.of_mut(&chat) {
                one.cursor = time;
            }
        }
        self.order.sort()
    }

    /// Yields a batch of messages; returns whether there may be more.
    pub(super) fn messages(&mut self, out: &mut Batch) -> anyhow::Result<bool> {
        let mut bytes = 0;
        while out.rows.len() < MOST_ROWS && bytes < MOST_BYTES {
            // One at a time: a batch is closed by its bytes, and what was taken from the order is not taken again.
            let Some((_, number)) = self.order.take(1)?.pop() else { return Ok(false) };
            for row in self.store.numbered("messages", &COLUMNS, &[number.parse()?]) {
                bytes += row.bytes();
                if let Some(message) = self.message(&row, &mut out.findings) {
                    out.rows.push(keyed(
                        format!("{} {}", message.chat, message.id),
                        Row::Message(Box::new(message)),
                    ));
                }
            }
        }
        Ok(true)
    }

    /// Whether an agent wrote it. Early versions told these by the name before the text.
    fn is_bots(&self, row: &Read) -> bool {
        let named = || {
            let text = row.text("content").unwrap_or_default();
            let prefix = format!("{}:", self.env.assistant);
            text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(&prefix))
        };
        match row.int("is_bot_message") {
            Some(0) => row.int("is_from_me") == Some(1) && named(),
            Some(_) => true,
            None => named(),
        }
    }

    fn message(&mut self, row: &Read, findings: &mut Vec<Finding>) -> Option<Message> {
        let spot = |id: Option<String>| told_of("messages", row, id);
        let mut left = |why: &str| {
            findings.push(Finding::left(Kind::Message, spot(row.text("id")), why));
            None
        };
        if row.too_long {
            return left("it is longer than a message is");
        }
        if row.has_bytes() {
            return left("it has bytes in the place of a text");
        }
        let chat = match jid(row.text("chat_jid")) {
            Ok(chat) => chat,
            Err(why) => return left(why),
        };
        let id = match key(row.text("id")) {
            Ok(id) => id,
            Err(why) => return left(why),
        };
        let text = row.text("content").unwrap_or_default();
        if text.len() > LONGEST_ROW {
            return left("it is longer than a message is");
        }
        if chat.len() + id.len() >= LONGEST_KEY {
            return left("its id is longer than one is");
        }
        if !self.chats.contains(&chat) {
            return left("its chat is not in the store");
        }
        let written = row.text("timestamp").unwrap_or_default();
        let at = moment::read(&written, &self.zone);
        let key = format!("{chat} {id}");
        if at.is_none() {
            let why = format!("its time {:?} is none; it has that of the message before", short(&written));
            findings.push(Finding::changed(Kind::Message, key.as_str(), why));
        }
        if row.mended() {
            let why = "some of its bytes are no text; U+FFFD stands there";
            findings.push(Finding::changed(Kind::Message, key.as_str(), why));
        }
        if let Some(path) = row.text("media_path").filter(|path| !path.is_empty()) {
            let why = format!("its file {} stays in the folder of its group", short(&path));
            findings.push(Finding::changed(Kind::Message, key.as_str(), why));
        }
        self.last_time = at.unwrap_or(self.last_time);
        let bot = self.is_bots(row);
        let from_me = row.int("is_from_me") == Some(1);
        let native = row.text("sender").unwrap_or_default();
        let sender = known().user_id(&chat, &native);
        let heard = match bot {
            true => Vec::new(),
            false => self.heard(&chat, &native, from_me, &text, &written).into_iter().collect(),
        };
        let (reply_id, reply_text) = (row.text("reply_to_message_id"), row.text("reply_to_message_content"));
        let reply = (reply_id.is_some() || reply_text.is_some()).then(|| Reply {
            id: reply_id,
            text: reply_text,
            sender: row.text("reply_to_sender_name"),
            ..Reply::default()
        });
        Some(Message {
            replay_key: id.clone(),
            id,
            thread: String::new(),
            sender_name: name(row.text("sender_name"), &native),
            sender,
            at,
            received_at: self.last_time,
            from_me,
            bot,
            mentioned: false,
            late: false,
            reply,
            origin: None,
            forwarded_from: None,
            comment: None,
            title: None,
            edited_at: None,
            files: Vec::new(),
            heard,
            text,
            chat,
        })
    }

    /// What became of a person's message. Times are compared as their program compared them: as texts.
    fn heard(&self, chat: &str, sender: &str, from_me: bool, text: &str, time: &str) -> Option<Heard> {
        let one = self.registry.of(chat)?;
        let said = |fate, reason: &str| {
            Some(Heard { group: one.group.clone(), fate, rule: None, reason: Some(reason.to_owned()) })
        };
        if text.is_empty() {
            return said(Fate::Ignored, "it had no text, and its program passed over such messages");
        }
        let verdict = one.listener.decide(&Hearing {
            text,
            author: Author::Person,
            mentioned: Mentioned::No,
            sticky: Sticky::No,
        });
        let listed = from_me || one.takes_all || self.senders.listed(chat, sender) == Listed::Allowed;
        let wakes = verdict.outcome == EngageVerdict::Wake && listed;
        match (time > one.cursor.as_str(), wakes) {
            (true, true) => said(Fate::Waits, "it came after the last one that the agent was given"),
            (true, false) => said(Fate::Kept, "it woke nobody, and is context for the next one"),
            (false, true) => said(Fate::Answered, "the agent was given it before it moved"),
            (false, false) => said(Fate::Given, "the agent was given it as context before it moved"),
        }
    }
}

/// Takes in the addresses of all chats of a store.
pub(super) fn chats_of(store: &Foreign, chats: &mut BTreeSet<String>, findings: &mut Vec<Finding>) {
    let mut after = i64::MIN;
    loop {
        let page = store.page("chats", &["jid"], after, MOST_ROWS);
        chats.extend(page.rows.iter().filter_map(|row| row.text("jid")));
        match page.next {
            Some(next) if chats.len() < MOST_CHATS => after = next,
            Some(_) => {
                let why = format!("it has more than {MOST_CHATS} chats; messages of the others are not read");
                return findings.push(Finding::left(Kind::Chat, "chats", why));
            }
            None => return,
        }
    }
}

/// A chat as it moves in: v1 heard everybody in one that was registered, and nobody in another.
fn chat(jid: &str, called: Option<String>, (kind, heard): (ChatKind, bool), created_at: Time) -> Keyed {
    let row = Chat {
        jid: jid.to_owned(),
        channel: known().channel_of(jid).to_owned(),
        name: name(called, jid),
        kind,
        unknown_senders: if heard { UnknownSenders::Public } else { UnknownSenders::Ask },
        threaded: false,
        members: None,
        alias_of: None,
        wired_before: false,
        created_at,
    };
    keyed(jid, Row::Chat(row))
}

/// How a row is named that has no key: by its table and its number.
pub(super) fn told_of(table: &str, row: &Read, id: Option<String>) -> String {
    match id.filter(|id| !id.is_empty()) {
        Some(id) => format!("{table} row {} ({})", row.number, short(&id)),
        None => format!("{table} row {}", row.number),
    }
}

/// The beginning of a text, for findings.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

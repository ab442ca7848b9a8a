//! A store with people in it, and what the loops do with it, step by step.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use g2::domain::heard::approvals::State;
use g2::{
    domain::{
        heard::{access::Listed, approvals::Approval, hearing::Rules, people::Role},
        rows::{Delivery, Inbound},
    },
    store::{
        Accepted, Asking, Decided, How, Judged, NewGroup, NewWiring, NextDelivery, Pick, Store, Unjudged,
    },
};
use ipc_handlers::effect::EngageMode;
use ipc_handlers::effect::IgnoredMessages;
use ipc_handlers::effect::SenderScope;
use ipc_handlers::{Folder, Time};

use crate::support::telegram;

pub(super) const NOW: Time = Time(1_800_000_000_000);
/// Where the owner is asked.
pub(super) const DESK: &str = "local:main";
pub(super) const OWNER: &str = "local:me";
/// A group chat that `family` is wired to, and whose senders are asked about.
pub(super) const CHAT: &str = "tg:-100";

pub(super) struct World {
    dir: tempfile::TempDir,
    pub(super) store: Store,
    pub(super) asking: Asking,
    pub(super) now: Time,
    sent: std::cell::Cell<u32>,
}

pub(super) fn folder(name: &str) -> Folder {
    Folder::parse(name).unwrap()
}

pub(super) fn asking() -> Asking {
    Asking { channels: vec!["local".into(), "telegram".into()].into(), ..Asking::default() }
}

impl World {
    /// The main group at the owner's desk, and `family` in [`CHAT`].
    pub(super) async fn new() -> Self {
        Self::with(asking(), &["family"]).await
    }

    /// Main, and these groups, each wired to [`CHAT`].
    pub(super) async fn with(asking: Asking, groups: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap().asking(asking.clone());
        store.learn_addresses(telegram()).await.unwrap();
        let world = Self { dir, store, asking, now: NOW, sent: std::cell::Cell::new(0) };
        world.group("main", Some(DESK)).await;
        for group in groups {
            world.group(group, Some(CHAT)).await;
        }
        world
    }

    pub(super) async fn group(&self, name: &str, chat: Option<&str>) {
        let group = NewGroup {
            folder: folder(name),
            name: name.into(),
            is_main: name == "main",
            trigger: "@G2".into(),
        };
        let wirings = chat.map(|chat| wiring(name, chat)).into_iter().collect();
        self.store.add_group(group, wirings, self.now).await.unwrap();
    }

    /// The daemon ends, and another one begins.
    pub(super) fn restart(&mut self) {
        self.store = Store::open(&self.dir.path().join("g2.sqlite")).unwrap().asking(self.asking.clone());
    }

    pub(super) fn later(&mut self, ms: i64) {
        self.now = self.now.plus_ms(ms);
    }

    /// Gives a role to somebody, who is asked in the chat of their own.
    pub(super) async fn role(&self, user: &str, role: Role, group: Option<&str>) {
        self.store.grant_role(user, role, group.map(folder), "test", self.now).await.unwrap();
        self.sql(&format!("UPDATE users SET dm_chat = coalesce(dm_chat, id) WHERE id = '{user}'"));
    }

    /// Writes to a column of a chat's row.
    pub(super) fn set_chat(&self, chat: &str, column: &str, value: &str) {
        self.sql(&format!(
            "INSERT INTO chats (jid, channel, name, kind, unknown_sender_policy, created_at) VALUES ('{chat}', 'telegram', '{chat}', 'group', 'request_approval', 0) ON CONFLICT DO NOTHING;
             UPDATE chats SET {column} = '{value}' WHERE jid = '{chat}'"
        ));
    }

    pub(super) fn sql(&self, sql: &str) {
        rusqlite::Connection::open(self.store.path()).unwrap().execute_batch(sql).unwrap();
    }

    pub(super) fn column<T: rusqlite::types::FromSql>(&self, sql: &str) -> Vec<T> {
        let c = rusqlite::Connection::open(self.store.path()).unwrap();
        let mut rows = c.prepare(sql).unwrap();
        rows.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect()
    }

    fn event(&self, chat: &str, sender: &str, text: &str) -> Inbound {
        self.sent.set(self.sent.get() + 1);
        Inbound {
            chat_jid: chat.into(),
            replay_key: format!("k{}", self.sent.get()),
            id: format!("k{}", self.sent.get()),
            sender: sender.into(),
            sender_name: sender.rsplit(':').next().unwrap().into(),
            text: text.into(),
            at: Some(self.now),
            mentioned: text.starts_with("@G2"),
            ..Inbound::default()
        }
    }

    pub(super) async fn accept(&self, chat: &str, sender: &str, text: &str) -> Accepted {
        self.store.accept(self.event(chat, sender, text), self.now).await.unwrap()
    }

    /// A message as it comes, changed by `change`, stored and judged.
    pub(super) async fn hear_as(
        &self,
        chat: &str,
        sender: &str,
        text: &str,
        change: impl FnOnce(&mut Inbound),
    ) -> i64 {
        let mut event = self.event(chat, sender, text);
        change(&mut event);
        let accepted = self.store.accept(event, self.now).await.unwrap();
        self.judge().await;
        accepted.seq
    }

    /// Stores a message and judges what waits to be; returns its number.
    pub(super) async fn hear(&self, chat: &str, sender: &str, text: &str) -> i64 {
        self.hear_as(chat, sender, text, |_| {}).await
    }

    /// What an agent's run has said in a chat.
    pub(super) fn agent_says(&self, chat: &str, text: &str) {
        let now = self.now.0;
        self.sql(&format!(
            "INSERT INTO outbox (chat_jid, text, status, cause, created_at, sent_at) VALUES ('{chat}', '{text}', 'sent', 'run 1 record 1', {now}, {now})"
        ));
    }

    /// Judges everything, as the daemon does.
    pub(super) async fn judge(&self) {
        loop {
            let rows = self.store.unjudged(100).await.unwrap();
            if rows.is_empty() {
                return;
            }
            let judged = rows.iter().map(judged).collect();
            self.store.judge(judged, self.now).await.unwrap();
        }
    }

    /// Says everything that is to be said to a chat; returns it.
    pub(super) async fn say_all(&self, chat: &str) -> Vec<Delivery> {
        let mut said = Vec::new();
        while let NextDelivery::Now(next) = self.store.begin_delivery(chat, self.now).await.unwrap() {
            self.store.delivered(next.id, 1, format!("p{}", next.id), self.now).await.unwrap();
            said.push(next);
        }
        said
    }

    /// A stranger asks, and the card is said to the owner; returns the question's number.
    pub(super) async fn stranger(&self, sender: &str, text: &str) -> i64 {
        self.hear(CHAT, sender, text).await;
        self.say_all(DESK).await;
        self.open().await.last().unwrap().id
    }

    /// The questions that are pending.
    pub(super) async fn open(&self) -> Vec<Approval> {
        let all = self.store.approvals(true).await.unwrap();
        all.into_iter().filter(|question| question.state == State::Pending).collect()
    }

    pub(super) async fn question(&self, id: i64) -> Approval {
        self.store.approval(id).await.unwrap().unwrap().0
    }

    /// What was done about a question, with who did it.
    pub(super) async fn audit(&self, id: i64) -> Vec<String> {
        let events = self.store.approval(id).await.unwrap().unwrap().1;
        events.into_iter().map(|event| format!("{}: {}", event.who, event.what)).collect()
    }

    pub(super) async fn pick(&self, id: i64, pick: Pick, by: &str) -> Decided {
        let decided = self.store.decide(id, pick, by, self.now).await.unwrap();
        self.judge().await;
        decided
    }

    pub(super) async fn yes(&self, id: i64) {
        assert_eq!(self.pick(id, Pick::Yes, OWNER).await.how, How::Done);
    }

    /// The texts that wake a group's agent in a chat, in the order in which it gets them.
    pub(super) fn woken(&self, group: &str, chat: &str) -> Vec<String> {
        self.column(&format!(
            "SELECT m.text FROM inbox i JOIN lanes l ON l.id = i.lane_id JOIN messages m ON m.seq = i.seq
             WHERE l.group_folder = '{group}' AND l.chat_jid = '{chat}' AND i.verdict = 'wake' AND i.n > l.cursor ORDER BY i.n"
        ))
    }

    /// What was not heard, by sender, with how often.
    pub(super) async fn dropped(&self) -> Vec<(String, i64)> {
        let mut dropped: Vec<(String, i64)> =
            self.store.dropped(None).await.unwrap().into_iter().map(|row| (row.sender, row.count)).collect();
        dropped.sort();
        dropped
    }

    pub(super) fn why(&self, seq: i64) -> String {
        self.store.why(seq, self.now).unwrap().unwrap().answer
    }

    pub(super) async fn wirings_of(&self, chat: &str) -> Vec<(String, String)> {
        let all = self.store.wirings().await.unwrap().into_iter().filter(|wiring| wiring.chat_jid == chat);
        all.map(|wiring| (wiring.group.to_string(), wiring.engage_mode.to_string())).collect()
    }
}

pub(super) fn wiring(group: &str, chat: &str) -> NewWiring {
    NewWiring {
        group: folder(group),
        chat_jid: chat.into(),
        engage_mode: EngageMode::Pattern,
        engage_pattern: Some(".".into()),
        sender_scope: SenderScope::All,
        ignored_message_policy: IgnoredMessages::Drop,
    }
}

/// The daemon's judgement of one row.
pub(super) fn judged(row: &Unjudged) -> Judged {
    let decision = Rules::default().decide(&row.asked(Listed::Allowed));
    Judged {
        n: row.n,
        read_as: row.read_as(),
        verdict: decision.outcome,
        rule: decision.rule,
        reason: decision.reason,
        sticks: decision.sticks,
        refused: decision.refused,
        answers: row.answers,
    }
}

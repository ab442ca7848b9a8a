//! A text could not be said as its place is gone: the chat, or a thread of it. An owner is told once, the agent whose text it was once
//! a run and place, and tasks for a chat that went are paused. `domain/platforms/gone.rs` has the words.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, params};

use super::said::{Key, said};
use crate::domain::{
    heard::engage::{EngageVerdict, Rule},
    platforms::{
        channels::{Then, What},
        gone::{OwnersChat, Place, kept, tells, whom_to_tell},
    },
    rows::Inbound,
};
use crate::store::{
    Result, Store,
    columns::Columns as _,
    talk::{
        addresses,
        lanes::lane_of,
        messages::{Placed, put_into_lane},
        outbox::{Say, not_delivered},
    },
    work::slots,
};

/// How many places that went are remembered.
const MOST: i64 = if cfg!(test) { 5 } else { 1_000 };
/// Who tells an agent that its text was not delivered.
const US: &str = "G2";

/// A text that was for a place that went.
struct Unsaid {
    chat: String,
    name: String,
    thread: String,
    text: String,
    run: Option<i64>,
    group: Option<Folder>,
}

impl Store {
    /// Notes that the platform did not take a part. If the text is given up, its question, if any, ends without an answer; if its
    /// place is gone, what follows from that is done as well. `in_doubt`: since when it may have arrived all the same. A row that a
    /// person gave up since stays so.
    pub async fn delivery_failed(
        &self,
        id: i64,
        error: &str,
        then: Then,
        in_doubt: Option<Time>,
        now: Time,
    ) -> Result<()> {
        let (error, asking) = (error.to_owned(), self.asking_now());
        self.write(move |c| match (not_delivered(c, &asking, id, &error, then, in_doubt, now)?, then) {
            (true, Then::Gone(what)) => went(c, id, what, &error, now),
            (true | false, _) => Ok(()),
        })
        .await
    }
}

/// Does what follows from it that the place of the text `row` went. In the transaction that gives the text up.
fn went(c: &Connection, row: i64, what: What, why: &str, now: Time) -> Result<()> {
    let unsaid = c
        .prepare_cached(
            "SELECT o.chat_jid, o.thread, o.text, o.run_id, o.group_folder, coalesce(c.name, '') AS name
             FROM outbox o LEFT JOIN chats c ON c.jid = o.chat_jid WHERE o.id = ?1",
        )?
        .query_row([row], |r| {
            let group: Option<String> = r.get("group_folder")?;
            Ok(Unsaid {
                chat: r.get("chat_jid")?,
                name: r.get("name")?,
                thread: r.get("thread")?,
                text: r.get("text")?,
                run: r.get("run_id")?,
                group: group.and_then(|group| Folder::parse(&group).ok()),
            })
        })
        .optional()?;
    let Some(unsaid) = unsaid else { return Ok(()) };
    let why = kept(why);
    let thread = if what == What::Thread { unsaid.thread.as_str() } else { "" };
    let place = Place { chat: &unsaid.chat, name: &unsaid.name, thread, what, why: &why };
    let paused = if what == What::Chat { pause_tasks(c, &place)? } else { Vec::new() };
    tell_agent(c, &unsaid, &place, now)?;
    if noted(c, &place, row, !paused.is_empty(), now)? {
        tell_owner(c, &unsaid, &place, row, &paused, now)?;
    }
    Ok(())
}

/// Pauses the tasks for a chat that went; returns them.
fn pause_tasks(c: &Connection, place: &Place<'_>) -> Result<Vec<(Folder, String)>> {
    let groups: Vec<Folder> = c
        .prepare_cached("SELECT DISTINCT group_folder FROM lanes WHERE chat_jid = ?1 ORDER BY group_folder")?
        .query_map([place.chat], |r| r.folder("group_folder"))?
        .collect::<rusqlite::Result<_>>()?;
    let (reason, mut paused) = (place.paused_for(), Vec::new());
    for group in groups {
        let of_group = slots::pause_of_chat(c, &group, place.chat, &reason)?;
        paused.extend(of_group.into_iter().map(|id| (group.clone(), id)));
    }
    Ok(paused)
}

/// Notes that a place went; whether an owner is to be told. A task that was `paused` now says nothing more by itself.
fn noted(c: &Connection, place: &Place<'_>, row: i64, paused: bool, now: Time) -> Result<bool> {
    let known = c
        .prepare_cached("SELECT told_at, message, outbox_row FROM gone WHERE chat_jid = ?1 AND thread = ?2")?
        .query_row([place.chat, place.thread], |r| {
            Ok((r.time("told_at")?, r.get::<_, i64>("message")?, r.get::<_, i64>("outbox_row")?))
        })
        .optional()?;
    let back = match known {
        None => false,
        Some((_, message, said)) => is_back(c, place, message, said)?,
    };
    // Anybody who is heard in a chat can make threads, and let them go.
    let other: Option<Time> = c
        .prepare_cached(
            "SELECT max(told_at) AS told_at FROM gone WHERE chat_jid = ?1 AND thread <> '' AND thread <> ?2",
        )?
        .query_row([place.chat, place.thread], |r| r.time_or_null("told_at"))?;
    let other = other.filter(|_| place.what == What::Thread);
    if !tells(known.map(|(told_at, ..)| told_at), back || paused, now) {
        return Ok(false);
    }
    c.prepare_cached(
        "INSERT INTO gone (chat_jid, thread, told_at, message, outbox_row) VALUES (?1, ?2, ?3, (SELECT coalesce(max(seq), 0) FROM messages), ?4)
         ON CONFLICT (chat_jid, thread) DO UPDATE SET told_at = excluded.told_at, message = excluded.message, outbox_row = excluded.outbox_row",
    )?
    .execute(params![place.chat, place.thread, now.0, row])?;
    c.prepare_cached(
        "DELETE FROM gone WHERE (chat_jid, thread) IN (SELECT chat_jid, thread FROM gone ORDER BY told_at DESC LIMIT -1 OFFSET ?1)",
    )?
    .execute([MOST])?;
    Ok(tells(other, true, now))
}

/// Whether something was said in a place, or came from there, after the message and the row of the outbox. What we tell an agent has
/// no id of a platform.
fn is_back(c: &Connection, place: &Place<'_>, message: i64, row: i64) -> Result<bool> {
    let any = place.what == What::Chat;
    Ok(c.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM messages INDEXED BY messages_by_chat WHERE chat_jid = ?1 AND seq > ?3 AND id <> '' AND (?5 OR thread = ?2))
           OR EXISTS (SELECT 1 FROM outbox INDEXED BY outbox_by_chat
                      WHERE chat_jid = ?1 AND id > ?4 AND status = 'sent' AND (?5 OR thread = ?2 AND thread_gone IS NULL)) AS back",
    )?
    .query_row(params![place.chat, place.thread, message, row, any], |r| r.get("back"))?)
}

/// Tells an owner in a chat of their own.
fn tell_owner(
    c: &Connection,
    unsaid: &Unsaid,
    place: &Place<'_>,
    row: i64,
    paused: &[(Folder, String)],
    now: Time,
) -> Result<()> {
    let owners = owners(c)?;
    let Some(chat) = whom_to_tell(&owners, (place.chat, &addresses::channel_of(c, place.chat)?)) else {
        return Ok(());
    };
    let text = place.to_owner(unsaid.group.as_ref(), &unsaid.text, paused);
    let cause = format!("outbox {row} could not be delivered");
    said(c, &Key::Gone { row }, &Say::notice(chat, "", &text, &cause), now).map(drop)
}

/// The chats of owners: those that were set, and those in which they are known to be alone with us.
pub(super) fn owners(c: &Connection) -> Result<Vec<OwnersChat>> {
    let all: Vec<(String, Option<String>, Time)> = c
        .prepare_cached(
            "SELECT r.user_id, u.dm_chat, r.granted_at FROM roles r JOIN users u ON u.id = r.user_id WHERE r.role = 'owner' ORDER BY r.granted_at, r.user_id",
        )?
        .query_map([], |r| Ok((r.get("user_id")?, r.get("dm_chat")?, r.time("granted_at")?)))?
        .collect::<rusqlite::Result<_>>()?;
    let (accounts, mut chats) = (addresses::known(c)?, Vec::new());
    for (user, set, granted_at) in all {
        let is_set = set.is_some();
        let chat = set.unwrap_or_else(|| accounts.direct_chat(&user).to_owned());
        let known: bool = c
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM chats WHERE jid = ?1 AND kind = 'direct') AS known",
            )?
            .query_row([&chat], |r| r.get("known"))?;
        let gone = has_gone(c, &chat)?;
        if is_set || known {
            let channel = addresses::channel_of(c, &chat)?;
            chats.push(OwnersChat { chat, channel, gone, granted_at });
        }
    }
    Ok(chats)
}

/// Whether a chat is known to have gone, and is not back.
pub(super) fn has_gone(c: &Connection, chat: &str) -> Result<bool> {
    let went: Option<(i64, i64)> = c
        .prepare_cached("SELECT message, outbox_row FROM gone WHERE chat_jid = ?1 AND thread = ''")?
        .query_row([chat], |r| Ok((r.get("message")?, r.get("outbox_row")?)))
        .optional()?;
    let place = Place { chat, name: "", thread: "", what: What::Chat, why: "" };
    match went {
        Some((message, row)) => Ok(!is_back(c, &place, message, row)?),
        None => Ok(false),
    }
}

/// Tells the agent whose text it was: with the next message of its lane, or of the lane of the chat where the thread went. Once a run
/// and place.
fn tell_agent(c: &Connection, unsaid: &Unsaid, place: &Place<'_>, now: Time) -> Result<()> {
    let (Some(run), Some(group)) = (unsaid.run, &unsaid.group) else { return Ok(()) };
    let at: Option<(String, String)> = c
        .prepare_cached("SELECT chat_jid, thread FROM runs WHERE id = ?1")?
        .query_row([run], |r| Ok((r.get("chat_jid")?, r.get("thread")?)))
        .optional()?;
    let Some((chat, thread)) = at else { return Ok(()) };
    let has_gone = place.what == What::Thread && (&*chat, &*thread) == (place.chat, place.thread);
    let thread = if has_gone { String::new() } else { thread };
    let lane = lane_of(c, group, &chat, &thread)?;
    let Some(lane) = lane else { return Ok(()) };
    let told = Inbound {
        replay_key: format!("gone {run} {} {}", place.chat, place.thread),
        chat_jid: chat,
        thread,
        sender_name: US.into(),
        text: place.to_agent(&unsaid.text),
        ..Inbound::default()
    };
    let placed = Placed {
        verdict: EngageVerdict::Context,
        rule: Rule::Undelivered,
        reason: format!("a text of run {run} was not delivered"),
    };
    put_into_lane(c, lane, &told, &placed, now).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::platforms::channels::Then,
        store::{NextDelivery, Store, talk::outbox::say},
    };

    /// A store in which texts of runs fail as their places are gone.
    struct World {
        _dir: tempfile::TempDir,
        store: Store,
    }

    const HOUR: i64 = 3_600_000;

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
            let c = Connection::open(store.path()).unwrap();
            c.execute_batch(
                "INSERT INTO groups (folder, name, trigger, created_at) VALUES ('a', 'A', '@A', 0);
                 INSERT INTO chats (jid, channel, name, kind, created_at) VALUES ('tg:-5', 'telegram', 'Five', 'group', 0), ('tg:-6', 'telegram', 'Six', 'group', 0);
                 INSERT INTO lanes (id, group_folder, chat_jid, thread) VALUES (1, 'a', 'tg:-5', ''), (2, 'a', 'tg:-6', '');
                 INSERT INTO runs (id, group_folder, chat_jid, thread, kind, for_lane, status, sandbox, generation, created_at, ended_at)
                   VALUES (1, 'a', 'tg:-5', '', 'message', 1, 'succeeded', 'process', 0, 0, 1), (2, 'a', 'tg:-5', '7', 'message', 1, 'succeeded', 'process', 0, 0, 1);
                 INSERT INTO tasks (id, group_folder, chat_jid, prompt, schedule_type, schedule_value, context_mode, status, next_run, created_at)
                   VALUES ('t', 'a', 'tg:-5', 'p', 'interval', '1000', 'group', 'active', 5, 0), ('u', 'a', 'tg:-6', 'p', 'interval', '1000', 'group', 'active', 5, 0);",
            )
            .unwrap();
            Self { _dir: dir, store }
        }

        /// A text of a run for a place, which is gone.
        async fn unsaid(&self, run: i64, (chat, thread): (&str, &str), what: What, now: i64) -> i64 {
            let (chat, thread) = (chat.to_owned(), thread.to_owned());
            let to = chat.clone();
            let made = self.store.write(move |c| {
                let what = Say {
                    chat_jid: &to,
                    thread: &thread,
                    text: "see you",
                    run: Some(run),
                    group: Some("a"),
                    ..Say::default()
                };
                say(c, &what, Time(now))
            });
            let row = made.await.unwrap();
            let NextDelivery::Now(next) = self.store.begin_delivery(&chat, Time(now)).await.unwrap() else {
                panic!()
            };
            assert_eq!(next.id, row);
            self.store.delivery_failed(row, "it\nis gone", Then::Gone(what), None, Time(now)).await.unwrap();
            row
        }

        fn rows(&self, sql: &str) -> Vec<String> {
            let c = Connection::open(self.store.path()).unwrap();
            let mut rows = c.prepare(sql).unwrap();
            rows.query_map([], |r| r.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
        }

        fn told(&self) -> usize {
            self.rows("SELECT text FROM outbox WHERE chat_jid = 'local:main'").len()
        }
    }

    const AGENT: &str = "SELECT l.chat_jid || '/' || l.thread FROM messages m JOIN inbox i ON i.seq = m.seq JOIN lanes l ON l.id = i.lane_id ORDER BY m.seq";

    #[tokio::test]
    async fn an_owner_is_told_once_until_the_place_was_back_and_the_agent_once_a_run() {
        let world = World::new();
        for n in 0..3 {
            world.unsaid(1, ("tg:-5", ""), What::Chat, n).await;
        }
        assert_eq!((world.told(), world.rows(AGENT)), (1, vec!["tg:-5/".to_owned()]));
        let paused = "SELECT id || ' ' || status || ' ' || coalesce(paused_for, '') FROM tasks ORDER BY n";
        let tasks = world.rows(paused);
        assert_eq!(tasks, ["t paused its chat Five (tg:-5) can't be written to: itis gone", "u active "]);
        // What we told the agent is no sign that the chat is back, and days alone are none either.
        world.unsaid(2, ("tg:-5", ""), What::Chat, 48 * HOUR).await;
        assert_eq!((world.told(), world.rows(AGENT).len()), (1, 2));
        let message = Inbound {
            chat_jid: "tg:-5".into(),
            replay_key: "1".into(),
            id: "1".into(),
            sender: "tg:9".into(),
            sender_name: "Ann".into(),
            text: "hello".into(),
            ..Inbound::default()
        };
        world.store.accept(message, Time(49 * HOUR)).await.unwrap();
        world.unsaid(1, ("tg:-5", ""), What::Chat, 50 * HOUR).await;
        assert_eq!(world.told(), 2);
        // It comes and goes: at most once an hour.
        let c = Connection::open(world.store.path()).unwrap();
        c.execute_batch("UPDATE gone SET message = -1").unwrap();
        world.unsaid(1, ("tg:-5", ""), What::Chat, 51 * HOUR - 1).await;
        assert_eq!(world.told(), 2);
        world.unsaid(1, ("tg:-5", ""), What::Chat, 51 * HOUR).await;
        assert_eq!(world.told(), 3);
    }

    #[tokio::test]
    async fn of_a_thread_the_agent_is_told_in_its_chat_and_no_task_is_paused() {
        let world = World::new();
        world.unsaid(2, ("tg:-5", "7"), What::Thread, 1).await;
        world.unsaid(2, ("tg:-5", "8"), What::Thread, 1).await;
        world.unsaid(2, ("tg:-6", ""), What::Chat, 1).await;
        assert_eq!(
            world.rows(AGENT),
            ["tg:-5/", "tg:-5/7", "tg:-5/7"],
            "its own thread is gone, others are not"
        );
        assert_eq!(world.told(), 2, "of the threads of one chat one is told of in an hour");
        assert_eq!(world.rows("SELECT id FROM tasks WHERE status = 'paused'"), ["u"]);
        assert_eq!(
            world.rows("SELECT chat_jid || thread FROM gone ORDER BY 1"),
            ["tg:-5".to_owned() + "7", "tg:-58".into(), "tg:-6".into()]
        );
    }

    #[tokio::test]
    async fn an_owner_whose_own_chat_went_is_told_in_another_ones_and_so_many_places_are_remembered() {
        let world = World::new();
        let c = Connection::open(world.store.path()).unwrap();
        c.execute_batch(
            "INSERT INTO users (id, name, created_at) VALUES ('tg:1', 'Ann', 0), ('tg:2', 'Bob', 0);
             INSERT INTO roles (user_id, role, granted_by, granted_at) VALUES ('tg:1', 'owner', 'x', 1), ('tg:2', 'owner', 'x', 2);
             INSERT INTO chats (jid, channel, name, kind, created_at) VALUES ('tg:1', 'telegram', 'Ann', 'direct', 0);",
        )
        .unwrap();
        world.unsaid(1, ("tg:-5", ""), What::Chat, 1).await;
        let open = "SELECT chat_jid FROM outbox WHERE cause_kind = 'notice' ORDER BY id";
        assert_eq!(world.rows(open), ["tg:1"], "Bob is in no chat that is known");
        let NextDelivery::Now(notice) = world.store.begin_delivery("tg:1", Time(2)).await.unwrap() else {
            panic!()
        };
        world
            .store
            .delivery_failed(notice.id, "blocked", Then::Gone(What::Chat), None, Time(2))
            .await
            .unwrap();
        assert_eq!(world.rows(open), ["tg:1", "local:main"]);
        world.unsaid(1, ("tg:-6", ""), What::Chat, 3).await;
        assert_eq!(world.rows(open), ["tg:1", "local:main", "local:main"]);
        for thread in 0..10 {
            world.unsaid(1, ("tg:-5", &thread.to_string()), What::Thread, 10 + thread).await;
        }
        assert_eq!(world.rows("SELECT thread FROM gone ORDER BY thread"), ["5", "6", "7", "8", "9"]);
    }

    #[tokio::test]
    async fn a_text_without_its_thread_is_the_next_one_and_says_why() {
        let world = World::new();
        let made = world.store.write(|c| {
            let what =
                Say { chat_jid: "tg:-5", thread: "7", reply_to: Some("3"), text: "x", ..Say::default() };
            say(c, &what, Time(0))
        });
        let row = made.await.unwrap();
        let NextDelivery::Now(first) = world.store.begin_delivery("tg:-5", Time(1)).await.unwrap() else {
            panic!()
        };
        assert_eq!(
            (&first.thread[..], first.reply_to.as_deref(), first.thread_gone),
            ("7", Some("3"), false)
        );
        world.store.delivery_failed(row, "no thread", Then::WithoutThread, None, Time(1)).await.unwrap();
        let NextDelivery::Now(next) = world.store.begin_delivery("tg:-5", Time(1)).await.unwrap() else {
            panic!()
        };
        assert_eq!(
            (next.id, &next.thread[..], next.reply_to, next.thread_gone, next.attempts),
            (row, "", None, true, 0)
        );
        let shown = world.store.outbox_row(row).await.unwrap().unwrap();
        assert_eq!((&shown.thread[..], shown.thread_gone.as_deref()), ("7", Some("no thread")));
        assert_eq!(world.told(), 0);
    }
}

//! Codes by which somebody becomes an owner or an admin on a platform, and the messages that are such a code.
//!
//! | on disk | a restart |
//! |---|---|
//! | an open code | it is good until its time is over |
//! | a message with a code | the role, the chat, the code's end and the answer were stored with it |

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::domain::{
    heard::{
        claims::{Code, GOOD_MS, KEPT, KNOWN_MS, NotTaken, decide, is_good, is_now, welcome},
        origin::Origin,
        people::{Role, check_user},
    },
    platforms::{addresses::is_local, chats::ChatKind},
    rows::{Claim, Inbound},
};
use crate::store::{
    Result, Store, audit,
    columns::Columns as _,
    digest,
    talk::{
        addresses,
        messages::tell_once,
        outbox::{Say, say},
        people::{ask_in, ensure_user, give_role, handle, needs_group},
    },
};

const CLAIM: &str =
    "SELECT id, role, group_folder, made_at, expires_at, state, used_by, chat_jid FROM claims";

fn row(r: &Row<'_>) -> rusqlite::Result<Claim> {
    let group: Option<String> = r.get("group_folder")?;
    Ok(Claim {
        id: r.get("id")?,
        role: r.word("claims", "role")?,
        group: group.and_then(|group| Folder::parse(&group).ok()),
        made_at: r.time("made_at")?,
        expires_at: r.time("expires_at")?,
        state: r.word("claims", "state")?,
        used_by: r.get("used_by")?,
        chat: r.get("chat_jid")?,
    })
}

impl Store {
    /// Stores a code, which is good for [`GOOD_MS`], and forgets all but the newest [`KEPT`].
    pub async fn add_claim(
        &self,
        code: &Code,
        role: Role,
        group: Option<Folder>,
        by: &str,
        now: Time,
    ) -> Result<Claim> {
        let (code, by) = (digest(code.as_str().as_bytes()), by.to_owned());
        self.write(move |c| {
            if let Some(group) = &group {
                needs_group(c, group)?;
            }
            c.prepare_cached(
                "INSERT INTO claims (code, role, group_folder, made_by, made_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                code,
                role.as_str(),
                group.as_ref().map(Folder::as_str),
                by,
                now.0,
                now.plus_ms(GOOD_MS).0
            ])?;
            let id = c.last_insert_rowid();
            c.prepare_cached("DELETE FROM claims WHERE id <= ?1 - ?2")?.execute([id, KEPT])?;
            Ok(c.prepare_cached(&format!("{CLAIM} WHERE id = ?1"))?.query_row([id], row)?)
        })
        .await
    }

    /// Returns a code's row.
    pub async fn claim(&self, id: i64) -> Result<Option<Claim>> {
        self.ask(move |c| {
            Ok(c.prepare_cached(&format!("{CLAIM} WHERE id = ?1"))?.query_row([id], row).optional()?)
        })
        .await
    }

    /// Returns the platforms, as the names of their channels, on which somebody is an owner.
    pub async fn owned_channels(&self) -> Result<Vec<String>> {
        self.ask(|c| {
            let accounts = addresses::known(c)?;
            let mut channels: Vec<String> = c
                .prepare_cached("SELECT user_id FROM roles WHERE role = 'owner'")?
                .query_map([], |r| Ok(accounts.channel_of(&r.get::<_, String>("user_id")?).to_owned()))?
                .collect::<rusqlite::Result<_>>()?;
            channels.sort();
            channels.dedup();
            Ok(channels)
        })
        .await
    }
}

/// A code in a message.
pub(in crate::store) struct Found {
    claim: Claim,
    /// It is all of a message that a person has just written.
    alone: bool,
}

/// Returns the code that a message is, or has among its words. Most messages cost one look whether a code is known at all.
pub(in crate::store) fn read(c: &Connection, inbound: &Inbound, now: Time) -> Result<Option<Found>> {
    // At this machine everybody is who they are.
    let is_local = is_local(&inbound.chat_jid);
    if inbound.from_me || is_local || !is_any_known(c, now)? {
        return Ok(None);
    }
    let of = |code: &Code| -> Result<Option<Claim>> {
        Ok(c.prepare_cached(&format!("{CLAIM} WHERE code = ?1 AND expires_at > ?2"))?
            .query_row(params![digest(code.as_str().as_bytes()), now.plus_ms(-KNOWN_MS).0], row)
            .optional()?)
    };
    let is_theirs = !inbound.bot && inbound.origin == Origin::Written && check_user(&inbound.sender).is_ok();
    if let Some(code) = Code::read(&inbound.text).filter(|_| is_theirs)
        && let Some(claim) = of(&code)?
    {
        return Ok(Some(Found { claim, alone: true }));
    }
    for code in Code::within(&inbound.text) {
        if let Some(claim) = of(&code)?.filter(|claim| is_good(claim, now)) {
            return Ok(Some(Found { claim, alone: false }));
        }
    }
    Ok(None)
}

/// Whether there is a code that somebody may write, or may have written lately.
fn is_any_known(c: &Connection, now: Time) -> Result<bool> {
    Ok(c.prepare_cached("SELECT EXISTS (SELECT 1 FROM claims WHERE expires_at > ?1) AS known")?
        .query_row([now.plus_ms(-KNOWN_MS).0], |r| r.get("known"))?)
}

/// What came of a code.
pub(in crate::store) struct Taken {
    /// For `why`.
    pub(in crate::store) note: String,
    /// The chat was told.
    pub(in crate::store) said: bool,
}

/// Does what a code asks for, or tells its author why not.
pub(in crate::store) fn take(c: &Connection, found: Found, inbound: &Inbound, now: Time) -> Result<Taken> {
    let Found { claim, alone } = found;
    let (chat, user) = (&inbound.chat_jid, &inbound.sender);
    let (kind, members): (ChatKind, Option<i64>) = c
        .prepare_cached("SELECT kind, members FROM chats WHERE jid = ?1")?
        .query_row([chat], |r| Ok((r.word("chats", "kind")?, r.get("members")?)))?;
    // A room with a name is no direct chat to its platform, and has no other readers all the same.
    let is_direct = kind == ChatKind::Direct || members == Some(2);
    let cause = format!("code {}", claim.id);
    let by: String = user.chars().filter(|c| !c.is_control()).take(50).collect();
    let (ends_as, told, note) = match decide(&claim, is_direct, alone, now) {
        Ok(()) => {
            let name = if inbound.sender_name.is_empty() { handle(user) } else { &inbound.sender_name };
            ensure_user(c, user, name, now)?;
            ask_in(c, user, chat)?;
            give_role(c, user, (claim.role, claim.group.as_ref()), &format!("code {}", claim.id), now)?;
            let is = is_now(&claim);
            audit::append_in_chat(c, &by, format!("code {}: {by} is {is}", claim.id), now)?;
            (Some("used"), welcome(&claim), format!("by a code of `g2 users claim` its author is {is}"))
        }
        Err(not) => {
            let voids = not == NotTaken::Seen;
            if voids {
                audit::append_in_chat(c, &by, format!("code {} is void: others read it", claim.id), now)?;
            }
            (voids.then_some("void"), not.told().to_owned(), not.note().to_owned())
        }
    };
    if let Some(state) = ends_as {
        c.prepare_cached(
            "UPDATE claims SET state = ?2, used_by = ?3, chat_jid = ?4, ended_at = ?5 WHERE id = ?1",
        )?
        .execute(params![claim.id, state, user, chat, now.0])?;
    }
    let said = match ends_as {
        Some("used") => {
            say(c, &Say::notice(chat, &inbound.thread, &told, &cause), now)?;
            true
        }
        // Old codes are no way to have us write again and again.
        Some(_) | None => tell_once(c, chat, &inbound.thread, &told, &cause, KNOWN_MS, now)?,
    };
    Ok(Taken { note, said })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::platforms::{accounts::Myself, chats::ChatInfo},
        store::StoreError,
    };

    struct World {
        _dir: tempfile::TempDir,
        store: Store,
        said: usize,
    }

    impl World {
        async fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(&dir.path().join("g2.sqlite")).unwrap().with_accounts().await;
            Self { _dir: dir, store, said: 0 }
        }

        async fn claim(&self, code: &Code, now: i64) -> Claim {
            self.store.add_claim(code, Role::Owner, None, "uid 0", Time(now)).await.unwrap()
        }

        /// Somebody writes; what they are told.
        async fn writes(&mut self, message: Inbound, now: i64) -> Option<String> {
            let chat = message.chat_jid.clone();
            let accepted = self.store.accept(message, Time(now)).await.unwrap();
            let said: Vec<String> = self.query(&format!(
                "SELECT text FROM outbox WHERE chat_jid = '{chat}' ORDER BY id DESC LIMIT 1"
            ));
            let all = self.query("SELECT id || '' FROM outbox").len();
            let is_new = std::mem::replace(&mut self.said, all) < all;
            assert_eq!(accepted.said, is_new, "{accepted:?}");
            said.into_iter().next().filter(|_| is_new)
        }

        fn query(&self, sql: &str) -> Vec<String> {
            let c = Connection::open(self.store.path()).unwrap();
            let mut rows = c.prepare(sql).unwrap();
            rows.query_map([], |r| r.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
        }

        fn owners(&self) -> Vec<String> {
            self.query("SELECT r.user_id || ' ' || coalesce(u.dm_chat, '-') FROM roles r JOIN users u ON u.id = r.user_id WHERE r.user_id <> 'local:me' ORDER BY 1")
        }
    }

    fn wrote(chat: &str, sender: &str, text: &str, n: i64) -> Inbound {
        Inbound {
            chat_jid: chat.into(),
            replay_key: n.to_string(),
            id: n.to_string(),
            sender: sender.into(),
            sender_name: "Ann".into(),
            text: text.into(),
            ..Inbound::default()
        }
    }

    #[tokio::test]
    async fn a_code_makes_its_author_an_owner_once_and_nobody_else_afterwards() {
        let mut world = World::new().await;
        let code = Code::of(0x5eed_1234_5678);
        let claim = world.claim(&code, 0).await;
        let first = wrote("tg:7", "7", &format!("/start {}", code.shown()), 1);
        let told = world.writes(first.clone(), 5).await.unwrap();
        assert!(told.starts_with("You are an owner from now on."), "{told}");
        assert_eq!(world.owners(), ["tg:7 tg:7"]);
        // The same event again changes nothing.
        assert_eq!(world.writes(first, 6).await, None);
        let other = wrote("tg:8", "8", &code.shown(), 2);
        assert!(world.writes(other, 7).await.unwrap().contains("used already"));
        assert_eq!(world.owners(), ["tg:7 tg:7"]);
        let ended = world.store.claim(claim.id).await.unwrap().unwrap();
        assert_eq!(
            (ended.state.as_str(), ended.used_by.as_deref(), ended.chat.as_deref()),
            ("used", Some("tg:7"), Some("tg:7"))
        );
        assert_eq!(world.query("SELECT what FROM audit"), [format!("code {}: tg:7 is an owner", claim.id)]);
        assert_eq!(world.store.owned_channels().await.unwrap(), ["local", "telegram"]);
        let kept = world.query("SELECT hex(code) FROM claims").concat();
        assert!(!kept.contains(code.as_str()) && kept.len() == 64);
    }

    #[tokio::test]
    async fn a_code_that_others_may_have_seen_is_void_and_one_that_is_late_does_nothing() {
        let mut world = World::new().await;
        let (seen, late) = (Code::of(1), Code::of(2));
        world.claim(&seen, 0).await;
        world.claim(&late, 0).await;
        let told = world.writes(wrote("tg:-5", "7", &seen.shown(), 1), 1).await.unwrap();
        assert!(told.contains("Others can read this chat"), "{told}");
        let told = world.writes(wrote("tg:7", "7", &seen.shown(), 2), 2).await.unwrap();
        assert!(told.contains("is void"), "{told}");
        let told = world.writes(wrote("tg:7", "7", &late.shown(), 3), GOOD_MS).await.unwrap();
        assert!(told.contains("too old"), "{told}");
        // Late in a group it is late, and stays so.
        let told = world.writes(wrote("tg:-5", "7", &late.shown(), 4), GOOD_MS).await.unwrap();
        assert!(told.contains("too old"), "{told}");
        assert_eq!(world.query("SELECT state FROM claims ORDER BY id"), ["void", "open"]);
        assert_eq!(world.owners(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn nobody_is_an_owner_by_words_that_are_not_theirs_and_other_words_stay_messages() {
        let mut world = World::new().await;
        let code = Code::of(3);
        world.claim(&code, 0).await;
        let message = |n| wrote("tg:7", "7", &code.shown(), n);
        let among = wrote("tg:7", "7", &format!("my code is {}", code.shown()), 8);
        let told = world.writes(among, 1).await.unwrap();
        assert!(told.starts_with("Write the code alone"), "{told}");
        let forward = Inbound { origin: Origin::Forwarded, forwarded_from: Some("Bob".into()), ..message(1) };
        let bot = Inbound { bot: true, ..message(2) };
        let ours = Inbound { from_me: true, ..message(3) };
        for not in [
            forward,
            bot,
            ours,
            wrote("local:main", "bob", &code.shown(), 4),
            wrote("tg:7", "", &code.shown(), 5),
        ] {
            assert_eq!(world.writes(not.clone(), 1).await, None, "{not:?}");
        }
        assert_eq!(world.writes(wrote("tg:7", "7", "ELEPHANT", 6), 1).await, None);
        assert_eq!(world.owners(), Vec::<String>::new());
        assert!(world.writes(message(7), 2).await.is_some());
        assert_eq!(world.owners(), ["tg:7 tg:7"]);
        // Brought where others read, by anybody, it is void.
        for (n, origin, bot) in [(10, Origin::Forwarded, false), (11, Origin::Written, true)] {
            let seen = Code::of(u64::try_from(n).unwrap());
            let claim = world.claim(&seen, 3).await;
            let text = format!("@andy_bot {}", seen.shown());
            let message = Inbound { origin, bot, ..wrote("tg:-5", "9", &text, n) };
            assert!(world.writes(message, 4).await.unwrap().contains("void now"));
            assert_eq!(world.store.claim(claim.id).await.unwrap().unwrap().state.as_str(), "void");
        }
    }

    #[tokio::test]
    async fn an_old_code_is_answered_once_an_hour_and_is_a_message_like_any_after_it() {
        let mut world = World::new().await;
        let code = Code::of(3);
        world.claim(&code, 0).await;
        let later = GOOD_MS + 1;
        assert!(world.writes(wrote("tg:7", "7", &code.shown(), 1), later).await.is_some());
        for n in 2..5 {
            assert_eq!(world.writes(wrote("tg:7", "7", &code.shown(), n), later + n).await, None);
        }
        let known_until = GOOD_MS + KNOWN_MS;
        assert_eq!(world.writes(wrote("tg:8", "8", &code.shown(), 9), known_until).await, None);
    }

    #[tokio::test]
    async fn where_the_address_says_nothing_the_platform_says_whose_chat_it_is() {
        let mut world = World::new().await;
        for (n, kind, is_taken) in [(1, ChatKind::Group, false), (2, ChatKind::Direct, true)] {
            let code = Code::of(u64::try_from(n).unwrap());
            world.claim(&code, 0).await;
            let info =
                ChatInfo { name: String::new(), kind, threaded: false, members: None, hears_all: None };
            let message = wrote(&format!("dc:{n}"), "7", &code.shown(), n);
            world.writes(Inbound { chat: Some(info), ..message }, 1).await.unwrap();
            assert_eq!(!world.owners().is_empty(), is_taken, "{kind:?}");
        }
        assert_eq!(world.owners(), ["dc:7 dc:2"]);
    }

    #[tokio::test]
    async fn an_admin_is_one_of_their_group_which_takes_the_code_with_it_and_few_codes_are_kept() {
        let mut world = World::new().await;
        let c = Connection::open(world.store.path()).unwrap();
        c.execute_batch("INSERT INTO groups (folder, name, trigger, created_at) VALUES ('a', 'A', '@A', 0)")
            .unwrap();
        let group = || Folder::parse("a").ok();
        let other =
            world.store.add_claim(&Code::of(1), Role::Admin, Folder::parse("b").ok(), "x", Time(0)).await;
        assert!(matches!(other, Err(StoreError::NotFound { .. })), "{other:?}");
        world.store.add_claim(&Code::of(1), Role::Admin, group(), "x", Time(0)).await.unwrap();
        let told = world.writes(wrote("tg:7", "7", &Code::of(1).shown(), 1), 1).await.unwrap();
        assert!(told.starts_with("You are an admin of a from now on."), "{told}");
        for n in 2..40 {
            world.store.add_claim(&Code::of(n), Role::Admin, group(), "x", Time(0)).await.unwrap();
        }
        assert_eq!(world.query("SELECT id || '' FROM claims").len(), usize::try_from(KEPT).unwrap());
        c.pragma_update(None, "foreign_keys", true).unwrap();
        c.execute("DELETE FROM groups", []).unwrap();
        assert_eq!(world.query("SELECT id || '' FROM claims").len(), 0);
    }

    #[tokio::test]
    async fn who_an_account_is_is_known_as_it_said_last() {
        let world = World::new().await;
        world.store.note_start("telegram", Time(0)).await.unwrap();
        assert_eq!(world.store.accounts_known().await.unwrap(), []);
        let myself = Myself { id: "42".into(), name: "An\ndy".into(), handle: "andy_bot".into() };
        world.store.note_myself("telegram", myself.clone()).await.unwrap();
        let known = Myself { name: "Andy".into(), ..myself };
        assert_eq!(world.store.accounts_known().await.unwrap(), [("telegram".to_owned(), known)]);
    }
}

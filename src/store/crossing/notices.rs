//! From the machine to talk: an owner is told of problems (`domain/problems/notices.rs`), by an account that works, otherwise by a
//! program or an address on the web.
//!
//! | on disk | a restart |
//! |---|---|
//! | a problem that was told | is not told again |
//! | a problem that is to be told, and a text in the outbox | were written in one transaction |
//! | a text for a program or an address | is handed over, and may be a second time if the daemon died over it |

use ipc_handlers::{Time, words};
use rusqlite::{Connection, OptionalExtension, params};

use super::gone::{has_gone, owners};
use crate::domain::{
    platforms::addresses::is_local,
    problems::{
        Finding,
        notices::{Acts, Looked, Notice, NoticeState, decide, solved, text},
    },
    shown::errors::chain,
};
use crate::store::{
    Result, Store, at_most,
    columns::Columns as _,
    talk::{
        addresses,
        outbox::{Say, say},
    },
};

/// How many texts wait for a program or an address.
const MOST_PUSHES: i64 = 100;
/// How long such a text is tried, ms.
pub const PUSHED_FOR_MS: i64 = 86_400_000;
/// How long a noted problem has to be gone until its note goes, ms.
const NOTED_MS: i64 = 600_000;
/// The longest words about a problem that are kept, characters.
const LONGEST: usize = 1000;

words! {
    /// How a text reaches an owner where no account does.
    pub enum PushWay: "way of a text" {
        Command = "command",
        Webhook = "webhook",
    }
}

/// How an owner is told, by the settings as they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// The chat that was set.
    pub chat: Option<String>,
    /// What there is where no account works.
    pub others: Vec<PushWay>,
    /// It is a quiet hour.
    pub is_quiet: bool,
}

/// A text that waits for a program or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    pub id: i64,
    pub way: PushWay,
    pub text: String,
    pub made_at: Time,
}

/// What came of a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noticed {
    /// When the next problem is due.
    pub next: Option<Time>,
    /// A program or an address has something to take.
    pub pushed: bool,
}

/// Where a text goes.
enum Target {
    Chat(String),
    Others,
}

impl Store {
    /// Tells an owner of those problems that are to be told now. `found`: all problems.
    pub async fn notify(&self, found: Vec<Looked>, ways: Ways, now: Time) -> Result<Noticed> {
        let asked = ways.clone();
        let (known, may_tell) =
            self.ask(move |c| Ok((notices(c)?, target(c, &asked)?.is_some() && !asked.is_quiet))).await?;
        // Mostly there is nothing new, and a look costs no write.
        let acts = decide(&known, &found, may_tell, now);
        if acts.is_nothing() {
            return Ok(Noticed { next: acts.next, pushed: false });
        }
        self.write(move |c| {
            let (known, target) = (notices(c)?, target(c, &ways)?.filter(|_| !ways.is_quiet));
            let acts = decide(&known, &found, target.is_some(), now);
            let pushed =
                matches!(target, Some(Target::Others)) && !(acts.tell.is_empty() && acts.solved.is_empty());
            act(c, &acts, (&known, &found), target.as_ref(), &ways, now)?;
            Ok(Noticed { next: acts.next, pushed })
        })
        .await
    }

    /// Tells an owner something at once, by the same ways. Returns the chat, or the ways in place of one; `None`: nobody can be told.
    pub async fn tell_owner(&self, what: &str, ways: Ways, now: Time) -> Result<Option<String>> {
        let what = what.to_owned();
        self.write(move |c| {
            Ok(match target(c, &ways)? {
                None => None,
                Some(target) => {
                    tell(c, &target, &what, &ways, now)?;
                    Some(match target {
                        Target::Chat(chat) => chat,
                        Target::Others => ways
                            .others
                            .iter()
                            .map(|way| format!("notify.{way}"))
                            .collect::<Vec<_>>()
                            .join(" and "),
                    })
                }
            })
        })
        .await
    }

    /// Returns the problems that are remembered, the oldest first.
    pub async fn notices(&self) -> Result<Vec<Notice>> {
        self.ask(notices).await
    }

    /// Notes a problem that its owner lets stand, or forgets that. Returns whether that changed something.
    pub async fn note_problem(
        &self,
        code: &str,
        about: &str,
        noted: bool,
        by: &str,
        now: Time,
    ) -> Result<bool> {
        let (code, about, by) = (code.to_owned(), about.to_owned(), by.to_owned());
        self.write(move |c| {
            let changed = match noted {
                true => c
                    .prepare_cached("INSERT INTO noted (code, about, by, at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING")?
                    .execute(params![code, about, by, now.0])?,
                false => c
                    .prepare_cached("DELETE FROM noted WHERE code = ?1 AND about = ?2")?
                    .execute([code, about])?,
            };
            Ok(changed > 0)
        })
        .await
    }

    /// Marks the problems that are noted. One whose notes can't be read counts.
    pub fn mark_noted(&self, found: &mut [Finding]) {
        match self.read(noted) {
            Ok(noted) => {
                for finding in found {
                    let is = |one: &Noted| finding.code.as_str() == one.code && finding.about == one.about;
                    finding.noted = noted.iter().any(is);
                }
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the noted problems can't be read, so all count");
            }
        }
    }

    /// Forgets notes about problems that have not been found for 10 minutes: an account that connects, or a daemon that has
    /// just begun, does not show all of them.
    pub async fn forget_noted(&self, found: &[Finding], now: Time) -> Result<()> {
        let all = self.ask(noted).await?;
        let is_there = |noted: &Noted| {
            found.iter().any(|one| one.code.as_str() == noted.code && one.about == noted.about)
        };
        let then = |noted: &Noted| match (is_there(noted), noted.gone_at) {
            (true, None) => None,
            (true, Some(_)) => Some(Note::Back),
            (false, None) => Some(Note::Gone),
            (false, Some(at)) => (now.ms_since(at) >= NOTED_MS).then_some(Note::Over),
        };
        let changed: Vec<(Noted, Note)> =
            all.into_iter().filter_map(|noted| then(&noted).map(|then| (noted, then))).collect();
        if changed.is_empty() {
            return Ok(());
        }
        self.write(move |c| {
            for (Noted { code, about, .. }, then) in &changed {
                let gone_at = match then {
                    Note::Over => {
                        c.prepare_cached("DELETE FROM noted WHERE code = ?1 AND about = ?2")?
                            .execute([code, about])?;
                        continue;
                    }
                    Note::Gone => Some(now.0),
                    Note::Back => None,
                };
                c.prepare_cached("UPDATE noted SET gone_at = ?3 WHERE code = ?1 AND about = ?2")?
                    .execute(params![code, about, gone_at])?;
            }
            Ok(())
        })
        .await
    }

    /// Returns the texts that wait for a program or an address.
    pub async fn pushes(&self) -> Result<Vec<Push>> {
        self.ask(|c| {
            Ok(c.prepare_cached("SELECT id, way, text, made_at FROM pushes ORDER BY id LIMIT ?1")?
                .query_map([MOST_PUSHES], |r| {
                    Ok(Push {
                        id: r.get("id")?,
                        way: r.word("pushes", "way")?,
                        text: r.get("text")?,
                        made_at: r.time("made_at")?,
                    })
                })?
                .collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// A text was handed over, or is given up.
    pub async fn pushed(&self, id: i64) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached("DELETE FROM pushes WHERE id = ?1")?.execute([id])?;
            Ok(())
        })
        .await
    }
}

/// A problem that is noted.
struct Noted {
    code: String,
    about: String,
    /// Since when it is not found.
    gone_at: Option<Time>,
}

/// A change of a note.
enum Note {
    Gone,
    Back,
    Over,
}

fn noted(c: &Connection) -> Result<Vec<Noted>> {
    Ok(c.prepare_cached("SELECT code, about, gone_at FROM noted")?
        .query_map([], |r| {
            Ok(Noted { code: r.get("code")?, about: r.get("about")?, gone_at: r.time_or_null("gone_at")? })
        })?
        .collect::<rusqlite::Result<_>>()?)
}

fn notices(c: &Connection) -> Result<Vec<Notice>> {
    Ok(c.prepare_cached(
        "SELECT id, code, about, severity, text, state, since FROM notices ORDER BY id LIMIT ?1",
    )?
    .query_map([at_most(None)], |r| {
        Ok(Notice {
            id: r.get("id")?,
            code: r.get("code")?,
            about: r.get("about")?,
            severity: r.word("notices", "severity")?,
            text: r.get("text")?,
            state: r.word("notices", "state")?,
            since: r.time("since")?,
        })
    })?
    .collect::<rusqlite::Result<_>>()?)
}

/// Where an owner is told: in the chat that was set if its account works, otherwise in one of an owner's own on a platform, otherwise by
/// no account. A terminal is nobody's phone: it is told only if it was set.
fn target(c: &Connection, ways: &Ways) -> Result<Option<Target>> {
    if let Some(chat) = &ways.chat
        && works(c, chat)?
        && is_there(c, chat)?
    {
        return Ok(Some(Target::Chat(chat.clone())));
    }
    for owner in owners(c)? {
        if !owner.gone && !is_local(&owner.chat) && works(c, &owner.chat)? {
            return Ok(Some(Target::Chat(owner.chat)));
        }
    }
    Ok((!ways.others.is_empty()).then_some(Target::Others))
}

/// Whether a chat is known, and has not gone.
fn is_there(c: &Connection, chat: &str) -> Result<bool> {
    let known: bool = c
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM chats WHERE jid = ?1) AS known")?
        .query_row([chat], |r| r.get("known"))?;
    Ok((known || is_local(chat)) && !has_gone(c, chat)?)
}

/// Whether texts reach a chat now, as far as its account says.
fn works(c: &Connection, chat: &str) -> Result<bool> {
    let channel = addresses::channel_of(c, chat)?;
    let stands: Option<bool> = c
        .prepare_cached(
            "SELECT state = 'connected' AND outbound NOT IN ('failing', 'refused') AS stands FROM channel_states WHERE channel = ?1",
        )?
        .query_row([&channel], |r| r.get("stands"))
        .optional()?;
    Ok(stands.unwrap_or(is_local(chat)))
}

/// Does what was decided.
fn act(
    c: &Connection,
    acts: &Acts,
    (known, found): (&[Notice], &[Looked]),
    target: Option<&Target>,
    ways: &Ways,
    now: Time,
) -> Result<()> {
    let kept = |text: &str| -> String { text.chars().filter(|c| !c.is_control()).take(LONGEST).collect() };
    for id in &acts.forget {
        c.prepare_cached("DELETE FROM notices WHERE id = ?1")?.execute([id])?;
    }
    for at in &acts.new {
        let finding = &found[*at].finding;
        let Finding { code, about, severity, .. } = finding;
        c.prepare_cached(
            "INSERT INTO notices (code, about, severity, text, state, since) VALUES (?1, ?2, ?3, ?4, 'found', ?5) ON CONFLICT DO NOTHING",
        )?
        .execute(params![code.as_str(), about, severity.as_str(), kept(&solved(finding)), now.0])?;
    }
    for (id, state) in &acts.turn {
        set(c, *id, *state, now)?;
    }
    let told: Vec<&Finding> = acts.tell.iter().map(|at| &found[*at].finding).collect();
    for finding in &told {
        let Finding { code, about, severity, .. } = finding;
        c.prepare_cached(
            "UPDATE notices SET state = 'told', since = ?3, text = ?4, severity = ?5 WHERE code = ?1 AND about = ?2",
        )?
        .execute(params![code.as_str(), about, now.0, kept(&solved(finding)), severity.as_str()])?;
    }
    for id in &acts.solved {
        set(c, *id, NoticeState::Over, now)?;
    }
    let gone: Vec<&str> =
        known.iter().filter(|notice| acts.solved.contains(&notice.id)).map(|notice| &*notice.text).collect();
    match target {
        Some(target) if !(told.is_empty() && gone.is_empty()) => {
            tell(c, target, &text(&told, &gone), ways, now)
        }
        Some(_) | None => Ok(()),
    }
}

fn set(c: &Connection, id: i64, state: NoticeState, now: Time) -> Result<()> {
    c.prepare_cached("UPDATE notices SET state = ?2, since = ?3 WHERE id = ?1")?.execute(params![
        id,
        state.as_str(),
        now.0
    ])?;
    Ok(())
}

fn tell(c: &Connection, target: &Target, text: &str, ways: &Ways, now: Time) -> Result<()> {
    match target {
        Target::Chat(chat) => say(c, &Say::notice(chat, "", text, "problems"), now).map(drop),
        Target::Others => {
            for way in &ways.others {
                c.prepare_cached("INSERT INTO pushes (way, text, made_at) VALUES (?1, ?2, ?3)")?
                    .execute(params![way.as_str(), text, now.0])?;
            }
            c.prepare_cached(
                "DELETE FROM pushes WHERE id NOT IN (SELECT id FROM pushes ORDER BY id DESC LIMIT ?1)",
            )?
            .execute([MOST_PUSHES])?;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::problems::{
        checks::Check,
        notices::{NotifyLevel, looked},
    };

    struct World {
        _dir: tempfile::TempDir,
        store: Store,
    }

    impl World {
        async fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(&dir.path().join("g2.sqlite")).unwrap().with_accounts().await;
            let world = Self { _dir: dir, store };
            world.run(
                "INSERT INTO users (id, name, dm_chat, created_at) VALUES ('tg:7', 'Ann', 'tg:7', 0), ('dc:8', 'Ann', 'dc:9', 0);
                 INSERT INTO roles (user_id, role, granted_by, granted_at) VALUES ('tg:7', 'owner', 'x', 1), ('dc:8', 'owner', 'x', 2);
                 INSERT INTO channel_states (channel, state, since, outbound) VALUES ('telegram', 'connected', 0, 'ok'), ('discord', 'connected', 0, 'ok');",
            );
            world
        }

        fn run(&self, sql: &str) {
            Connection::open(self.store.path()).unwrap().execute_batch(sql).unwrap();
        }

        fn stands(&self, channel: &str, state: &str, outbound: &str) {
            self.run(&format!(
                "UPDATE channel_states SET state = '{state}', outbound = '{outbound}' WHERE channel = '{channel}'"
            ));
        }

        async fn look(&self, found: &[Finding], ways: &Ways, now: i64) -> Noticed {
            let found = looked(found.to_vec(), NotifyLevel::Warn);
            self.store.notify(found, ways.clone(), Time(now)).await.unwrap()
        }

        fn said(&self) -> Vec<String> {
            let c = Connection::open(self.store.path()).unwrap();
            let mut rows = c.prepare("SELECT chat_jid || ' ' || text FROM outbox ORDER BY id").unwrap();
            rows.query_map([], |r| r.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
        }
    }

    fn failed(about: &str) -> Finding {
        Finding::fail((Check::TaskPaused, about), format!("{about} is paused"), "look")
    }

    #[tokio::test]
    async fn an_owner_is_told_once_where_an_account_works_and_once_more_when_it_is_solved() {
        let world = World::new().await;
        let ways = Ways::default();
        let found = [failed("a")];
        world.look(&found, &ways, 0).await;
        world.look(&found, &ways, 1).await;
        assert_eq!(world.said(), ["tg:7 Problem: task paused (a). \"g2 status\" says more."]);
        world.stands("telegram", "offline", "unknown");
        let both = [failed("a"), failed("b")];
        world.look(&both, &ways, 2).await;
        assert_eq!(world.said()[1..], ["dc:9 Problem: task paused (b). \"g2 status\" says more."]);
        // Nobody can be told now.
        world.stands("discord", "connected", "failing");
        let gone = world.look(&[], &ways, 3).await;
        assert_eq!(gone.next, Some(Time(60_003)));
        world.look(&[], &ways, 60_003).await;
        assert_eq!(world.said().len(), 2);
        world.stands("discord", "connected", "ok");
        world.look(&[], &ways, 60_004).await;
        assert_eq!(world.said()[2..], ["dc:9 Solved: task paused (a).\nSolved: task paused (b)."]);
        // Another daemon on the same store knows all of that.
        world.look(&[], &ways, 70_000).await;
        assert_eq!(world.said().len(), 3);
    }

    #[tokio::test]
    async fn the_chat_that_was_set_goes_first_and_a_terminal_is_told_only_then() {
        let world = World::new().await;
        let set = |chat: &str| Ways { chat: Some(chat.into()), ..Ways::default() };
        world.run("INSERT INTO chats (jid, channel, name, kind, created_at) VALUES ('dc:700', 'discord', 'c', 'group', 0)");
        world.look(&[failed("a")], &set("dc:700"), 0).await;
        world.look(&[failed("a"), failed("x")], &set("dc:701"), 0).await;
        world.look(&["a", "x", "b"].map(failed), &set("local:main"), 0).await;
        world.look(&["a", "x", "b", "c"].map(failed), &set("mx:!none"), 0).await;
        let chats: Vec<String> =
            world.said().iter().map(|said| said.split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(
            chats,
            ["dc:700", "tg:7", "local:main", "tg:7"],
            "a chat that nobody knows is passed over"
        );
        world.run("DELETE FROM roles WHERE user_id <> 'local:me'");
        world.look(&[failed("d")], &Ways::default(), 0).await;
        assert_eq!(world.said().len(), 4, "the person at this machine has `g2 status`");
    }

    #[tokio::test]
    async fn without_an_account_a_program_and_an_address_get_the_text_and_quiet_hours_hold_for_them_too() {
        let world = World::new().await;
        world.run("UPDATE channel_states SET state = 'refused'");
        let ways = Ways { others: vec![PushWay::Command, PushWay::Webhook], ..Ways::default() };
        let quiet = Ways { is_quiet: true, ..ways.clone() };
        assert!(!world.look(&[failed("a")], &quiet, 0).await.pushed);
        assert!(world.look(&[failed("a")], &ways, 1).await.pushed);
        assert!(!world.look(&[failed("a")], &ways, 2).await.pushed);
        let pushes = world.store.pushes().await.unwrap();
        let told: Vec<(PushWay, &str)> = pushes.iter().map(|push| (push.way, &*push.text)).collect();
        let text = "Problem: task paused (a). \"g2 status\" says more.";
        assert_eq!(told, [(PushWay::Command, text), (PushWay::Webhook, text)]);
        world.store.pushed(pushes[0].id).await.unwrap();
        world.store.pushed(pushes[0].id).await.unwrap();
        assert_eq!(world.store.pushes().await.unwrap(), pushes[1..]);
        for _ in 0..2 * MOST_PUSHES {
            world.store.tell_owner("x", ways.clone(), Time(3)).await.unwrap();
        }
        assert_eq!(world.store.pushes().await.unwrap().len(), usize::try_from(MOST_PUSHES).unwrap());
    }

    #[tokio::test]
    async fn a_noted_problem_stays_so_until_it_is_gone() {
        let world = World::new().await;
        let note = |noted: bool| world.store.note_problem("task_paused", "a", noted, "uid 0", Time(0));
        assert!(note(true).await.unwrap() && !note(true).await.unwrap());
        let mut found = [failed("a"), failed("b")];
        world.store.mark_noted(&mut found);
        assert_eq!(found.each_ref().map(|one| one.noted), [true, false]);
        let forget = async |found: &[Finding], now: i64| {
            world.store.forget_noted(found, Time(now)).await.unwrap();
        };
        forget(&found, 0).await;
        assert!(note(false).await.unwrap() && !note(false).await.unwrap());
        note(true).await.unwrap();
        // A restart, or an account that connects anew, does not show it for a while.
        for (there, now) in [(1, 1), (1, NOTED_MS), (0, NOTED_MS), (1, 2 * NOTED_MS)] {
            forget(&found[there..], now).await;
        }
        world.store.mark_noted(&mut found);
        assert!(found[0].noted);
        forget(&found[1..], 3 * NOTED_MS).await;
        world.store.mark_noted(&mut found);
        assert!(!found[0].noted, "one that comes back counts");
    }

    #[tokio::test]
    async fn a_trial_says_where_it_went() {
        let world = World::new().await;
        let tell = |ways: Ways| world.store.tell_owner("hello", ways, Time(0));
        assert_eq!(tell(Ways::default()).await.unwrap().as_deref(), Some("tg:7"));
        world.run("UPDATE channel_states SET state = 'offline'");
        assert_eq!(tell(Ways::default()).await.unwrap(), None);
        let others = Ways { others: vec![PushWay::Command, PushWay::Webhook], ..Ways::default() };
        assert_eq!(tell(others).await.unwrap().as_deref(), Some("notify.command and notify.webhook"));
    }
}

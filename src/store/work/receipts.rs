//! Commands: from the bytes of a claimed file to its receipt, in one savepoint. Whatever the outcome, there is one.

use std::sync::Arc;

use ipc_handlers::{
    Caller, Code, Command, Folder, Outcome, Refusal, Time,
    envelope::{self, Envelope, Rejected},
    token::{Claims, Fault},
};
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest as _, Sha256};

use crate::domain::{platforms::attachments::Attachment, states::CommandOutcome, time::zone::Zones};
use crate::store::{
    Bounds, Result, Store,
    columns::Columns as _,
    work::{by_hand, sessions::Transcripts},
    writer::Next,
};

mod act;
mod effects;
mod facts;
mod proof;
mod recall;
mod settle;

pub(in crate::store) use effects::{change_task, create_task};
use recall::Recall;
use settle::{keep, let_go, refused, settle};

/// A claimed file, ready to be decided.
#[derive(Clone, Debug)]
pub struct CommandFile {
    pub claim: i64,
    pub group: Folder,
    pub box_name: String,
    pub name: String,
    /// What identifies the file itself, wherever it lies.
    pub origin: Vec<u8>,
    /// The group's run when the file was claimed.
    pub run: Option<i64>,
    /// When it was last changed in its box.
    pub written: Option<Time>,
    /// When it was taken out of its box.
    pub taken: Option<Time>,
    /// What its token proves.
    pub proof: Proof,
    /// What it holds, or why that could not be a command.
    pub body: std::result::Result<Arc<Body>, Refusal>,
    /// Why it is refused, whatever it asks for.
    pub refused: Option<Refusal>,
    /// What tells a repeated command from a changed one, by [`digest`]; empty where not all of it was read.
    pub digest: Vec<u8>,
    /// What was said in the sessions that it may archive.
    pub transcripts: Transcripts,
    /// The files that go with what it says, as the host has them, or why one can't be sent.
    pub files: std::result::Result<Vec<Attachment>, Refusal>,
    /// The reply to its search, if that was made already. It is given only where the command is obeyed.
    pub found: Option<Arc<Vec<u8>>>,
}

/// What a command file holds, parsed beside the writer.
#[derive(Clone, Debug)]
pub struct Body(std::result::Result<Envelope, Box<Rejected>>);

impl Body {
    /// Parses the bytes of a file.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(envelope::parse(bytes))
    }

    /// Returns the command, or why it is none.
    ///
    /// # Errors
    /// The answer to its writer.
    pub fn envelope(&self) -> std::result::Result<&Envelope, &Rejected> {
        self.0.as_ref().map_err(Box::as_ref)
    }
}

/// Hashes the bytes of a command file.
#[must_use]
pub fn digest(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

impl CommandFile {
    /// Returns the command that it holds, if it holds one.
    pub fn envelope(&self) -> Option<&Envelope> {
        self.body.as_ref().ok().and_then(|body| body.envelope().ok())
    }
}

/// What the token of a command proves, before it is compared with the runs that there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It carries none: its box says whose it is.
    None,
    /// It carries none and would need one.
    Missing,
    /// Its writer has the token of this run.
    Claims(Box<Claims>),
    /// Nothing, for this reason.
    Bad(Fault),
}

/// What was decided about a file, and what to do with it.
#[derive(Clone, Debug)]
pub struct Settled {
    pub receipt: Receipt,
    /// Whether this call decided it (and not an earlier one).
    pub fresh: bool,
}

/// The proof that a command file was dealt with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub claim: i64,
    pub box_name: String,
    pub name: String,
    pub kind: Option<String>,
    pub request_id: Option<String>,
    pub outcome: CommandOutcome,
    pub code: Option<Code>,
    pub reason: Option<String>,
    pub hint: Option<String>,
    /// `None`: it is not kept any more, or it is a search, which is answered later.
    pub reply: Option<Vec<u8>>,
    pub at: Time,
}

impl Receipt {
    /// Returns how long its reply is.
    #[must_use]
    pub fn reply_bytes(&self) -> usize {
        self.reply.as_ref().map_or(0, Vec::len)
    }
}

/// How many bytes of replies are in one commit of a group, but for the last of them.
const REPLIES_AT_ONCE: usize = 256 << 10;
/// How long a reply may be, bytes. Rows of a list that do not fit are on its next page.
const LONGEST_REPLY: u64 = 1 << 20;
/// From how many bytes on a reply is long: the group's newest are kept, as many as its bounds allow.
const LONG_REPLY: usize = 16 << 10;

/// The settings by which commands are decided.
struct Rules {
    zones: Zones,
    bounds: Bounds,
    /// The names of the channels that there are.
    channels: Vec<String>,
}

impl Store {
    fn rules_now(&self, zones: Zones) -> Rules {
        Rules { zones, bounds: self.bounds_now(), channels: self.asking_now().channels.all() }
    }

    /// Decides a command file and applies its effects, once: a file that was decided before gets its first outcome.
    pub fn settle(
        &self,
        file: CommandFile,
        zones: Zones,
        now: Time,
    ) -> impl Future<Output = Result<Settled>> + Send + use<> {
        let rules = self.rules_now(zones);
        self.write(move |c| settle(c, &file, &rules, &mut Recall::default(), now))
    }

    /// Decides command files one after the other, a savepoint each, in one commit. Where the world fails for one, none
    /// after it is tried, so that order is kept: those outcomes are missing. So are those after which the replies have
    /// `REPLIES_AT_ONCE` bytes: neither memory nor the writer has more of them at a time. Who follows the feed is woken by
    /// [`Store::wake_readers`], when the replies are placed.
    ///
    /// # Errors
    /// When the commit failed: then nothing of them is decided.
    pub fn settle_all(
        &self,
        files: Vec<CommandFile>,
        zones: Zones,
        now: Time,
    ) -> impl Future<Output = Result<Vec<Result<Settled>>>> + Send + use<> {
        let rules = self.rules_now(zones);
        let (mut replies, mut recall) = (0, Recall::default());
        self.write_pieces(files, move |c, file| {
            // What was read for one that fails, or panics, is not known for the next one.
            let mut known = std::mem::take(&mut recall);
            let settled = settle(c, &file, &rules, &mut known, now)?;
            recall = known;
            replies += settled.receipt.reply_bytes();
            Ok((settled, if replies >= REPLIES_AT_ONCE { Next::Waits } else { Next::Goes }))
        })
    }

    /// Writes down that a command was refused for a reason that lies outside it, so that it is answered and not tried
    /// for ever.
    pub async fn refuse(&self, file: CommandFile, refusal: Refusal, now: Time) -> Result<Settled> {
        self.write(move |c| keep(c, &file, refused(&file, refusal), now)).await
    }

    /// Does a command that came without a file, as if `caller` had asked. Returns the outcomes, or why it is refused.
    pub async fn act(
        &self,
        caller: Caller,
        command: Command,
        said: Transcripts,
        zones: Zones,
        now: Time,
    ) -> Result<std::result::Result<Vec<Outcome>, Refusal>> {
        let rules = self.rules_now(zones);
        self.write(move |c| {
            let cause = act::Cause::Person(&said);
            let acted = act::act(c, &cause, &caller, &command, &rules, &mut Recall::default(), now)?;
            Ok(acted.map(|acted| acted.outcomes))
        })
        .await
    }

    /// Returns the highest claim id that is known of: of any receipt, and of any decision of a person.
    pub fn last_claim(&self) -> Result<i64> {
        self.read(by_hand::last_claim)
    }

    /// Returns one receipt.
    pub fn receipt(&self, claim: i64) -> Result<Option<Receipt>> {
        self.read(|c| receipt(c, "claim_id = ?1", params![claim]))
    }

    /// Writes down the answer to a search, which is made after its receipt: its reply, and if that is a refusal, why. An
    /// answer that is there already stays, as it may have been seen. `None`: there is no such receipt.
    ///
    /// # Errors
    /// The store's.
    pub async fn answered(
        &self,
        claim: i64,
        group: Folder,
        reply: Arc<Vec<u8>>,
        refusal: Option<Refusal>,
    ) -> Result<Option<Receipt>> {
        let most = self.bounds_now().replies;
        self.write(move |c| {
            let Some(known) = receipt(c, "claim_id = ?1", params![claim])? else { return Ok(None) };
            if known.reply.is_some() {
                return Ok(Some(known));
            }
            let refusal = refusal.as_ref();
            let outcome =
                if refusal.is_some() { CommandOutcome::Refused } else { CommandOutcome::Applied };
            c.prepare_cached(
                "UPDATE receipts SET reply = ?2, outcome = ?3, code = ?4, reason = ?5, hint = ?6 WHERE claim_id = ?1",
            )?
            .execute(params![
                claim,
                *reply,
                outcome.as_str(),
                refusal.map(|refusal| refusal.code.as_str()),
                refusal.map(|refusal| refusal.message.as_str()),
                refusal.map(|refusal| refusal.hint.as_str()),
            ])?;
            if reply.len() >= LONG_REPLY {
                let_go(c, &group, most)?;
            }
            receipt(c, "claim_id = ?1", params![claim])
        })
        .await
    }

    /// Counts the malformed commands that came after a time.
    pub fn dead_since(&self, since: Time) -> Result<i64> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT count(*) AS dead FROM receipts INDEXED BY receipts_dead WHERE outcome = 'malformed' AND at > ?1",
            )?
            .query_row([since.0], |r| r.get("dead"))?)
        })
    }

    /// Counts malformed commands.
    pub fn dead_commands(&self) -> Result<i64> {
        self.read(|c| {
            Ok(c.query_row("SELECT count(*) FROM receipts WHERE outcome = 'malformed'", [], |r| r.get(0))?)
        })
    }
}

fn receipt(c: &Connection, which: &str, with: impl rusqlite::Params) -> Result<Option<Receipt>> {
    let sql = format!(
        "SELECT claim_id, box, name, type, request_id, outcome, code, reason, hint, reply, at FROM receipts WHERE {which} ORDER BY claim_id LIMIT 1"
    );
    Ok(c.prepare_cached(&sql)?
        .query_row(with, |r| {
            Ok(Receipt {
                claim: r.get("claim_id")?,
                box_name: r.get("box")?,
                name: r.get("name")?,
                kind: r.get("type")?,
                request_id: r.get("request_id")?,
                outcome: r.word("receipts", "outcome")?,
                code: r.word_or_null("receipts", "code")?,
                reason: r.get("reason")?,
                hint: r.get("hint")?,
                reply: r.get("reply")?,
                at: r.time("at")?,
            })
        })
        .optional()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::NewGroup;

    fn file(claim: i64, text: &str) -> CommandFile {
        holding(claim, &serde_json::json!({"type": "send_message", "chatJid": "local:main", "text": text}))
    }

    fn holding(claim: i64, json: &serde_json::Value) -> CommandFile {
        CommandFile {
            claim,
            group: Folder::parse("main").unwrap(),
            box_name: "messages".into(),
            name: format!("{claim}.json"),
            origin: claim.to_le_bytes().to_vec(),
            run: None,
            written: None,
            taken: None,
            digest: digest(json.to_string().as_bytes()),
            body: Ok(Arc::new(Body::of(json.to_string().as_bytes()))),
            refused: None,
            transcripts: Transcripts::new(),
            files: Ok(Vec::new()),
            found: None,
            proof: Proof::None,
        }
    }

    async fn with_main() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        let folder = Folder::parse("main").unwrap();
        let group = NewGroup { folder, name: "Main".into(), is_main: true, trigger: "@G2".into() };
        store.add_group(group, Vec::new(), Time(0)).await.unwrap();
        (dir, store)
    }

    #[tokio::test]
    async fn a_command_that_the_world_is_in_the_way_of_is_not_overtaken_by_those_after_it() {
        let (_dir, store) = with_main().await;
        let grow = |pages: i64| {
            store.write(move |c| {
                let at: i64 = c.query_row("PRAGMA page_count", [], |r| r.get(0))?;
                c.query_row(&format!("PRAGMA max_page_count = {}", at + pages), [], |_| Ok(()))?;
                Ok(())
            })
        };
        let zones = Zones::utc();
        let files = vec![file(1, "first"), file(2, &"x".repeat(500_000)), file(3, "third")];
        grow(20).await.unwrap();
        let outcomes = store.settle_all(files.clone(), zones.clone(), Time(0)).await.unwrap_or_default();
        assert!(outcomes.len() <= 2 && outcomes.iter().skip(1).all(Result::is_err), "{outcomes:?}");
        assert!(store.receipt(3).unwrap().is_none(), "it waits for the one before it");
        grow(10_000).await.unwrap();
        let outcomes = store.settle_all(files, zones, Time(0)).await.unwrap();
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let said = store.outbox(None, None).await.unwrap();
        let said: Vec<&str> = said.iter().map(|row| row.text.get(..5).unwrap_or(&row.text)).collect();
        assert_eq!(said, ["first", "xxxxx", "third"]);
    }

    #[tokio::test]
    async fn a_command_finds_what_one_before_it_in_the_same_commit_changed() {
        let (_dir, store) = with_main().await;
        let task = serde_json::json!({"type": "schedule_task", "prompt": "x", "schedule_type": "interval", "schedule_value": "1h", "targetJid": "local:new"});
        let files = [
            serde_json::json!({"type": "send_message", "chatJid": "local:new", "text": "of a chat that is not known"}),
            task.clone(),
            serde_json::json!({"type": "register_group", "jid": "local:new", "name": "New", "folder": "new", "trigger": "@G2"}),
            task,
        ];
        let files = (1..).zip(&files).map(|(claim, json)| holding(claim, json)).collect();
        let outcomes = store.settle_all(files, Zones::utc(), Time(0)).await.unwrap();
        let outcomes: Vec<_> =
            outcomes.into_iter().map(|outcome| outcome.map(|settled| settled.receipt.outcome)).collect();
        let [Ok(said), Ok(too_early), Ok(registered), Ok(scheduled)] = outcomes.as_slice() else {
            panic!("{outcomes:?}")
        };
        assert_eq!(
            [said, too_early, registered, scheduled],
            [
                &CommandOutcome::Applied,
                &CommandOutcome::Refused,
                &CommandOutcome::Applied,
                &CommandOutcome::Applied
            ]
        );
    }

    #[tokio::test]
    async fn what_was_claimed_before_a_group_was_registered_is_an_earlier_groups() {
        let (_dir, store) = with_main().await;
        let register = serde_json::json!({"type": "register_group", "jid": "local:team", "name": "Team", "folder": "team", "trigger": "@G2"});
        let text = serde_json::json!({"type": "send_message", "chatJid": "local:team", "text": "hello"});
        let of_team = |claim| CommandFile { group: Folder::parse("team").unwrap(), ..holding(claim, &text) };
        let mut second = register.clone();
        second["jid"] = "local:second".into();
        // A group that is there and is registered again, or for one more chat, goes on with what it asked for.
        let files = vec![
            holding(9, &register),
            of_team(8),
            of_team(11),
            holding(12, &register),
            of_team(10),
            holding(14, &second),
            of_team(13),
        ];
        let settled = store.settle_all(files, Zones::utc(), Time(0)).await.unwrap();
        let told: Vec<_> = settled.into_iter().map(|one| one.unwrap().receipt.reason).collect();
        let earlier = "an earlier group of the name team asked for it, and is gone".to_owned();
        assert_eq!(told, [None, Some(earlier), None, None, None, None, None]);
        let again = store.settle(of_team(10), Zones::utc(), Time(0)).await.unwrap();
        assert!(!again.fresh);
    }

    #[tokio::test]
    async fn no_group_is_registered_while_an_earlier_one_of_its_name_is_being_removed() {
        let (_dir, store) = with_main().await;
        let register = serde_json::json!({"type": "register_group", "jid": "local:team", "name": "Team", "folder": "team", "trigger": "@G2"});
        let team = || Folder::parse("team").unwrap();
        let settle = async |claim| {
            let settled = store.settle(holding(claim, &register), Zones::utc(), Time(0)).await.unwrap();
            (settled.receipt.outcome, settled.receipt.reason.unwrap_or_default())
        };
        assert_eq!(settle(1).await, (CommandOutcome::Applied, String::new()));
        store.remove_group(team()).await.unwrap();
        let (outcome, why) = settle(2).await;
        assert_eq!(outcome, CommandOutcome::Refused);
        assert!(why.contains("an earlier group team is being removed"), "{why}");
        // Nor does a person make one, and what is there already is not being removed.
        let group = NewGroup { folder: team(), name: "Team".into(), is_main: false, trigger: "@G2".into() };
        let told = store.add_group(group, Vec::new(), Time(0)).await.unwrap_err().to_string();
        assert!(told.contains("an earlier group team is being removed"), "{told}");
        assert_eq!(store.leaving().await.unwrap(), [team()].into());
        store.has_left(team()).await.unwrap();
        assert_eq!(settle(3).await, (CommandOutcome::Applied, String::new()));
        assert!(!store.leave(team()).await.unwrap(), "it is there");
        assert!(store.leaving().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_message_writes_no_page_that_nobody_needs() {
        let (dir, store) = with_main().await;
        let beside = Connection::open(dir.path().join("g2.sqlite")).unwrap();
        // The log of writes begins anew after a look, so that the next look counts the pages since this one.
        let pages = || -> i64 { beside.query_row("PRAGMA wal_checkpoint", [], |r| r.get("log")).unwrap() };
        let mut fewest = i64::MAX;
        for claim in 1..=20 {
            pages();
            store.settle_all(vec![file(claim, "x")], Zones::utc(), Time(0)).await.unwrap();
            fewest = fewest.min(pages());
        }
        // Of the receipt, of its text and of their indexes: now and then one is full, and there is another one.
        let changed = [
            "receipts",
            "receipts by origin",
            "stored",
            "events",
            "outbox",
            "open",
            "by chat",
            "by key",
            "numbers",
        ];
        assert_eq!(fewest, changed.len() as i64);
    }
}

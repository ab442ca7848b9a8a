//! A word of a person in a chat: the work on its conversation is stopped or tried again, its session or its group's model changed, or
//! the chat is told what was asked for.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, Time, effect::Lanes};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    fallbacks,
    said::{Key, said},
};
use crate::domain::{
    heard::chat_commands::{Word, told::NEW},
    runs::{
        group_config::Key as Setting,
        stop::{StopThen, StopWhen},
    },
};
use crate::store::{
    Result, Store, StoreError, audit,
    columns::Columns as _,
    talk::{groups, lanes, messages::tell_once, outbox::Say},
    work::sessions::{self, Transcripts},
};

/// A member is told at most once in that time that they may not say a word, ms.
const REFUSED_MS: i64 = 600_000;
/// How many answers to words a chat is told in a minute; what is asked for beyond them is done, and not told.
const MOST_TOLD: i64 = 20;
const MINUTE_MS: i64 = 60_000;

/// What a word asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// End the work on the conversation now.
    Stop,
    /// Try again what failed last, or rests.
    Retry,
    /// Begin a new session.
    New,
    /// Have the group use another model, empty: that of all groups; and say this afterwards.
    Model { name: String, says: String },
    /// Say this.
    Tell(String),
    /// Its sender may not say it; say this, unless it was said a while ago.
    Refuse(String),
}

/// What came of a word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordDone {
    /// The run that is to be stopped.
    pub stops: Option<i64>,
    /// What rested in the lane, or was given up, is to be tried now.
    pub wakes: bool,
    /// The group's live run is to leave, as its next one has other settings.
    pub relaunches: bool,
    /// For `why`.
    pub note: String,
}

/// The lane of a word, and the message.
#[derive(Clone, Debug)]
pub struct Spoken {
    pub lane: i64,
    pub seq: i64,
    pub by: String,
    /// What the word is called, whichever word the settings have for it.
    pub word: &'static str,
}

impl Store {
    /// Does what a word asks for, in one transaction with its row of the audit where it changes something. The chat is told once a
    /// message; where a run is stopped, its end is told instead.
    pub async fn heard_word(&self, spoken: Spoken, wish: Wish, now: Time) -> Result<WordDone> {
        self.write(move |c| {
            let by: String = spoken.by.chars().filter(|c| !c.is_control()).take(50).collect();
            match wish {
                Wish::Stop => at_work(c, &spoken, &by, StopThen::GiveUp, now),
                Wish::Retry => at_work(c, &spoken, &by, StopThen::AskAgain, now),
                Wish::New => begin_anew(c, &spoken, &by, now),
                Wish::Model { name, says } => set_model(c, &spoken, &by, (name, says), now),
                Wish::Tell(says) => {
                    let unsaid = match tell(c, &spoken, &says, now)? {
                        true => "",
                        false => ", which is not told: the chat was told enough within a minute",
                    };
                    let note = format!("it asked for {}{unsaid}", spoken.word);
                    Ok(WordDone { note, ..WordDone::default() })
                }
                Wish::Refuse(says) => {
                    let Place { chat, thread, .. } = place(c, spoken.lane)?;
                    tell_once(c, &chat, &thread, &says, &format!("a word of {by}"), REFUSED_MS, now)?;
                    let note = "its sender may not give this command here".to_owned();
                    Ok(WordDone { note, ..WordDone::default() })
                }
            }
        })
        .await
    }

    /// Has lanes of a group begin new sessions, and its live run leave where it works on one of them. `keep`: a name for what is
    /// archived of them, with the transcripts.
    pub async fn clear_lanes(
        &self,
        group: Folder,
        lanes: Vec<i64>,
        keep: Option<(String, Transcripts)>,
        now: Time,
    ) -> Result<()> {
        self.write(move |c| {
            for lane in lanes {
                let lane = Lanes::One(lane);
                if let Some((name, said)) = &keep {
                    sessions::archive_live(c, &group, lane, name, said, now)?;
                }
                clear(c, &group, lane)?;
            }
            Ok(())
        })
        .await
    }

    /// Returns the lanes of a group in a chat, or in one thread of it; an empty thread is the chat itself.
    pub fn lanes_in(&self, group: &Folder, chat: &str, thread: Option<&str>) -> Result<Vec<i64>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT id FROM lanes WHERE group_folder = ?1 AND chat_jid = ?2 AND (?3 IS NULL OR thread = ?3) ORDER BY id",
            )?
            .query_map(params![group.as_str(), chat, thread], |r| r.get(0))?
            .collect::<rusqlite::Result<_>>()?)
        })
    }
}

/// Lanes forget their session, and that their agent was addressed.
fn clear(c: &Connection, group: &Folder, lanes: Lanes) -> Result<()> {
    sessions::give(c, group, lanes, None)?;
    lanes::unstick(c, group, lanes)
}

/// The run that is at work on the lane is marked to be stopped; where there is none, and that is wanted, what failed last waits again.
fn at_work(c: &Connection, spoken: &Spoken, by: &str, then: StopThen, now: Time) -> Result<WordDone> {
    let word = spoken.word;
    let at_work: Option<i64> = c
        .prepare_cached(
            "SELECT id FROM runs r WHERE r.lane_id = ?1 AND r.status IN ('queued', 'running') AND (r.kind <> 'message' AND r.handled_at IS NULL
               OR EXISTS (SELECT 1 FROM batches b WHERE b.run_id = r.id AND b.state IN ('handed', 'claimed')))",
        )?
        .query_row([spoken.lane], |r| r.get("id"))
        .optional()?;
    if let Some(run) = at_work {
        c.prepare_cached("UPDATE runs SET stop_by = ?2, stop_when = ?3, stop_then = ?4 WHERE id = ?1")?
            .execute(params![run, by, StopWhen::Now.as_str(), then.as_str()])?;
        audit::append_in_chat(c, by, format!("word {word}: run {run} is stopped"), now)?;
        return Ok(WordDone {
            stops: Some(run),
            note: format!("it stopped run {run}"),
            ..WordDone::default()
        });
    }
    let (text, note, wakes) = match then {
        StopThen::GiveUp => ("Nothing is at work here.", "nothing was at work", false),
        StopThen::AskAgain if waits_again(c, spoken.lane)? => {
            ("I try it again now.", "what failed or rested is tried again", true)
        }
        StopThen::AskAgain => ("There is nothing to try again here.", "nothing had failed", false),
    };
    if wakes {
        audit::append_in_chat(c, by, format!("word {word}: {note}"), now)?;
    }
    tell(c, spoken, text, now)?;
    Ok(WordDone { wakes, note: note.to_owned(), ..WordDone::default() })
}

/// The lane forgets its session; a live run on it leaves.
fn begin_anew(c: &Connection, spoken: &Spoken, by: &str, now: Time) -> Result<WordDone> {
    let Place { group, chat, thread } = place(c, spoken.lane)?;
    let had: bool = c
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM sessions WHERE lane_id = ?1 AND session_id IS NOT NULL)
               OR EXISTS (SELECT 1 FROM runs WHERE group_folder = ?2 AND lane_id = ?1 AND status IN ('queued', 'running')) AS had",
        )?
        .query_row(params![spoken.lane, group.as_str()], |r| r.get("had"))?;
    clear(c, &group, Lanes::One(spoken.lane))?;
    if had {
        let place = if thread.is_empty() { chat } else { format!("{chat} thread {thread}") };
        let what = format!("word {}: group {group} begins a new session in {place}", spoken.word);
        audit::append_in_chat(c, by, what, now)?;
    }
    tell(c, spoken, NEW, now)?;
    let note = "the next message begins a new session".to_owned();
    Ok(WordDone { note, ..WordDone::default() })
}

/// The group uses another model from its next run on.
fn set_model(
    c: &Connection,
    spoken: &Spoken,
    by: &str,
    (name, says): (String, String),
    now: Time,
) -> Result<WordDone> {
    let Place { group, .. } = place(c, spoken.lane)?;
    match groups::set(c, &group, &BTreeMap::from([(Setting::Model, name.clone())])) {
        Ok(()) => {}
        // Nothing was changed: the settings of the group, or the name, can't be read.
        Err(StoreError::Refused { why, .. }) => {
            tell(c, spoken, &why, now)?;
            return Ok(WordDone { note: why, ..WordDone::default() });
        }
        Err(error) => return Err(error),
    }
    fallbacks::forget(c, &group)?;
    let to = if name.is_empty() { "that of all groups" } else { &name };
    let note = format!("the model of group {group} is {to}");
    audit::append_in_chat(c, by, format!("word {}: {note}", spoken.word), now)?;
    tell(c, spoken, &says, now)?;
    Ok(WordDone { relaunches: true, note, ..WordDone::default() })
}

/// Where a lane is.
struct Place {
    group: Folder,
    chat: String,
    thread: String,
}

fn place(c: &Connection, lane: i64) -> Result<Place> {
    Ok(c.prepare_cached("SELECT group_folder, chat_jid, thread FROM lanes WHERE id = ?1")?.query_row(
        [lane],
        |r| {
            Ok(Place { group: r.folder("group_folder")?, chat: r.get("chat_jid")?, thread: r.get("thread")? })
        },
    )?)
}

/// Has what rests in a lane, or was given up last, wait for its turn now; whether there is any.
fn waits_again(c: &Connection, lane: i64) -> Result<bool> {
    let newest: Option<(i64, bool)> = c
        .prepare_cached(
            "SELECT b.id, b.state = 'returned' AS returned FROM batches b WHERE b.lane_id = ?1 AND b.state IN ('returned', 'failed')
               AND EXISTS (SELECT 1 FROM inbox i INDEXED BY inbox_waking WHERE i.lane_id = b.lane_id AND i.n BETWEEN b.first AND b.last AND i.verdict = 'wake')
               AND (b.state = 'returned' OR b.id = (SELECT max(x.id) FROM batches x WHERE x.lane_id = ?1))
             ORDER BY b.state DESC, b.id DESC LIMIT 1",
        )?
        .query_row([lane], |r| Ok((r.get("id")?, r.get("returned")?)))
        .optional()?;
    let Some((batch, is_returned)) = newest else { return Ok(false) };
    if !is_returned {
        c.prepare_cached(
            "UPDATE batches SET state = 'returned', tries = 0, free_returns = 0, ended_at = NULL, said_from = NULL, said_to = NULL WHERE id = ?1",
        )?
        .execute([batch])?;
    }
    c.prepare_cached("UPDATE sessions SET rest_until = NULL WHERE lane_id = ?1")?.execute([lane])?;
    Ok(true)
}

/// Tells the chat, unless it was told many answers of late; whether it is told.
fn tell(c: &Connection, spoken: &Spoken, text: &str, now: Time) -> Result<bool> {
    let Place { chat, thread, .. } = place(c, spoken.lane)?;
    let of_late: i64 = c
        .prepare_cached(
            "SELECT count(*) AS told FROM (SELECT said_key, created_at FROM outbox WHERE chat_jid = ?1 ORDER BY id DESC LIMIT 50)
             WHERE said_key GLOB 'lane [0-9]* word [0-9]*' AND created_at > ?2",
        )?
        .query_row(params![chat, now.plus_ms(-MINUTE_MS).0], |r| r.get("told"))?;
    if of_late >= MOST_TOLD {
        return Ok(false);
    }
    let cause = format!("answer to message {}", spoken.seq);
    // What the words are is the same for each group that listens to the chat.
    let lane = if spoken.word == Word::Help.as_str() { 0 } else { spoken.lane };
    let key = Key::Word { lane, seq: spoken.seq };
    said(c, &key, &Say::notice(&chat, &thread, text, &cause), now)?;
    Ok(true)
}

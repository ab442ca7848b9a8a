//! What people ask for by words in a chat: how a conversation stands, which models were used, of which message they ask.

use ipc_handlers::{Folder, Time};
use rusqlite::{OptionalExtension as _, params};

use crate::domain::heard::chat_commands::told::{AtWork, MOST_TASKS, Session, Stands, Task, Tasks};
use crate::store::{Result, Store, columns::Columns as _, talk::outbox};

/// Among how many messages of a chat before a word a person's own is looked for, and among how many runs the beginning of a session.
const LOOKED_AT: i64 = 200;
/// Among how many of the newest tasks of a group those for a chat are looked for.
const TASKS: i64 = 5_000;
/// How much of a prompt is read, characters.
const PROMPT: i64 = 500;

impl Store {
    /// Returns how the conversation of a lane stands, and what its group's agent does.
    pub fn stands(&self, group: &Folder, lane: i64) -> Result<Stands> {
        self.read(|c| {
            let at_work = c
                .prepare_cached(
                    "SELECT lane_id, for_task, r.chat_jid = (SELECT chat_jid FROM lanes WHERE id = ?2) AS in_chat, stop_by IS NOT NULL AS stops,
                            coalesce((SELECT max(b.handed_at) FROM batches b WHERE b.run_id = r.id AND b.state IN ('handed', 'claimed')), started_at, created_at) AS since
                     FROM runs r INDEXED BY runs_one_per_group WHERE group_folder = ?1 AND status IN ('queued', 'running') AND (kind <> 'message' AND handled_at IS NULL
                       OR EXISTS (SELECT 1 FROM batches b WHERE b.run_id = r.id AND b.state IN ('handed', 'claimed')))",
                )?
                .query_row(params![group.as_str(), lane], |r| {
                    let (here, stops): (Option<i64>, bool) = (r.get("lane_id")?, r.get("stops")?);
                    let since = r.time("since")?;
                    let task: Option<String> = r.get("for_task")?;
                    let in_chat: Option<bool> = r.get("in_chat")?;
                    Ok(match (stops, here == Some(lane), task) {
                        (true, _, _) => AtWork::Stops,
                        (false, true, _) => AtWork::Here { since },
                        (false, false, Some(_)) if in_chat != Some(true) => AtWork::OfAnotherChat { since },
                        (false, false, task) => AtWork::Elsewhere { since, task },
                    })
                })
                .optional()?;
            let waiting = c
                .prepare_cached(
                    "SELECT (SELECT count(*) FROM inbox i INDEXED BY inbox_waking WHERE i.lane_id = l.id AND i.n > l.cursor AND i.verdict = 'wake')
                       + (SELECT count(*) FROM batches b INDEXED BY batches_open CROSS JOIN inbox i INDEXED BY inbox_waking
                            ON i.lane_id = b.lane_id AND i.n BETWEEN b.first AND b.last AND i.verdict = 'wake'
                          WHERE b.lane_id = l.id AND b.state = 'returned')
                     FROM lanes l WHERE l.id = ?1",
                )?
                .query_row([lane], |r| r.get(0))?;
            let session = c
                .prepare_cached(
                    "SELECT session_id IS NOT NULL AS goes_on, rest_until, active_at,
                            (SELECT r.created_at FROM (SELECT id, created_at, wake, generation FROM runs INDEXED BY runs_by_lane WHERE for_lane = ?1 ORDER BY id DESC LIMIT ?2) r
                             WHERE r.wake IN ('first', 'fresh') AND r.generation >= s.generation ORDER BY r.id DESC LIMIT 1) AS begun
                     FROM sessions s WHERE lane_id = ?1",
                )?
                .query_row([lane, LOOKED_AT], |r| {
                    let session = Session { begun: r.time_or_null("begun")?, used: r.time_or_null("active_at")? };
                    Ok((r.get::<_, bool>("goes_on")?.then_some(session), r.time_or_null("rest_until")?))
                })
                .optional()?;
            let (session, rests_until) = session.unwrap_or_default();
            Ok(Stands { at_work: at_work.unwrap_or(AtWork::Nothing), waiting, rests_until, session })
        })
    }

    /// Returns the first tasks of a group for a chat, and how many it has for that chat and for others.
    pub fn tasks_for(&self, group: &Folder, chat: &str) -> Result<Tasks> {
        self.read(|c| {
            let given = params![group.as_str(), chat, TASKS];
            let (here, elsewhere) = c
                .prepare_cached(
                    "SELECT coalesce(sum(chat_jid = ?2), 0) AS here, coalesce(sum(chat_jid <> ?2), 0) AS elsewhere
                     FROM (SELECT chat_jid FROM tasks INDEXED BY tasks_by_group WHERE group_folder = ?1 ORDER BY n DESC LIMIT ?3)",
                )?
                .query_row(given, |r| Ok((r.get("here")?, r.get("elsewhere")?)))?;
            let first = c
                .prepare_cached(
                    "SELECT id, substr(prompt, 1, ?5) AS prompt, status, next_run
                     FROM (SELECT n, id, chat_jid, prompt, status, next_run FROM tasks INDEXED BY tasks_by_group WHERE group_folder = ?1 ORDER BY n DESC LIMIT ?3)
                     WHERE chat_jid = ?2 ORDER BY n LIMIT ?4",
                )?
                .query_map(params![group.as_str(), chat, TASKS, MOST_TASKS, PROMPT], |r| {
                    Ok(Task {
                        id: r.get("id")?,
                        prompt: r.get("prompt")?,
                        status: r.get("status")?,
                        next: r.time_or_null("next_run")?,
                    })
                })?
                .collect::<rusqlite::Result<_>>()?;
            Ok(Tasks { first, here, elsewhere })
        })
    }

    /// Returns the models that any group has used since then, by name; at most `most` of them.
    pub fn models_since(&self, since: Time, most: usize) -> Result<Vec<String>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT DISTINCT model FROM usage_quarters WHERE quarter >= ?1 AND model <> '' ORDER BY model LIMIT ?2",
            )?
            .query_map(params![since.0, i64::try_from(most).unwrap_or(i64::MAX)], |r| r.get(0))?
            .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns the message that the sender of the message `word` asks about by it: the one that it replies to, or that the replied
    /// text of ours answers; where it replies to none, the newest one of theirs before it that was no word. `None`: there is none
    /// in its chat and thread.
    pub fn asked_about(&self, word: i64) -> Result<Option<i64>> {
        self.read(|c| {
            let (chat, thread, sender, reply): (String, String, String, Option<String>) = c
                .prepare_cached("SELECT chat_jid, thread, sender, reply_to_id FROM messages WHERE seq = ?1")?
                .query_row([word], |r| {
                    Ok((r.get("chat_jid")?, r.get("thread")?, r.get("sender")?, r.get("reply_to_id")?))
                })?;
            let Some(reply) = reply else {
                return Ok(c
                    .prepare_cached(
                        "SELECT m.seq FROM (SELECT seq, sender, thread, from_me FROM messages WHERE chat_jid = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?5) m
                         WHERE m.sender IN (SELECT ?3 UNION ALL SELECT other FROM same_person WHERE id = ?3) AND m.thread = ?4 AND NOT m.from_me
                           AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.seq = m.seq AND i.rule IN ('word', 'answer')) ORDER BY m.seq DESC LIMIT 1",
                    )?
                    .query_row(params![chat, word, sender, thread, LOOKED_AT], |r| r.get(0))
                    .optional()?);
            };
            let theirs: Option<i64> = c
                .prepare_cached(
                    "SELECT seq FROM messages INDEXED BY messages_by_id WHERE chat_jid = ?1 AND id = ?2 AND NOT from_me ORDER BY seq DESC LIMIT 1",
                )?
                .query_row([&chat, &reply], |r| r.get(0))
                .optional()?;
            let Some(said) = (match theirs {
                Some(seq) => return Ok(Some(seq)),
                None => outbox::said_as(c, &chat, &reply)?,
            }) else {
                return Ok(None);
            };
            Ok(c.prepare_cached(
                "SELECT max(i.seq) FROM outbox o JOIN batches b ON b.run_id = o.run_id AND o.id > coalesce(b.said_from, b.outbox_mark)
                   AND o.id <= coalesce(b.said_to, o.id) JOIN inbox i ON i.lane_id = b.lane_id AND i.n BETWEEN b.first AND b.last AND i.verdict = 'wake'
                 WHERE o.id = ?1",
            )?
            .query_row([said], |r| r.get(0))?)
        })
    }
}

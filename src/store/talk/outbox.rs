//! Texts for chats: strictly in order within a chat, and no chat waits for another.

use std::{borrow::Cow, fmt};

use channel_protocol::Span;
use g2_text::Rendered;
use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

pub(in crate::store) use crate::domain::rows::Button;
use crate::domain::{
    heard::chat_commands::told::plain,
    platforms::{
        attachments::Attachment,
        channels::{LONGEST_WAIT_MS, Then},
        gone,
        growth::Growth,
    },
    rows::{Delivery, OutboxRow},
    runs::retry::{self, Rest},
    states::{CauseKind, DeliveryStatus},
};
use crate::store::{
    Result, Store, StoreError, at_most,
    columns::Columns as _,
    talk::{
        addresses, approvals,
        attachments::{self, Beside, beside_said, with_files_said},
        questions,
    },
    which::Which,
};

/// A part of something to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxPart {
    /// `None`: the row's own text is the only part, or the platform has this one.
    pub text: Option<Rendered>,
    /// The first and the last of the row's files that go with it, counted from 1.
    pub files: Option<(usize, usize)>,
    /// What the platform calls it; `None`: it is not known to have it.
    pub platform_id: Option<String>,
}

/// What a part looks like, beside its words.
#[derive(Serialize, Deserialize)]
struct Looks {
    spans: Vec<Span>,
    html: Option<String>,
}

impl Looks {
    /// Returns it as it is stored; `None`: the words are all.
    fn of(part: &Rendered) -> Option<String> {
        let is_bare = part.spans.is_empty() && part.html.is_none();
        (!is_bare).then(|| serde_json::json!({"spans": part.spans, "html": part.html}).to_string())
    }
}

fn outbox_part(r: &Row<'_>) -> rusqlite::Result<OutboxPart> {
    let files = match (r.get("first_file")?, r.get("last_file")?) {
        (Some(first), Some(last)) => Some((first, last)),
        (None, _) | (_, None) => None,
    };
    let text = match r.get("text")? {
        // Files alone have no text.
        None => files.map(|_| Rendered::default()),
        Some(text) => {
            let looks = match r.get::<_, Option<String>>("looks")? {
                Some(_) => r.json("outbox_parts", "looks")?,
                None => Looks { spans: Vec::new(), html: None },
            };
            Some(Rendered { text, spans: looks.spans, html: looks.html })
        }
    };
    Ok(OutboxPart { text, files, platform_id: r.get("platform_id")? })
}

/// How far a text is that was seen growing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HowFar {
    /// So far it says this.
    Growing(Delivery),
    /// It is whole, and said.
    Whole(Delivery),
    /// It is whole, and still to be said.
    Waits,
    /// It is said no more.
    Gone,
}

/// The next text for a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextDelivery {
    Now(Delivery),
    /// The oldest row rests until then; later rows wait behind it.
    NotBefore(Time),
    Nothing,
}

impl Store {
    /// Returns the chats with texts to send. Costs one look into the index for each chat, however many texts it has.
    pub async fn chats_with_outbox(&self) -> Result<Vec<String>> {
        const OPEN: &str = "SELECT min(chat_jid) FROM outbox INDEXED BY outbox_open WHERE (status = 'pending' OR status = 'sending' OR status = 'unknown')";
        self.ask(move |c| {
            Ok(c.prepare_cached(&format!(
                "WITH RECURSIVE open (jid) AS ({OPEN} UNION ALL SELECT ({OPEN} AND chat_jid > jid) FROM open WHERE jid IS NOT NULL)
                 SELECT jid FROM open WHERE jid IS NOT NULL"
            ))?
            .query_map([], |r| r.get(0))?
            .collect::<rusqlite::Result<_>>()?)
        }).await
    }

    /// Says something to a chat in the host's name. `notice`: why, in a few words.
    pub async fn tell(&self, chat: String, text: String, notice: String, now: Time) -> Result<()> {
        self.write(move |c| {
            let say_it = Say::notice(&chat, "", &text, &notice);
            say(c, &say_it, now).map(drop)
        })
        .await
    }

    /// Has a person say something to a chat, in the name of a group's agent; `None`: of the group that the chat is wired to first.
    pub async fn say_by_hand(
        &self,
        chat: &str,
        thread: &str,
        text: &str,
        group: Option<Folder>,
        now: Time,
    ) -> Result<OutboxRow> {
        let (chat, thread, text) = (chat.to_owned(), thread.to_owned(), text.to_owned());
        self.write(move |c| {
            let group = match group {
                Some(group) => Some(group.to_string()),
                None => c
                    .prepare_cached(
                        "SELECT group_folder FROM wirings WHERE chat_jid = ?1 ORDER BY id LIMIT 1",
                    )?
                    .query_row([&chat], |r| r.get("group_folder"))
                    .optional()?,
            };
            let what = Say {
                chat_jid: &chat,
                thread: &thread,
                text: &text,
                group: group.as_deref(),
                ..Say::default()
            };
            let id = say(c, &what, now)?;
            one_row(c, id)?.ok_or_else(|| StoreError::NotFound { what: "outbox row", id: id.to_string() })
        })
        .await
    }

    /// Takes the oldest open row of a chat and marks it `sending`, so that a crash from here on is known about.
    pub async fn begin_delivery(&self, chat: &str, now: Time) -> Result<NextDelivery> {
        let chat = chat.to_owned();
        self.write(move |c| {
            let next = next_delivery(c, &chat, now)?;
            if let NextDelivery::Now(delivery) = &next {
                mark(c, delivery.id, &chat, now)?;
            }
            Ok(next)
        })
        .await
    }

    /// Marks a row of a chat as [`Store::begin_delivery`] does, and says whether it is still to be said there. The answer comes
    /// before the commit: if that fails, or the daemon dies in it, the row is not marked. Only for platforms that always know
    /// our ids.
    pub async fn mark_delivery(&self, id: i64, chat: &str, now: Time) -> Result<bool> {
        let chat = chat.to_owned();
        self.write_early(move |c| mark(c, id, &chat, now)).await
    }

    /// Returns the parts into which a row was cut, in order, with the platform's ids of those that it has. A row that was sent
    /// whole has one; one that is not laid out yet has none.
    pub async fn parts_of(&self, id: i64) -> Result<Vec<OutboxPart>> {
        self.ask(move |c| parts_of(c, id)).await
    }

    /// Writes down the parts of a row before the first of them is sent, so that every later try sends the same parts; behind
    /// those that there are.
    pub async fn lay_parts(&self, id: i64, parts: Vec<OutboxPart>) -> Result<()> {
        self.write(move |c| {
            let mut insert = c.prepare_cached(
                "INSERT INTO outbox_parts (outbox_id, part, chat_jid, text, looks, first_file, last_file) SELECT id, ?2, chat_jid, ?3, ?4, ?5, ?6 FROM outbox WHERE id = ?1",
            )?;
            let known: i64 = c
                .prepare_cached("SELECT coalesce(max(part), 0) FROM outbox_parts WHERE outbox_id = ?1")?
                .query_row([id], |r| r.get(0))?;
            for (n, part) in (known + 1..).zip(parts) {
                let looks = part.text.as_ref().and_then(Looks::of);
                let text = part.text.map(|text| text.text).filter(|text| !text.is_empty());
                insert.execute(params![id, n, text, looks, part.files.map(|f| f.0), part.files.map(|f| f.1)])?;
            }
            Ok(())
        })
        .await
    }

    /// The platform has a part, and not all of the row yet.
    pub async fn part_sent(&self, id: i64, part: u32, platform_id: String, now: Time) -> Result<()> {
        self.write(move |c| {
            part_sent(c, id, part, &platform_id, now)?;
            c.prepare_cached("UPDATE outbox SET begun_at = NULL WHERE id = ?1")?.execute([id])?;
            Ok(())
        })
        .await
    }

    /// The platform made several messages of a part: what it calls those after the first. Written before the part is marked.
    pub async fn more_ids(&self, id: i64, ids: Vec<String>) -> Result<()> {
        self.write(move |c| {
            for platform_id in ids {
                c.prepare_cached(
                    "INSERT INTO outbox_more_ids (chat_jid, platform_id, outbox_id) SELECT chat_jid, ?2, id FROM outbox WHERE id = ?1
                     ON CONFLICT (chat_jid, platform_id) DO UPDATE SET outbox_id = excluded.outbox_id",
                )?
                .execute(params![id, platform_id])?;
            }
            Ok(())
        })
        .await
    }

    /// A later part of a row is sent from now on: a crash from here on is known about.
    pub async fn part_begins(&self, id: i64, now: Time) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached("UPDATE outbox SET begun_at = ?2 WHERE id = ?1")?.execute(params![id, now.0])?;
            Ok(())
        })
        .await
    }

    /// A part that the platform has is another text now.
    pub async fn part_changed(&self, id: i64, part: u32, text: Rendered) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached(
                "UPDATE outbox_parts SET text = ?3, looks = ?4 WHERE outbox_id = ?1 AND part = ?2",
            )?
            .execute(params![id, part, text.text, Looks::of(&text)])?;
            Ok(())
        })
        .await
    }

    /// The platform has a part no more.
    pub async fn part_removed(&self, id: i64, part: u32) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached("DELETE FROM outbox_parts WHERE outbox_id = ?1 AND part = ?2")?
                .execute(params![id, part])?;
            Ok(())
        })
        .await
    }

    /// The platform shows of a text that grows all that there was of it. If there is more meanwhile, it is to be said; a text
    /// that is not whole rests until `again`.
    pub async fn shown_so_far(&self, said: &Delivery, again: Time, now: Time) -> Result<()> {
        let (id, text, growth) = (said.id, said.text.clone(), said.growth);
        self.write(move |c| {
            let whole = c
                .prepare_cached(
                    "UPDATE outbox SET status = iif(text = ?2 AND growth = ?3, 'sent', 'pending'), sent_at = iif(text = ?2 AND growth = ?3, ?4, NULL), error = NULL, begun_at = NULL,
                       attempts = 1, next_try_at = iif(growth = 'growing', ?5, NULL)
                     WHERE id = ?1 AND status = 'sending' RETURNING growth = 'grown' AND status = 'sent' AS whole",
                )?
                .query_row(params![id, text, growth.map(Growth::as_str), now.0, again.0], |r| r.get("whole"))
                .optional()?;
            if whole == Some(true) {
                c.prepare_cached("UPDATE outbox_parts SET text = NULL, looks = NULL WHERE outbox_id = ?1 AND platform_id IS NOT NULL")?
                    .execute([id])?;
            }
            Ok(())
        })
        .await
    }

    /// The platform has the last part. A row whose mark was lost, or that a person gave up since, is said all the same.
    pub async fn delivered(&self, id: i64, part: u32, platform_id: String, now: Time) -> Result<()> {
        self.write(move |c| delivered(c, id, part, &platform_id, now)).await
    }

    /// Marks what is to be said to a chat as said, oldest first and at most 256 rows; returns whether there may be more. For a
    /// channel whose listeners read the store.
    pub async fn said_all(&self, chat: &str, now: Time) -> Result<bool> {
        const MOST: usize = 256;
        let chat = chat.to_owned();
        self.write(move |c| {
            let said = c
                .prepare_cached(
                    "UPDATE outbox SET status = 'sent', attempts = iif(growth IS NULL, attempts + 1, 1), sent_at = ?2, next_try_at = NULL, error = NULL, begun_at = NULL
                     WHERE id IN (SELECT id FROM outbox INDEXED BY outbox_open
                                  WHERE chat_jid = ?1 AND (status = 'pending' OR status = 'sending' OR status = 'unknown') ORDER BY id LIMIT ?3)",
                )?
                .execute(params![chat, now.0, at_most(Some(MOST))])?;
            Ok(said == MOST)
        })
        .await
    }

    /// Returns the row of ours that the platform calls `platform_id` in a chat.
    pub async fn said_as(&self, chat: &str, platform_id: &str) -> Result<Option<i64>> {
        let chat = chat.to_owned();
        let platform_id = platform_id.to_owned();
        self.ask(move |c| said_as(c, &chat, &platform_id)).await
    }

    /// At start: what was being sent when the last daemon died. Rows of channels that always recognise our id go out again, as do
    /// those of which nothing was being sent yet. The others are `unknown` until their channel says how it is to go on.
    pub async fn recover_deliveries(&self, idempotent: Vec<String>) -> Result<usize> {
        self.write(move |c| {
            let rows: Vec<(i64, String, bool)> = c
                .prepare_cached("SELECT id, chat_jid, begun_at IS NOT NULL AS begun FROM outbox INDEXED BY outbox_open WHERE status = 'sending'")?
                .query_map([], |r| Ok((r.get("id")?, r.get("chat_jid")?, r.get("begun")?)))?
                .collect::<rusqlite::Result<_>>()?;
            for (id, chat, begun) in &rows {
                let channel = addresses::channel_of(c, chat)?;
                let again = !begun || idempotent.contains(&channel);
                let status = if again { DeliveryStatus::Pending } else { DeliveryStatus::Unknown };
                c.execute("UPDATE outbox SET status = ?2, error = CASE WHEN ?2 = 'pending' THEN error ELSE 'the daemon ended while this was being sent; it may have arrived' END WHERE id = ?1", params![id, status.as_str()])?;
            }
            Ok(rows.len())
        })
        .await
    }

    /// Returns outbox rows in order, of one chat or all; with `limit`, the newest ones.
    pub async fn outbox(&self, chat: Option<&str>, limit: Option<usize>) -> Result<Vec<OutboxRow>> {
        self.outbox_of(Which { chat: chat.map(str::to_owned), limit, ..Which::default() }).await
    }

    /// Returns one row.
    pub async fn outbox_row(&self, id: i64) -> Result<Option<OutboxRow>> {
        self.ask(move |c| one_row(c, id)).await
    }

    /// Returns what was said to a chat after the row `after`, in order, with texts that still grow, whether all there is of them is
    /// said or not, and nothing behind a row that is still to be said: at most `rows` rows, and none after those whose texts have `bytes` bytes together.
    pub async fn said_since(
        &self,
        chat: &str,
        after: i64,
        rows: usize,
        bytes: usize,
    ) -> Result<Vec<Delivery>> {
        let chat = chat.to_owned();
        self.ask(move |c| {
            let mut said = c.prepare_cached(&format!(
                "{DELIVERY} WHERE chat_jid = ?1 AND id > ?2 AND (status = 'sent' OR growth = 'growing')
                   AND id < coalesce((SELECT min(w.id) FROM outbox w INDEXED BY outbox_open WHERE w.chat_jid = ?1 AND w.id > ?2
                     AND (w.status = 'pending' OR w.status = 'sending' OR w.status = 'unknown') AND w.growth IS NOT 'growing'), outbox.id + 1)
                 ORDER BY id LIMIT ?3"
            ))?;
            let mut said = said.query(params![chat, after, at_most(Some(rows))])?;
            let (mut piece, mut read): (Vec<Delivery>, usize) = (Vec::new(), 0);
            while read < bytes
                && let Some(row) = said.next()?
            {
                let delivery = delivery_row(c, row)?;
                read = read.saturating_add(delivery.text.len());
                piece.push(delivery);
            }
            Ok(piece)
        })
        .await
    }

    /// Returns the texts of a chat that grow now.
    pub async fn growing_in(&self, chat: &str) -> Result<Vec<i64>> {
        let chat = chat.to_owned();
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT id FROM outbox INDEXED BY outbox_growing WHERE growth = 'growing' AND chat_jid = ?1 ORDER BY id",
            )?
            .query_map([chat], |r| r.get(0))?
            .collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// Returns how far a text is that was seen growing.
    pub async fn how_far(&self, id: i64) -> Result<HowFar> {
        self.ask(move |c| {
            let status: Option<DeliveryStatus> = c
                .prepare_cached("SELECT status FROM outbox WHERE id = ?1")?
                .query_row([id], |r| r.word("outbox", 0))
                .optional()?;
            let Some(status) = status.filter(|status| *status != DeliveryStatus::Failed) else {
                return Ok(HowFar::Gone);
            };
            let mut row = c.prepare_cached(&format!("{DELIVERY} WHERE id = ?1"))?;
            let mut row = row.query([id])?;
            let Some(row) = row.next()? else { return Ok(HowFar::Gone) };
            let delivery = delivery_row(c, row)?;
            Ok(match (delivery.growth, status) {
                (Some(Growth::Growing), _) => HowFar::Growing(delivery),
                (Some(Growth::Grown) | None, DeliveryStatus::Sent) => HowFar::Whole(delivery),
                (Some(Growth::Grown) | None, _) => HowFar::Waits,
            })
        })
        .await
    }

    /// Returns the id of the newest row of a chat that was said.
    pub async fn last_sent(&self, chat: &str) -> Result<i64> {
        let chat = chat.to_owned();
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT coalesce(max(id), 0) FROM outbox WHERE chat_jid = ?1 AND status = 'sent'",
            )?
            .query_row([chat], |r| r.get(0))?)
        })
        .await
    }

    /// Sends a row that failed once more. Returns it as it is before its first new try.
    pub async fn retry_outbox(&self, id: i64) -> Result<OutboxRow> {
        let none = move || StoreError::NotFound { what: "outbox row", id: id.to_string() };
        self.write(move |c| {
            match c.execute("UPDATE outbox SET status = 'pending', next_try_at = NULL, begun_at = NULL, held_back = 0 WHERE id = ?1 AND status IN ('failed', 'unknown')", [id])? {
                0 => {
                    let status: Option<DeliveryStatus> =
                        c.query_row("SELECT status FROM outbox WHERE id = ?1", [id], |r| r.word("outbox", 0)).optional()?;
                    Err(match status {
                        None => none(),
                        Some(status) => StoreError::refused(format!("outbox row {id} is {status}"), "only failed and unknown ones can be retried"),
                    })
                }
                _ => one_row(c, id)?.ok_or_else(none),
            }
        })
        .await
    }

    /// Gives up a row that waits, or of which nobody knows whether it arrived. Returns it.
    pub async fn drop_outbox(&self, id: i64, why: &str, now: Time) -> Result<OutboxRow> {
        let (why, asking) = (why.to_owned(), self.asking_now());
        let none = move || StoreError::NotFound { what: "outbox row", id: id.to_string() };
        self.write(move |c| {
            let dropped = c.execute(
                "UPDATE outbox SET status = 'failed', error = ?2, next_try_at = NULL, held_back = 0 WHERE id = ?1 AND (status IN ('pending', 'unknown') OR held_back = 1)",
                params![id, why],
            )?;
            let row = one_row(c, id)?.ok_or_else(none)?;
            if dropped == 0 {
                let (status, only) = (row.status, "only pending and unknown ones can be given up");
                return Err(StoreError::refused(format!("outbox row {id} is {status}"), only));
            }
            approvals::wording_failed(c, &asking, id, &why, now)?;
            questions::card_failed(c, id, &why, now)?;
            Ok(row)
        })
        .await
    }

    /// Counts the texts that are still to be sent.
    pub async fn outbox_pending(&self) -> Result<i64> {
        self.ask(move |c| {
            Ok(c.query_row(
                "SELECT count(*) FROM outbox WHERE (status = 'pending' OR status = 'sending' OR status = 'unknown')",
                [],
                |r| r.get(0),
            )?)
        })
        .await
    }
}

/// Returns the oldest open row of a chat.
pub(in crate::store) fn next_delivery(c: &Connection, chat: &str, now: Time) -> Result<NextDelivery> {
    let next = c
        .prepare_cached(&format!(
            "{DELIVERY} INDEXED BY outbox_open WHERE chat_jid = ?1 AND (status = 'pending' OR status = 'sending' OR status = 'unknown') ORDER BY id LIMIT 1"
        ))?
        .query([chat])?
        .next()?
        .map(|r| -> Result<_> { Ok((delivery_row(c, r)?, r.get::<_, Option<i64>>("next_try_at")?)) })
        .transpose()?;
    let Some((delivery, next_try_at)) = next else { return Ok(NextDelivery::Nothing) };
    // A clock that was ahead when the row failed does not keep it for longer than its longest rest.
    let rests = |at: &Time| retry::rest(*at, now, LONGEST_WAIT_MS) != Rest::Over;
    if let Some(at) = next_try_at.map(Time).filter(rests) {
        return Ok(NextDelivery::NotBefore(at));
    }
    Ok(NextDelivery::Now(delivery))
}

/// Notes that the platform did not take a part; whether the row was open still. See [`Store::delivery_failed`].
pub(in crate::store) fn not_delivered(
    c: &Connection,
    asking: &approvals::Asking,
    id: i64,
    error: &str,
    then: Then,
    in_doubt: Option<Time>,
    now: Time,
) -> Result<bool> {
    let (status, again, counts) = match then {
        Then::Again { after_ms, counts } => (DeliveryStatus::Pending, Some(after_ms), counts),
        Then::AgainUnknown { after_ms } => (DeliveryStatus::Unknown, Some(after_ms), true),
        Then::WithoutThread => (DeliveryStatus::Pending, Some(0), false),
        Then::GiveUp | Then::Gone(_) => (DeliveryStatus::Failed, None, true),
    };
    let again = again.map(|ms| now.plus_ms(ms).0);
    let thread_gone = (then == Then::WithoutThread).then(|| gone::kept(error));
    let noted = c
        .prepare_cached(
            "UPDATE outbox SET status = ?2, error = ?3, next_try_at = ?4, attempts = attempts + (status <> 'sending') - ?5, begun_at = ?6,
               thread_gone = coalesce(?7, thread_gone)
             WHERE id = ?1 AND (status = 'pending' OR status = 'sending' OR status = 'unknown')",
        )?
        .execute(params![id, status.as_str(), error, again, !counts, in_doubt.map(|since| since.0), thread_gone])?;
    if noted > 0 && status == DeliveryStatus::Failed {
        approvals::wording_failed(c, asking, id, error, now)?;
        questions::card_failed(c, id, error, now)?;
    }
    Ok(noted > 0)
}

/// See [`Store::parts_of`].
pub(in crate::store) fn parts_of(c: &Connection, id: i64) -> Result<Vec<OutboxPart>> {
    Ok(c.prepare_cached(
        "SELECT text, looks, first_file, last_file, platform_id, part FROM outbox_parts WHERE outbox_id = ?1
         UNION ALL
         SELECT NULL, NULL, NULL, NULL, CAST(id AS TEXT), 1 FROM outbox WHERE id = ?1 AND status = 'sent'
           AND NOT EXISTS (SELECT 1 FROM outbox_parts WHERE outbox_id = ?1)
         ORDER BY part",
    )?
    .query_map([id], outbox_part)?
    .collect::<rusqlite::Result<_>>()?)
}

/// Marks an open row of a chat as being sent; whether it is one.
fn mark(c: &Connection, id: i64, chat: &str, now: Time) -> Result<bool> {
    let marked = c
        .prepare_cached(
            "UPDATE outbox SET status = 'sending', attempts = attempts + 1, next_try_at = NULL, begun_at = coalesce(begun_at, iif(growth IS NULL, ?3, NULL))
             WHERE id = ?1 AND chat_jid = ?2 AND (status = 'pending' OR status = 'sending' OR status = 'unknown')",
        )?
        .execute(params![id, chat, now.0])?;
    Ok(marked > 0)
}

/// What a text that is said without its thread answers stands in that thread.
const DELIVERY: &str = "SELECT id, chat_jid, iif(thread_gone IS NULL, thread, '') AS thread, thread_gone IS NOT NULL AS thread_gone, text, sender,
   iif(thread_gone IS NULL, reply_to, NULL) AS reply_to, attempts, next_try_at, begun_at, buttons, files, group_folder IS NOT NULL AS is_markdown, growth,
   EXISTS (SELECT 1 FROM outbox_parts WHERE outbox_id = outbox.id) AS is_laid
 FROM outbox";

fn delivery_row(c: &Connection, r: &Row<'_>) -> Result<Delivery> {
    Ok(Delivery {
        id: r.get("id")?,
        chat_jid: r.get("chat_jid")?,
        thread: r.get("thread")?,
        thread_gone: r.get("thread_gone")?,
        text: r.get("text")?,
        is_markdown: r.get("is_markdown")?,
        growth: r.word_or_null("outbox", "growth")?,
        sender: r.get("sender")?,
        reply_to: r.get("reply_to")?,
        attempts: r.get("attempts")?,
        buttons: match r.get::<_, Option<String>>("buttons")? {
            Some(_) => r.json("outbox", "buttons")?,
            None => Vec::new(),
        },
        attachments: match r.get("files")? {
            0 => Vec::new(),
            1_u32.. => beside_said(c, r.get("id")?)?,
        },
        in_doubt_since: r.time_or_null("begun_at")?,
        for_people: false,
        is_laid: r.get("is_laid")?,
    })
}

/// Returns the row a part of which the platform calls so.
pub(in crate::store) fn said_as(c: &Connection, chat: &str, platform_id: &str) -> Result<Option<i64>> {
    let named = c
        .prepare_cached(
            "SELECT outbox_id FROM outbox_parts INDEXED BY outbox_parts_by_id WHERE chat_jid = ?1 AND platform_id = ?2 ORDER BY outbox_id DESC LIMIT 1",
        )?
        .query_row([chat, platform_id], |r| r.get(0))
        .optional()?;
    let named = match named {
        Some(id) => Some(id),
        None => c
            .prepare_cached("SELECT outbox_id FROM outbox_more_ids WHERE chat_jid = ?1 AND platform_id = ?2")?
            .query_row([chat, platform_id], |r| r.get(0))
            .optional()?,
    };
    let id: i64 = match (named, platform_id.parse()) {
        (None, Ok(id)) => id,
        (named, _) => return Ok(named),
    };
    Ok(c.prepare_cached(
        "SELECT id FROM outbox WHERE id = ?1 AND CAST(id AS TEXT) = ?3 AND chat_jid = ?2 AND status = 'sent'
           AND NOT EXISTS (SELECT 1 FROM outbox_parts WHERE outbox_id = ?1)",
    )?
    .query_row(params![id, chat, platform_id], |r| r.get(0))
    .optional()?)
}

/// The platform has a part. Its text, which the row holds as well, is not kept twice; and nothing is kept of the only part
/// where the platform calls it by the row's number, as `local` does: that would be two pages more in each commit.
fn part_sent(c: &Connection, id: i64, part: u32, platform_id: &str, now: Time) -> Result<()> {
    c.prepare_cached(
        "INSERT INTO outbox_parts (outbox_id, part, chat_jid, platform_id, sent_at) SELECT id, ?2, chat_jid, ?3, ?4 FROM outbox
         WHERE id = ?1 AND NOT (?2 = 1 AND ?3 = CAST(?1 AS TEXT) AND NOT EXISTS (SELECT 1 FROM outbox_parts WHERE outbox_id = ?1))
         ON CONFLICT (outbox_id, part) DO UPDATE SET platform_id = excluded.platform_id, sent_at = excluded.sent_at, text = iif((SELECT growth FROM outbox WHERE id = ?1) IS NULL, NULL, text), looks = iif((SELECT growth FROM outbox WHERE id = ?1) IS NULL, NULL, looks)",
    )?
    .execute(params![id, part, platform_id, now.0])?;
    Ok(())
}

fn delivered(c: &Connection, id: i64, part: u32, platform_id: &str, now: Time) -> Result<()> {
    part_sent(c, id, part, platform_id, now)?;
    c.prepare_cached(
        "UPDATE outbox SET status = 'sent', attempts = attempts + (status <> 'sending'), sent_at = ?2, next_try_at = NULL, error = NULL, begun_at = NULL
         WHERE id = ?1 AND status <> 'sent'",
    )?
    .execute(params![id, now.0])?;
    Ok(())
}

/// What has a text said.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) enum TextCause<'a> {
    Record {
        run: i64,
        n: u64,
    },
    /// A command of a file, by its claim.
    Command(i64),
    /// A person, by a command line.
    #[default]
    Person,
    Approval(i64),
    BatchFailed(i64),
    Waited,
    /// The host tells of something; in words.
    Notice(&'a str),
}

impl TextCause<'_> {
    /// Returns what the store decides by: the kind, and the number of what it names.
    pub(in crate::store) fn key(self) -> (CauseKind, Option<i64>) {
        match self {
            Self::Record { run, .. } => (CauseKind::Record, Some(run)),
            Self::Command(claim) => (CauseKind::Command, Some(claim)),
            Self::Person => (CauseKind::Person, None),
            Self::Approval(id) => (CauseKind::Approval, Some(id)),
            Self::BatchFailed(batch) => (CauseKind::BatchFailed, Some(batch)),
            Self::Waited => (CauseKind::Waited, None),
            Self::Notice(_) => (CauseKind::Notice, None),
        }
    }
}

/// In the words that people and programs read.
impl fmt::Display for TextCause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record { run, n } => write!(f, "run {run} record {n}"),
            Self::Command(claim) => write!(f, "command {claim}"),
            Self::Person => f.write_str("command line"),
            Self::Approval(id) => write!(f, "approval {id}"),
            Self::BatchFailed(batch) => write!(f, "notice: batch {batch} failed"),
            Self::Waited => f.write_str("waited"),
            Self::Notice(words) => write!(f, "notice: {words}"),
        }
    }
}

/// Something to say.
#[derive(Default)]
pub(in crate::store) struct Say<'a> {
    pub(in crate::store) chat_jid: &'a str,
    pub(in crate::store) thread: &'a str,
    pub(in crate::store) text: &'a str,
    pub(in crate::store) sender: Option<&'a str>,
    pub(in crate::store) reply_to: Option<&'a str>,
    pub(in crate::store) cause: TextCause<'a>,
    pub(in crate::store) run: Option<i64>,
    /// Whose command or record it is; `None`: the host says it, or a person does.
    pub(in crate::store) group: Option<&'a str>,
    /// What it can be answered with, where the channel has buttons.
    pub(in crate::store) buttons: &'a [Button],
    /// What is said once; see `crossing/said.rs`.
    pub(in crate::store) key: Option<&'a str>,
    /// What goes with it.
    pub(in crate::store) files: &'a [Attachment],
    /// It is the beginning of a text.
    pub(in crate::store) growing: bool,
}

impl<'a> Say<'a> {
    /// Something that the host tells of; `why`, in a few words.
    pub(in crate::store) fn notice(chat_jid: &'a str, thread: &'a str, text: &'a str, why: &'a str) -> Self {
        Self { chat_jid, thread, text, cause: TextCause::Notice(why), ..Self::default() }
    }
}

/// Returns the text of a run that still grows.
pub(in crate::store) fn growing(c: &Connection, run: i64) -> Result<Option<i64>> {
    Ok(c.prepare_cached(
        "SELECT id FROM outbox INDEXED BY outbox_growing WHERE run_id = ?1 AND growth = 'growing' ORDER BY id LIMIT 1",
    )?
    .query_row([run], |r| r.get(0))
    .optional()?)
}

/// A text goes on, so that there is something to say again.
pub(in crate::store) fn grow(c: &Connection, id: i64, text: &str) -> Result<()> {
    c.prepare_cached(
        "UPDATE outbox SET text = ?2, status = iif(status = 'sent', 'pending', status), sent_at = NULL WHERE id = ?1 AND growth = 'growing' AND text <> ?2",
    )?
    .execute(params![id, text])?;
    Ok(())
}

/// A text is whole. `text`: all of it; `None`: it stays as it is. What could not be said of its beginning is tried again.
pub(in crate::store) fn grown(c: &Connection, id: i64, text: Option<(&str, TextCause<'_>)>) -> Result<()> {
    let (text, cause) = text.unzip();
    c.prepare_cached(
        "UPDATE outbox SET growth = 'grown', text = coalesce(?2, text), cause = coalesce(?3, cause),
           status = iif(status IN ('sent', 'failed'), 'pending', status), sent_at = NULL, next_try_at = iif(status = 'sent', NULL, next_try_at)
         WHERE id = ?1 AND growth = 'growing'",
    )?
    .execute(params![id, text, cause.map(|cause| cause.to_string())])?;
    Ok(())
}

pub(in crate::store) fn say(c: &Connection, say: &Say<'_>, now: Time) -> Result<i64> {
    let (kind, of) = say.cause.key();
    let text = match say.cause {
        TextCause::BatchFailed(_) | TextCause::Waited | TextCause::Notice(_) => plain(say.text),
        // Those of agents and people have marks of their own; a question quotes them.
        TextCause::Record { .. } | TextCause::Command(_) | TextCause::Person | TextCause::Approval(_) => {
            Cow::Borrowed(say.text)
        }
    };
    let buttons = (!say.buttons.is_empty()).then(|| serde_json::json!(say.buttons).to_string());
    c.prepare_cached(
        "INSERT INTO outbox (chat_jid, thread, text, sender, reply_to, status, cause, run_id, created_at, buttons, group_folder, said_key, files, growth, cause_kind, cause_id) VALUES (coalesce((SELECT alias_of FROM chats WHERE jid = ?1), ?1), ?2, ?3, ?4, ?5, 'pending', ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    )?
    .execute(params![say.chat_jid, say.thread, text, say.sender, say.reply_to, say.cause.to_string(), say.run, now.0, buttons, say.group, say.key, say.files.len(), say.growing.then_some(Growth::Growing.as_str()), kind.as_str(), of])?;
    let id = c.last_insert_rowid();
    attachments::add(c, Beside::Said(id, say.group), say.chat_jid, say.files, now)?;
    Ok(id)
}

pub(in crate::store) const OUTBOX: &str = "SELECT id, chat_jid, thread, text, sender, reply_to, status, attempts, cause, cause_kind, created_at, sent_at, error, thread_gone FROM outbox";

fn one_row(c: &Connection, id: i64) -> Result<Option<OutboxRow>> {
    let found =
        c.prepare_cached(&format!("{OUTBOX} WHERE id = ?1"))?.query_row([id], outbox_row).optional()?;
    Ok(with_files_said(c, found.into_iter().collect())?.pop())
}

pub(in crate::store) fn outbox_row(r: &Row<'_>) -> rusqlite::Result<OutboxRow> {
    Ok(OutboxRow {
        id: r.get("id")?,
        chat_jid: r.get("chat_jid")?,
        thread: r.get("thread")?,
        text: r.get("text")?,
        sender: r.get("sender")?,
        reply_to: r.get("reply_to")?,
        status: r.word("outbox", "status")?,
        attempts: r.get("attempts")?,
        cause: r.get("cause")?,
        cause_kind: r.word("outbox", "cause_kind")?,
        created_at: r.time("created_at")?,
        sent_at: r.time_or_null("sent_at")?,
        error: r.get("error")?,
        thread_gone: r.get("thread_gone")?,
        attachments: Vec::new(),
    })
}

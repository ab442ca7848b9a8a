//! Questions of agents, their cards and their answers; [`crate::domain::heard::questions`] decides.
//!
//! A question and its card are made in the transaction of the command. An answer is a message that names its question from the moment
//! at which it comes in; the question is closed in the transaction that judges it, if its author is heard. The end of a question and the
//! message that tells it to the agent are one transaction, too. So nothing is asked, answered or told twice, wherever the daemon dies.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::domain::{
    heard::approvals::answer::{InReplyTo, Said},
    heard::questions::{
        KEPT, OPEN, Open, Question, QuestionState, Unanswered, answers, card, given, press, quote, told,
    },
    platforms::chats::ChatKind,
    rows::{Button, Inbound},
};
use crate::store::{
    Result, Store,
    columns::Columns as _,
    talk::{chats::at_new_address, messages, outbox},
    which::{Conditions, Which},
};

/// A question as an agent asks it.
pub(in crate::store) struct Asks<'a> {
    pub(in crate::store) group: &'a Folder,
    pub(in crate::store) chat_jid: &'a str,
    pub(in crate::store) thread: &'a str,
    pub(in crate::store) run: Option<i64>,
    pub(in crate::store) question: &'a str,
    pub(in crate::store) options: &'a [String],
    pub(in crate::store) expires_at: Time,
}

/// Makes a question without a card; `None`: the group has as many open ones as it may have. Of its closed ones the newest stay.
pub(in crate::store) fn make(
    c: &Connection,
    asks: &Asks<'_>,
    now: Time,
) -> Result<Option<(i64, String, Vec<Button>)>> {
    let group = asks.group.as_str();
    let open: usize = c
        .prepare_cached("SELECT count(*) FROM questions WHERE group_folder = ?1 AND state = 'open'")?
        .query_row([group], |r| r.get(0))?;
    if open >= OPEN {
        return Ok(None);
    }
    c.prepare_cached(
        "DELETE FROM questions WHERE group_folder = ?1 AND state <> 'open' AND id <= (
           SELECT id FROM questions WHERE group_folder = ?1 AND state <> 'open' ORDER BY id DESC LIMIT 1 OFFSET ?2)",
    )?
    .execute(params![group, KEPT])?;
    c.prepare_cached(
        "INSERT INTO questions (group_folder, chat_jid, thread, run_id, state, question, options, asked_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, 'open', ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        group,
        asks.chat_jid,
        asks.thread,
        asks.run,
        asks.question,
        serde_json::json!(asks.options).to_string(),
        now.0,
        asks.expires_at.0
    ])?;
    let id = c.last_insert_rowid();
    let button = |(n, label): (usize, &String)| Button { label: label.clone(), press: press(id, n) };
    let buttons = asks.options.iter().enumerate().map(button).collect();
    Ok(Some((id, card(id, asks.question, asks.options), buttons)))
}

/// The question is said by this row of the outbox.
pub(in crate::store) fn is_said_by(c: &Connection, id: i64, outbox: i64) -> Result<()> {
    c.prepare_cached("UPDATE questions SET card = ?2 WHERE id = ?1")?.execute([id, outbox])?;
    Ok(())
}

/// Returns the question that a message answers, and has the message tell it. `None`: it is a message like any other.
pub(in crate::store) fn read(c: &Connection, inbound: &mut Inbound, now: Time) -> Result<Option<i64>> {
    if inbound.from_me || inbound.bot || inbound.quiet || inbound.origin.no_answer().is_some() {
        return Ok(None);
    }
    let mut all = c.prepare_cached(&format!(
        "{QUESTION} INDEXED BY questions_open_by_chat WHERE chat_jid = ?1 AND state = 'open' AND expires_at > ?2
           AND EXISTS (SELECT 1 FROM wirings w WHERE w.group_folder = questions.group_folder AND w.chat_jid = questions.chat_jid) ORDER BY id"
    ))?;
    let all: Vec<Question> =
        all.query_map(params![inbound.chat_jid, now.0], question_row)?.collect::<rusqlite::Result<_>>()?;
    if all.is_empty() {
        return Ok(None);
    }
    let replied = replied_to(c, inbound)?;
    let mut open = Vec::new();
    for question in &all {
        // Somebody may have answered it, and is about to be heard: only who names it can mean it.
        let said = match is_taken(c, question.id)? {
            true => Said::NotYet,
            false => said(c, question, inbound)?,
        };
        open.push(Open { id: question.id, options: question.options.clone(), said });
    }
    let is_direct = c
        .prepare_cached("SELECT kind FROM chats WHERE jid = ?1")?
        .query_row([&inbound.chat_jid], |r| r.word::<ChatKind>("chats", "kind"))
        .optional()?
        == Some(ChatKind::Direct);
    let Some(id) = answers(&inbound.text, &open, replied, is_direct) else { return Ok(None) };
    if inbound.reply_to_text.is_none()
        && let Some(question) = all.iter().find(|question| question.id == id)
    {
        inbound.reply_to_text = Some(quote(&question.question, &question.options));
        inbound.answered.own = true;
    }
    Ok(Some(id))
}

/// A message that answers a question is heard: the question is closed, unless it was before.
pub(in crate::store) fn close(c: &Connection, question: i64, seq: i64) -> Result<()> {
    let Some(asked) = one(c, question)?.filter(|asked| asked.state == QuestionState::Open) else {
        return Ok(());
    };
    let (text, name): (String, String) = c
        .prepare_cached("SELECT text, coalesce(nullif(sender_name, ''), nullif(sender, ''), 'somebody') AS name FROM messages WHERE seq = ?1")?
        .query_row([seq], |r| Ok((r.get("text")?, r.get("name")?)))?;
    let (answer, name) = (given(&text, &asked.options), given(&name, &[]));
    c.prepare_cached(
        "UPDATE questions SET state = 'answered', seq = ?2, answer = ?3, answered_by = ?4 WHERE id = ?1",
    )?
    .execute(params![question, seq, answer, name])?;
    amend(c, &asked, &format!("answered by {name}: {answer}"))
}

/// A button of a question was pressed. Returns what its presser is told; `None`: there is no such question, or it was pressed where the
/// question was not asked. `at`: the chat, and what the platform calls the message with the button, if it says so.
pub(in crate::store) fn click(
    c: &Connection,
    (id, option): (i64, usize),
    user: &str,
    at: Option<(&str, &str)>,
    now: Time,
) -> Result<Option<String>> {
    let Some(asked) = one(c, id)? else { return Ok(None) };
    if let Some((chat, of)) = at {
        let mut chat = chat.to_owned();
        at_new_address(c, &mut chat)?;
        let is_card =
            of.is_empty() || outbox::said_as(c, &chat, of)?.is_none_or(|row| Some(row) == asked.card);
        if chat != asked.chat_jid || !is_card {
            return Ok(None);
        }
    }
    let Some(label) = asked.options.get(option) else {
        return Ok(Some(format!("question #q{id} has no answer number {}", option + 1)));
    };
    match asked.state {
        QuestionState::Open if asked.expires_at <= now => {
            return Ok(Some("The time to answer is over.".into()));
        }
        QuestionState::Open => {}
        QuestionState::Answered => {
            let by = asked.answered_by.as_deref().unwrap_or("somebody");
            return Ok(Some(format!("{by} has answered this already.")));
        }
        QuestionState::Expired => return Ok(Some("The time to answer is over.".into())),
        QuestionState::Undeliverable => {
            return Ok(Some("The agent does not wait for this answer any more.".into()));
        }
    }
    let (presses, newest): (i64, i64) = c
        .prepare_cached(
            "SELECT count(*) AS presses, coalesce(max(seq), 0) AS newest FROM messages INDEXED BY messages_by_answers
             WHERE answers = ?1 AND id = ''",
        )?
        .query_row([id], |r| Ok((r.get("presses")?, r.get("newest")?)))?;
    if presses >= MOST_PRESSES {
        return Ok(Some("Too many have pressed a button of this question.".into()));
    }
    // No other message has this key, also where old ones were pruned.
    let key = format!("press of #q{id} after {newest}");
    let mut inbound = Inbound {
        chat_jid: asked.chat_jid.clone(),
        replay_key: key,
        thread: asked.thread.clone(),
        sender: user.to_owned(),
        sender_name: name_of(c, &asked.chat_jid, user)?,
        text: label.clone(),
        mentioned: true,
        reply_to_text: Some(quote(&asked.question, &asked.options)),
        ..Inbound::default()
    };
    inbound.answered.own = true;
    if is_taken(c, id)? {
        return Ok(Some("Somebody has just answered this.".into()));
    }
    if !put(c, &asked, &inbound, now)? {
        return Ok(Some("The agent does not listen in this chat any more.".into()));
    }
    Ok(Some(format!("Your answer: {label}")))
}

/// The card of a question can't be said: the agent is told.
pub(in crate::store) fn card_failed(c: &Connection, outbox: i64, why: &str, now: Time) -> Result<()> {
    let asked = c
        .prepare_cached(&format!(
            "{QUESTION} INDEXED BY questions_open_by_card WHERE card = ?1 AND state = 'open'"
        ))?
        .query_row([outbox], question_row)
        .optional()?;
    match asked {
        Some(asked) => end(c, &asked, QuestionState::Undeliverable, Unanswered::NotSaid(why), now),
        None => Ok(()),
    }
}

/// A chat has a new address.
pub(in crate::store) fn moved(c: &Connection, from: &str, to: &str) -> Result<()> {
    c.execute("UPDATE questions SET chat_jid = ?2 WHERE chat_jid = ?1 AND state = 'open'", [from, to])?;
    Ok(())
}

/// A question is over without an answer.
fn end(c: &Connection, asked: &Question, state: QuestionState, why: Unanswered<'_>, now: Time) -> Result<()> {
    c.prepare_cached("UPDATE questions SET state = ?2 WHERE id = ?1")?
        .execute(params![asked.id, state.as_str()])?;
    if state == QuestionState::Expired {
        amend(c, asked, "nobody answered in time")?;
    }
    let told = Inbound {
        chat_jid: asked.chat_jid.clone(),
        replay_key: format!("end of #q{}", asked.id),
        thread: asked.thread.clone(),
        sender_name: "G2".into(),
        text: told(asked.id, &asked.question, why),
        from_me: true,
        ..Inbound::default()
    };
    put(c, asked, &told, now).map(drop)
}

/// Puts a message about a question into the lane of its agent alone. Returns whether the agent still listens there.
fn put(c: &Connection, asked: &Question, message: &Inbound, now: Time) -> Result<bool> {
    let listens = c
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM wirings WHERE group_folder = ?1 AND chat_jid = ?2)")?
        .query_row([&asked.group_folder, &asked.chat_jid], |r| r.get(0))?;
    if listens {
        let seq = messages::put_for_group(c, &asked.group_folder, message, now)?;
        messages::answers(c, seq, asked.id)?;
    }
    Ok(listens)
}

/// The card is to say what came of its question, and to lose its buttons.
fn amend(c: &Connection, asked: &Question, outcome: &str) -> Result<()> {
    c.prepare_cached(
        "INSERT OR IGNORE INTO amends (outbox_id, outcome) SELECT id, ?2 FROM outbox WHERE id = ?1",
    )?
    .execute(params![asked.card, outcome])?;
    Ok(())
}

/// Whether a message that answers a question is still to be judged.
fn is_taken(c: &Connection, question: i64) -> Result<bool> {
    Ok(c.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM (SELECT seq FROM messages INDEXED BY messages_by_answers WHERE answers = ?1 ORDER BY seq DESC LIMIT ?2) m
           JOIN inbox i ON i.seq = m.seq WHERE i.verdict IS NULL)",
    )?
    .query_row(params![question, NEWEST], |r| r.get(0))?)
}

/// How a card stands in its chat: what the platform shows there after it.
fn said(c: &Connection, question: &Question, inbound: &Inbound) -> Result<Said> {
    if question.thread != inbound.thread {
        return Ok(Said::Before);
    }
    let sent_at: Option<Option<i64>> = c
        .prepare_cached("SELECT sent_at FROM outbox WHERE id = ?1")?
        .query_row([question.card], |r| r.get(0))
        .optional()?;
    let Some(sent_at) = sent_at.flatten() else { return Ok(Said::NotYet) };
    // What was written before the card was seen does not answer it.
    if inbound.late || inbound.at.is_some_and(|at| at.0 < sent_at - CLOCKS_MS) {
        return Ok(Said::NotYet);
    }
    let written = c
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM (SELECT id, answers, received_at, from_me, bot FROM messages INDEXED BY messages_by_chat WHERE chat_jid = ?1 ORDER BY seq DESC LIMIT ?3)
               WHERE received_at > ?2 AND NOT from_me AND NOT bot AND NOT (id = '' AND answers IS NOT NULL))
             OR EXISTS (SELECT 1 FROM outbox INDEXED BY outbox_cards WHERE chat_jid = ?1 AND id > ?4 AND cause_kind = 'approval' AND buttons IS NOT NULL)",
        )?
        .query_row(params![question.chat_jid, sent_at, NEWEST, question.card], |r| r.get(0))?;
    Ok(if written { Said::Before } else { Said::Last })
}

/// How far the clocks of a platform and of this machine may be apart, ms.
const CLOCKS_MS: i64 = 60_000;

/// At most this many presses of one question are messages: those that nobody hears, too.
const MOST_PRESSES: i64 = 64;

/// How many of a chat's newest messages are looked at.
const NEWEST: i64 = 64;

/// What a message is a reply to.
fn replied_to(c: &Connection, inbound: &Inbound) -> Result<Option<InReplyTo>> {
    let Some(replied) = inbound.reply_to_id.as_deref() else { return Ok(None) };
    let Some(row) = outbox::said_as(c, &inbound.chat_jid, replied)? else {
        return Ok(Some(InReplyTo::Other));
    };
    let id = c
        .prepare_cached(
            "SELECT id FROM questions INDEXED BY questions_open_by_card WHERE card = ?1 AND state = 'open'",
        )?
        .query_row([row], |r| r.get(0))
        .optional()?;
    Ok(Some(id.map_or(InReplyTo::Other, InReplyTo::Card)))
}

/// The name of somebody who wrote in a chat, or is known.
fn name_of(c: &Connection, chat: &str, user: &str) -> Result<String> {
    let user = crate::domain::platforms::addresses::user_in(chat, user);
    let known: Option<String> = c
        .prepare_cached("SELECT name FROM users WHERE id = ?1 AND name <> ''")?
        .query_row([&user], |r| r.get(0))
        .optional()?;
    if let Some(known) = known {
        return Ok(known);
    }
    let written: Option<String> = c
        .prepare_cached(
            "SELECT sender_name FROM (SELECT seq, sender, sender_name FROM messages INDEXED BY messages_by_chat WHERE chat_jid = ?1 ORDER BY seq DESC LIMIT ?3)
             WHERE sender = ?2 AND sender_name <> '' LIMIT 1",
        )?
        .query_row(params![chat, user, NEWEST], |r| r.get(0))
        .optional()?;
    Ok(written.unwrap_or(user))
}

fn one(c: &Connection, id: i64) -> Result<Option<Question>> {
    Ok(c.prepare_cached(&format!("{QUESTION} WHERE id = ?1"))?.query_row([id], question_row).optional()?)
}

const QUESTION: &str = "SELECT id, group_folder, chat_jid, thread, run_id, state, question, options, card, asked_at, expires_at, seq, answer, answered_by FROM questions";

fn question_row(r: &Row<'_>) -> rusqlite::Result<Question> {
    Ok(Question {
        id: r.get("id")?,
        group_folder: r.get("group_folder")?,
        chat_jid: r.get("chat_jid")?,
        thread: r.get("thread")?,
        run: r.get("run_id")?,
        state: r.word("questions", "state")?,
        question: r.get("question")?,
        options: r.json("questions", "options")?,
        card: r.get("card")?,
        asked_at: r.time("asked_at")?,
        expires_at: r.time("expires_at")?,
        answer: r.get("answer")?,
        message: r.get("seq")?,
        answered_by: r.get("answered_by")?,
    })
}

impl Store {
    /// Ends the questions of agents that nobody answered in time, and tells the agents; returns how many.
    pub async fn expire_questions(&self, now: Time) -> Result<usize> {
        const DUE: &str =
            "FROM questions INDEXED BY questions_open_by_end WHERE state = 'open' AND expires_at <= ?1";
        let is_due: bool = self
            .ask(move |c| {
                Ok(c.prepare_cached(&format!("SELECT EXISTS (SELECT 1 {DUE})"))?
                    .query_row([now.0], |r| r.get(0))?)
            })
            .await?;
        if !is_due {
            return Ok(0);
        }
        self.write(move |c| {
            let over: Vec<i64> = c
                .prepare_cached(&format!("SELECT id {DUE} ORDER BY id"))?
                .query_map([now.0], |r| r.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let mut ended = 0;
            for id in over {
                // What somebody wrote in time counts, once it is judged.
                if !is_taken(c, id)?
                    && let Some(asked) = one(c, id)?
                {
                    end(c, &asked, QuestionState::Expired, Unanswered::Expired, now)?;
                    ended += 1;
                }
            }
            Ok(ended)
        })
        .await
    }

    /// Returns questions of agents in order: the open ones, or all that are kept.
    pub async fn questions(&self, all: bool, which: Which) -> Result<Vec<Question>> {
        self.ask(move |c| {
            let conditions =
                if all { Conditions::default() } else { Conditions::default().is("state = 'open'") }
                    .with("group_folder = ?", which.group.as_ref().map(ToString::to_string))
                    .with("chat_jid = ?", which.chat.clone())
                    .with("state = ?", which.state.map(str::to_owned))
                    .with("asked_at >= ?", which.since.map(|at| at.0))
                    .with("asked_at < ?", which.until.map(|at| at.0));
            which.rows(c, (QUESTION, "id"), conditions, question_row, |row: &Question| {
                vec![&row.question, &row.group_folder, &row.chat_jid]
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::platforms::channels::Then;

    const NOW: Time = Time(1_000);

    /// A group that listens in a chat and has asked there; its question, and its card.
    async fn asked(store: &Store) -> (i64, i64) {
        let seeds = "INSERT INTO groups (folder, name, trigger, created_at) VALUES ('family', 'Family', '@G2', 0);
             INSERT INTO chats (jid, channel, name, kind, created_at) VALUES ('tg:-1', 'tg', 'one', 'group', 0);
             INSERT INTO wirings (group_folder, chat_jid, engage_mode, created_at) VALUES ('family', 'tg:-1', 'mention', 0)";
        store
            .write(move |c| {
                c.execute_batch(seeds)?;
                let group = Folder::parse("family").expect("it is valid");
                let asks = Asks {
                    group: &group,
                    chat_jid: "tg:-1",
                    thread: "",
                    run: None,
                    question: "Which?",
                    options: &["a".into(), "b".into()],
                    expires_at: Time(9_000),
                };
                let (id, text, buttons) = make(c, &asks, NOW)?.expect("there is room");
                let what = outbox::Say {
                    chat_jid: "tg:-1",
                    text: &text,
                    buttons: &buttons,
                    cause: outbox::TextCause::Command(1),
                    group: Some("family"),
                    ..outbox::Say::default()
                };
                let row = outbox::say(c, &what, NOW)?;
                is_said_by(c, id, row)?;
                Ok((id, row))
            })
            .await
            .unwrap()
    }

    /// What waits to be judged: the text, and the question that it is about.
    async fn waiting(store: &Store) -> Vec<(String, Option<i64>)> {
        store.unjudged(10).await.unwrap().into_iter().map(|row| (row.text, row.answers)).collect()
    }

    #[tokio::test]
    async fn an_agent_is_told_once_that_its_card_could_not_be_said() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("g2.sqlite")).unwrap();
        let (id, card) = asked(&store).await;
        for _ in 0..2 {
            store.delivery_failed(card, "the chat is gone", Then::GiveUp, None, NOW).await.unwrap();
        }
        let told = "Your question #q1 could not be asked (the chat is gone): “Which?”".to_owned();
        assert_eq!(waiting(&store).await, [(told, Some(id))]);
        assert_eq!(store.expire_questions(Time(10_000)).await.unwrap(), 0);
        let (question, row) = (id, store.questions(true, Which::default()).await.unwrap());
        assert_eq!((row[0].id, row[0].state), (question, QuestionState::Undeliverable));
    }

    #[tokio::test]
    async fn a_question_that_nobody_answers_ends_and_one_that_somebody_has_just_answered_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("g2.sqlite")).unwrap();
        let (id, _) = asked(&store).await;
        assert_eq!(store.expire_questions(Time(8_999)).await.unwrap(), 0);
        let click = |option: usize, user: &'static str| {
            store.write(move |c| super::click(c, (id, option), user, None, Time(8_999)))
        };
        assert_eq!(click(9, "5").await.unwrap().as_deref(), Some("question #q1 has no answer number 10"));
        assert_eq!(click(1, "5").await.unwrap().as_deref(), Some("Your answer: b"));
        assert_eq!(click(0, "6").await.unwrap().as_deref(), Some("Somebody has just answered this."));
        assert_eq!(store.expire_questions(Time(9_000)).await.unwrap(), 0, "it came in time");
        assert_eq!(waiting(&store).await, [("b".to_owned(), Some(id))]);
        // Its author was not heard.
        store
            .write(|c| Ok(c.execute("UPDATE inbox SET verdict = 'ignore', rule = 'none'", [])?))
            .await
            .unwrap();
        assert_eq!(store.expire_questions(Time(9_000)).await.unwrap(), 1);
        assert_eq!(store.expire_questions(Time(9_000)).await.unwrap(), 0);
        let told = "Nobody answered your question #q1 in time: “Which?”".to_owned();
        assert_eq!(waiting(&store).await, [(told, Some(id))]);
        assert_eq!(click(0, "6").await.unwrap().as_deref(), Some("The time to answer is over."));
        let nobody = store.write(|c| super::click(c, (99, 0), "6", None, NOW)).await.unwrap();
        assert_eq!(nobody, None);
    }

    #[tokio::test]
    async fn a_group_has_as_many_open_questions_as_it_may_and_its_newest_closed_ones() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("g2.sqlite")).unwrap();
        asked(&store).await;
        let more = |n: usize| {
            store.write(move |c| {
                let group = Folder::parse("family").expect("it is valid");
                let mut made = 0;
                for _ in 0..n {
                    let asks = Asks {
                        group: &group,
                        chat_jid: "tg:-1",
                        thread: "",
                        run: None,
                        question: "Which?",
                        options: &[],
                        expires_at: Time(9_000),
                    };
                    made += usize::from(make(c, &asks, NOW)?.is_some());
                }
                Ok(made)
            })
        };
        assert_eq!(more(30).await.unwrap(), OPEN - 1);
        for _ in 0..12 {
            store.expire_questions(Time(9_000)).await.unwrap();
            assert_eq!(more(30).await.unwrap(), OPEN);
        }
        let all = store.questions(true, Which::default()).await.unwrap();
        assert!((KEPT..=KEPT + OPEN + OPEN).contains(&all.len()), "{}", all.len());
        assert_eq!(store.questions(false, Which::default()).await.unwrap().len(), OPEN);
    }
}

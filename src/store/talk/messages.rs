//! Messages as they came, and the inbox: a row per message and wiring.

use channel_protocol::MOST_REFERENCES;
use ipc_handlers::{
    Folder, Time,
    effect::{EngageMode, IgnoredMessages, SenderScope},
    file::MediaKind,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::domain::{
    heard::{
        access::{Listed, Standing, Unheeded, UnknownSenders},
        bots::{self, Bots, Turn},
        chat_commands::Commands,
        edits::Change,
        engage::{EngageVerdict, Rule, Sticky},
        hearing::{Asked, Wired},
        origin::{Author, Origin},
    },
    platforms::{
        addresses::user_in,
        attachments::{Attachment, heard_as, kept},
        chats::ChatKind,
    },
    rows::{Answered, HeldMessages, Inbound, Message, Quoted},
};
use crate::store::{
    Result, Store,
    columns::Columns as _,
    talk::{
        approvals::{self, Asking, Contact, YES_TO},
        attachments::{self, Beside, with_files},
        chats::{self, ensure_chat},
        claims,
        edits::{self, Edited},
        files, outbox, people, questions, restored, same,
    },
    which::{Conditions, Which},
};

/// The effects of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Our sequence number; the earlier one for an event that came again, or that changed a message which is known. 0: nothing is
    /// known of what it moved.
    pub seq: i64,
    /// The event came before, or changes nothing.
    pub again: bool,
    /// How many wirings see it.
    pub wired: usize,
    /// Another effect of it, in a sentence: it answered a question, or raised one.
    pub note: Option<String>,
    /// There is something to say.
    pub said: bool,
    /// A group that was made, and has no folder and no boxes yet.
    pub made: Option<Folder>,
}

/// The effects of judgements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllJudged {
    /// Somebody was asked about a sender.
    pub said: bool,
    /// The words of some of them, or a fact behind them, have changed meanwhile: those rows must be judged again.
    pub again: bool,
}

/// The words of a message, as they stood when they were read for a judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAs {
    pub seq: i64,
    /// When an edit took their place last; `None`: they are those that came first.
    pub edited_at: Option<Time>,
}

/// An inbox row that was not judged yet, with the facts for its judgement.
#[derive(Clone, Debug)]
pub struct Unjudged {
    pub n: i64,
    pub seq: i64,
    pub lane: i64,
    pub chat_jid: String,
    pub sender: String,
    /// The sender's other ids that never were another person's.
    pub also: Vec<String>,
    pub sender_name: String,
    /// The sender's standing with the group.
    pub standing: Standing,
    /// The chat's policy for senders that the group does not know.
    pub unknown_senders: UnknownSenders,
    /// Whether the agent was addressed before in its thread.
    pub sticky: Sticky,
    /// The question that it waited for, if the answer was that the group hears it.
    pub approved: Option<i64>,
    /// The question of the group's agent that it answers, or tells the end of.
    pub answers: Option<i64>,
    /// A button of a question was pressed: its words are the agent's.
    pub pressed: bool,
    /// `None`: the row's folder is no valid name. Other rows are judged all the same.
    pub group: Option<Folder>,
    pub trigger: String,
    /// `None` when the wiring was removed meanwhile.
    pub engage_mode: Option<EngageMode>,
    pub engage_pattern: Option<String>,
    pub sender_scope: Option<SenderScope>,
    pub ignored_message_policy: Option<IgnoredMessages>,
    pub text: String,
    /// When an edit took the place of its words last.
    pub edited_at: Option<Time>,
    /// Its sender's own words: they alone engage the agent.
    pub own_words: String,
    pub origin: Origin,
    /// Who wrote its text.
    pub author: Author,
    pub mentioned: bool,
    pub from_me: bool,
    pub bot: bool,
    /// What the group makes of bots; if it hears them, the turns of the chat's bots before, the newest first.
    pub bots: Bots,
    pub turns: Vec<Turn>,
    /// Who may give commands in the group's chats.
    pub commands: Commands,
    /// When it came.
    pub came: Time,
    /// It was written long before it came.
    pub late: bool,
    /// The kinds of the files beside it with which something is still to be done.
    pub pending: Vec<MediaKind>,
    /// Something is to be done with files of some message.
    pub files_wanted: bool,
}

impl Unjudged {
    /// Returns all ids by which a list may know the sender.
    pub fn senders(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.sender).chain(self.also.iter().map(String::as_str))
    }

    /// Returns which words its judgement is of.
    #[must_use]
    pub const fn read_as(&self) -> ReadAs {
        ReadAs { seq: self.seq, edited_at: self.edited_at }
    }

    /// Returns the facts for its judgement, together with the sender list's word on its sender.
    #[must_use]
    pub fn asked(&self, listed: Listed) -> Asked<'_> {
        let wired = self.group.is_some().then(|| {
            Some(Wired {
                mode: self.engage_mode?,
                pattern: self.engage_pattern.as_deref(),
                trigger: &self.trigger,
                ignored: self.ignored_message_policy?,
                sender_scope: self.sender_scope?,
            })
        });
        Asked {
            wired: wired.flatten(),
            text: &self.own_words,
            mentioned: self.mentioned,
            from_me: self.from_me,
            bot: self.bot,
            bots: self.bots,
            turns: &self.turns,
            came: self.came,
            late: self.late,
            sticky: self.sticky,
            approved: self.approved,
            answers: self.answers,
            named: !self.sender.is_empty(),
            standing: self.standing,
            listed,
            unknown_senders: self.unknown_senders,
        }
    }
}

/// A judgement to write down.
#[derive(Clone, Debug)]
pub struct Judged {
    pub n: i64,
    /// The words that it is of.
    pub read_as: ReadAs,
    pub verdict: EngageVerdict,
    pub rule: Rule,
    pub reason: String,
    /// From now on the lane's agent listens without being addressed again.
    pub sticks: bool,
    /// Set when it would have engaged, and its sender was not heard.
    pub refused: Option<Unheeded>,
    /// The question of the agent that it answers, which is closed if it wakes the agent.
    pub answers: Option<i64>,
}

impl Store {
    /// Stores an event and one inbox row per wiring of its chat, in one transaction. The same event again changes
    /// nothing.
    pub async fn accept(&self, inbound: Inbound, now: Time) -> Result<Accepted> {
        let asking = self.asking_now();
        self.write(move |c| accept(c, &asking, inbound, now)).await
    }

    /// Returns the oldest inbox rows that were not judged yet, at most `limit`.
    pub async fn unjudged(&self, limit: usize) -> Result<Vec<Unjudged>> {
        self.unjudged_after(0, limit).await
    }

    /// The same after a row of the inbox.
    pub async fn unjudged_after(&self, after: i64, limit: usize) -> Result<Vec<Unjudged>> {
        self.ask(move |c| {
            let mut rows = c.prepare_cached(&format!(
                "SELECT i.n, i.lane_id, l.group_folder, coalesce(w.trigger, g.trigger) AS trigger,
                        w.engage_mode, w.engage_pattern, w.ignored_message_policy, m.text, m.edited_at, m.mentioned, m.from_me, m.bot, m.late, m.files,
                        CASE WHEN m.origin IS NULL AND m.edited_at IS NOT NULL THEN 'edited' ELSE m.origin END AS origin, m.forwarded_from, m.comment, m.received_at, g.config ->> '$.bots' AS bots, g.config ->> '$.commands' AS commands,
                        i.seq, m.chat_jid, m.sender, m.sender_name, c.unknown_sender_policy, w.sender_scope, c.kind, d.main_thread, l.thread, l.sticky_at IS NOT NULL AS marked,
                        EXISTS (SELECT 1 FROM file_work INDEXED BY file_work_wanted WHERE until IS NOT NULL) AS files_wanted,
                        {YES_TO} AS approved,
                        CASE WHEN m.answers IS NOT NULL THEN (SELECT q.id FROM questions q
                          WHERE q.id = m.answers AND q.group_folder = l.group_folder AND (q.state = 'open' OR m.from_me)) END AS answers,
                        m.answers IS NOT NULL AND m.id = '' AS pressed
                 FROM inbox i JOIN lanes l ON l.id = i.lane_id JOIN groups g ON g.folder = l.group_folder
                 JOIN messages m ON m.seq = i.seq JOIN chats c ON c.jid = m.chat_jid
                 LEFT JOIN account_addresses d ON d.channel = c.channel
                 LEFT JOIN wirings w ON w.group_folder = l.group_folder AND w.chat_jid = l.chat_jid
                 WHERE i.verdict IS NULL AND i.n > ?2 AND NOT EXISTS (SELECT 1 FROM file_holds h INDEXED BY file_holds_by_lane WHERE h.lane_id = i.lane_id AND h.n <= i.n)
                 ORDER BY i.n LIMIT ?1"
            ))?;
            Ok(rows.query_map(params![limit, after], |r| unjudged_row(c, r))?.collect::<rusqlite::Result<_>>()?)
        }).await
    }

    /// Returns the inbox rows that a message would make. Nothing is stored.
    pub async fn as_if(&self, mut inbound: Inbound, now: Time) -> Result<Vec<Unjudged>> {
        inbound.sender = user_in(&inbound.chat_jid, &inbound.sender);
        self.ask(move |c| {
            let mut rows = c.prepare_cached(
                "SELECT 0 AS n, coalesce(l.id, 0) AS lane_id, w.group_folder,
                        coalesce(w.trigger, g.trigger) AS trigger, w.engage_mode, w.engage_pattern, w.ignored_message_policy,
                        ?2 AS text, NULL AS edited_at, ?3 AS mentioned, ?4 AS from_me, ?5 AS bot, 0 AS late, 0 AS files, NULL AS origin, NULL AS forwarded_from, NULL AS comment, ?9 AS seq, ?10 AS received_at, g.config ->> '$.bots' AS bots, g.config ->> '$.commands' AS commands, c.jid AS chat_jid, ?6 AS sender, ?7 AS sender_name,
                        c.unknown_sender_policy, w.sender_scope, c.kind, d.main_thread, ?8 AS thread, l.sticky_at IS NOT NULL AS marked, 0 AS files_wanted, NULL AS approved, NULL AS answers, 0 AS pressed
                 FROM wirings w JOIN groups g ON g.folder = w.group_folder JOIN chats c ON c.jid = w.chat_jid
                 LEFT JOIN account_addresses d ON d.channel = c.channel
                 LEFT JOIN lanes l ON l.group_folder = w.group_folder AND l.chat_jid = w.chat_jid AND l.thread = ?8
                 WHERE w.chat_jid = ?1 ORDER BY w.id",
            )?;
            let i = &inbound;
            let message =
                params![i.chat_jid, i.text, i.mentioned, i.from_me, i.bot, i.sender, i.sender_name, i.thread, i64::MAX, now.0];
            Ok(rows.query_map(message, |r| unjudged_row(c, r))?.collect::<rusqlite::Result<_>>()?)
        }).await
    }

    /// Counts the messages that wait until a person corrects a wiring, and returns the oldest; `None`: there is none.
    pub async fn held_messages(&self) -> Result<Option<HeldMessages>> {
        self.ask(move |c| {
            let mut oldest = c.prepare_cached(
                "SELECT (SELECT count(*) FROM inbox INDEXED BY inbox_held WHERE verdict = 'held') AS count,
                        i.seq, l.group_folder, l.chat_jid, coalesce(i.reason, '') AS reason
                 FROM inbox i INDEXED BY inbox_held JOIN lanes l ON l.id = i.lane_id WHERE i.verdict = 'held' ORDER BY i.n LIMIT 1",
            )?;
            let held = |r: &Row<'_>| {
                Ok(HeldMessages {
                    count: r.get("count")?,
                    seq: r.get("seq")?,
                    group: r.get("group_folder")?,
                    chat_jid: r.get("chat_jid")?,
                    reason: r.get("reason")?,
                })
            };
            Ok(oldest.query_row([], held).optional()?)
        })
        .await
    }

    /// Writes judgements down, with what follows from them: the marks of lanes, and the count of what was not heard. A
    /// row that was judged meanwhile keeps its first one, and one whose words an edit replaced meanwhile is judged again.
    pub async fn judge(&self, judged: Vec<Judged>, now: Time) -> Result<AllJudged> {
        let asking = self.asking_now();
        self.write(move |c| {
            let mut update = c.prepare_cached(
                "UPDATE inbox SET verdict = ?2, rule = ?3, reason = ?4 WHERE n = ?1 AND verdict IS NULL",
            )?;
            let mut reads_else = c.prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM inbox i JOIN messages m ON m.seq = i.seq
                   WHERE i.n = ?1 AND i.verdict IS NULL AND NOT (m.seq = ?2 AND m.edited_at IS ?3))",
            )?;
            let (mut all, mut unheard) = (AllJudged::default(), Vec::new());
            for row in judged {
                let ReadAs { seq, edited_at } = row.read_as;
                if reads_else.query_row(params![row.n, seq, edited_at.map(|at| at.0)], |r| r.get(0))? {
                    all.again = true;
                    continue;
                }
                let stranger = match row.refused {
                    Some(Unheeded::Asked) => approvals::unheard(c, row.n)?,
                    Some(Unheeded::Counted) | None => None,
                };
                if row.refused == Some(Unheeded::Asked) && stranger.is_none() {
                    // Admitted while it was being judged: it is judged anew, if it is still there.
                    all.again = true;
                    continue;
                }
                if update.execute(params![row.n, row.verdict.as_str(), row.rule.as_str(), row.reason])? == 0 {
                    continue;
                }
                if row.verdict == EngageVerdict::Wake
                    && let Some(question) = row.answers
                {
                    questions::close(c, question, seq)?;
                }
                if row.rule == Rule::BotLoop {
                    all.said |= tell_of_loop(c, row.n, now)?;
                }
                if row.sticks {
                    c.prepare_cached("UPDATE lanes SET sticky_at = coalesce(sticky_at, ?2) WHERE id = (SELECT lane_id FROM inbox WHERE n = ?1)
                         AND EXISTS (SELECT 1 FROM wirings w WHERE w.group_folder = lanes.group_folder AND w.chat_jid = lanes.chat_jid AND w.engage_mode = 'mention-sticky')")?
                        .execute([row.n, now.0])?;
                }
                match stranger {
                    Some(stranger) => unheard.push(stranger),
                    None if row.refused.is_some() => people::count_dropped(c, row.n, now)?,
                    None => {}
                }
            }
            all.said |= approvals::ask_about_senders(c, &asking, unheard, now)?;
            Ok(all)
        })
        .await
    }

    /// Tells the chat of an inbox row why its message is no command, once a message.
    pub async fn tell_no_command(&self, n: i64, why: &'static str, now: Time) -> Result<()> {
        self.write(move |c| {
            let (chat, thread, seq) = place_of(c, n)?;
            tell_once(c, &chat, &thread, why, &format!("message {seq}"), NO_COMMAND_MS, now).map(drop)
        })
        .await
    }

    /// Returns messages in order, of one chat or all; with `limit`, the newest ones.
    pub async fn messages(&self, chat: Option<&str>, limit: Option<usize>) -> Result<Vec<Message>> {
        self.messages_of(Which { chat: chat.map(str::to_owned), limit, ..Which::default() }).await
    }

    /// Returns the messages that are wanted, in order; those of a group are those that it got.
    pub async fn messages_of(&self, which: Which) -> Result<Vec<Message>> {
        self.ask(move |c| {
            let rows = which.rows(c, (MESSAGE, "seq"), wanted(&which), message_row, searched)?;
            with_files(c, rows)
        })
        .await
    }

    /// Returns what a chat has under the platform's id `id`, for what answers it: the newest message, otherwise a text of ours.
    pub async fn quoted(&self, chat: &str, id: &str) -> Result<Option<Quoted>> {
        let (chat, id) = (chat.to_owned(), id.to_owned());
        self.ask(move |c| {
            let theirs = c
                .prepare_cached(
                    "SELECT m.sender_name, CASE WHEN m.origin = 'forwarded' OR m.forwarded_from IS NOT NULL THEN m.shown ELSE m.text END AS text, m.from_me AS own,
                            (SELECT kind FROM attachments INDEXED BY attachments_in WHERE seq = m.seq ORDER BY n LIMIT 1) AS kind
                     FROM messages m INDEXED BY messages_by_id WHERE m.chat_jid = ?1 AND m.id = ?2 ORDER BY m.seq DESC LIMIT 1",
                )?
                .query_row([&chat, &id], quoted_row)
                .optional()?;
            if theirs.is_some() {
                return Ok(theirs);
            }
            let Some(row) = outbox::said_as(c, &chat, &id)? else { return Ok(None) };
            Ok(c.prepare_cached(
                "SELECT coalesce(o.sender, '') AS sender_name, o.text, 1 AS own,
                        (SELECT kind FROM attachments INDEXED BY attachments_out WHERE outbox_id = o.id ORDER BY n LIMIT 1) AS kind FROM outbox o WHERE o.id = ?1",
            )?
            .query_row([row], quoted_row)
            .optional()?)
        })
        .await
    }
}

fn quoted_row(r: &Row<'_>) -> rusqlite::Result<Quoted> {
    Ok(Quoted {
        sender_name: r.get("sender_name")?,
        text: r.get("text")?,
        kind: r.word_or_null("attachments", "kind")?,
        own: r.get("own")?,
    })
}

/// Returns what messages have to be to be wanted.
pub(in crate::store) fn wanted(which: &Which) -> Conditions {
    Conditions::default()
        .with("chat_jid = ?", which.chat.clone())
        .since(("FROM messages", "seq", "received_at"), which.since)
        .with("received_at < ?", which.until.map(|at| at.0))
        .with(
            "EXISTS (SELECT 1 FROM inbox g JOIN lanes l ON l.id = g.lane_id WHERE g.seq = messages.seq AND l.group_folder = ?)",
            which.group.as_ref().map(|group| group.to_string()),
        )
}

/// Returns the texts of a message that are searched.
pub(in crate::store) fn searched(message: &Message) -> Vec<&str> {
    vec![&message.shown, &message.sender_name, &message.sender, &message.chat_jid]
}

/// Stores an event and one inbox row per wiring of its chat. The same event again changes nothing.
pub(in crate::store) fn accept(
    c: &Connection,
    asking: &Asking,
    mut inbound: Inbound,
    now: Time,
) -> Result<Accepted> {
    chats::at_new_address(c, &mut inbound.chat_jid)?;
    inbound.sender = user_in(&inbound.chat_jid, &inbound.sender);
    if inbound.thread.is_empty() && !inbound.references.is_empty() {
        inbound.thread = thread_of(c, &inbound)?;
    }
    let known: Option<i64> = c
        .prepare_cached("SELECT seq FROM messages WHERE chat_jid = ?1 AND replay_key = ?2")?
        .query_row([&inbound.chat_jid, &inbound.replay_key], |r| r.get(0))
        .optional()?;
    if let Some(seq) = known {
        let wired = c
            .prepare_cached("SELECT count(*) AS wired FROM inbox WHERE seq = ?1")?
            .query_row([seq], |r| r.get("wired"))?;
        return Ok(Accepted { seq, wired, again: true, ..Accepted::default() });
    }
    let came = inbound.attachments.len();
    let files = kept(std::mem::take(&mut inbound.attachments));
    let edited = match inbound.origin {
        Origin::Edited => edits::look(c, &mut inbound, &files, now)?,
        Origin::Written | Origin::Forwarded => Edited::Unknown,
    };
    if let Edited::Nothing(seq) = edited {
        return Ok(Accepted { seq: seq.unwrap_or_default(), again: true, ..Accepted::default() });
    }
    ensure_chat(c, &inbound.chat_jid, now)?;
    // An answer to something that we said is meant for us.
    if let Some(id) = &inbound.reply_to_id {
        inbound.mentioned |= outbox::said_as(c, &inbound.chat_jid, id)?.is_some();
    }
    if let Some(info) = &inbound.chat {
        chats::learn(c, &inbound.chat_jid, info)?;
    }
    if !inbound.from_me && !inbound.bot {
        people::learn_dm(c, &inbound.sender, &inbound.chat_jid)?;
    }
    let claim = claims::read(c, &inbound, now)?;
    // Nothing that answers a question is a prompt as well.
    let reply = match claim {
        None => approvals::read_reply(c, &inbound, now)?,
        Some(_) => None,
    };
    let no_answer = reply.as_ref().and_then(approvals::Reply::question).zip(inbound.origin.no_answer());
    let reply = reply.filter(|_| no_answer.is_none());
    let answers = match (&reply, &no_answer, &claim) {
        (None, None, None) => questions::read(c, &mut inbound, now)?,
        (_, _, _) => None,
    };
    let Stored { seq, is_new, mut groups, wired } = store(c, &mut inbound, &edited, &files, now)?;
    let mut accepted = Accepted { seq, ..Accepted::default() };
    // What moves by itself asks nobody.
    if wired == 0 && !inbound.quiet && reply.is_none() && no_answer.is_none() && claim.is_none() {
        match approvals::first_contact(c, asking, &inbound, seq, now)? {
            Contact::Nothing => {}
            Contact::Wired(group) => {
                accepted.note = Some(format!("{} is wired to group {group} now", inbound.chat_jid));
                groups.push(group.to_string());
            }
            Contact::Waits { id, asked_now } => {
                accepted.said = asked_now;
                accepted.note = Some(format!(
                    "no group is wired to {}; it waits for the answer to question {id} (`g2 approvals show {id}`)",
                    inbound.chat_jid
                ));
            }
            Contact::Dropped { why, told } => {
                accepted.said |= told;
                accepted.note = Some(format!("nobody hears it: {why}"));
            }
        }
    }
    if let Some(question) = answers.filter(|_| is_new) {
        self::answers(c, seq, question)?;
    }
    for group in &groups {
        put_into_inbox(c, group, &inbound.chat_jid, &inbound.thread, seq)?;
    }
    accepted.wired = wired.max(groups.len());
    if inbound.late && is_new && accepted.wired > 0 && !inbound.from_me && !inbound.bot {
        accepted.said |= tell_of_late(c, &inbound.chat_jid, now)?;
    }
    if let Some(claim) = claim {
        let claims::Taken { note, said } = claims::take(c, claim, &inbound, now)?;
        is_no_prompt(c, seq, &note)?;
        accepted.said |= said;
        accepted.note = Some(note);
    }
    if let Some(reply) = reply {
        let replied = approvals::answer(c, asking, reply, &inbound, seq, now)?;
        is_no_prompt(c, seq, &replied.note)?;
        accepted.said = true;
        accepted.note = Some(replied.note);
        accepted.made = replied.made;
    }
    if let Some((question, why)) = no_answer {
        approvals::pass_over(c, question, &inbound, why, seq, now)?;
        accepted.said = true;
        accepted.note = Some(format!("it does not answer question {question}: {why}"));
    }
    if is_new {
        restored::hold_if_before(c, seq, inbound.at)?;
    }
    if files.len() < came {
        let left_out =
            format!("{} of its {came} files are left out: their rows have no room", came - files.len());
        accepted.note = Some(accepted.note.map_or(left_out.clone(), |note| format!("{note}; {left_out}")));
    }
    Ok(accepted)
}

/// The thread of the newest message of a chat that a message continues, as far as one is known; a text of ours is one, too.
fn thread_of(c: &Connection, inbound: &Inbound) -> Result<String> {
    for id in inbound.references.iter().rev().take(MOST_REFERENCES) {
        let theirs: Option<String> = c
            .prepare_cached(
                "SELECT thread FROM messages INDEXED BY messages_by_id WHERE chat_jid = ?1 AND id = ?2 ORDER BY seq DESC LIMIT 1",
            )?
            .query_row([&inbound.chat_jid, id], |r| r.get("thread"))
            .optional()?;
        if let Some(thread) = theirs {
            return Ok(thread);
        }
        if let Some(row) = outbox::said_as(c, &inbound.chat_jid, id)? {
            return Ok(c
                .prepare_cached("SELECT thread FROM outbox WHERE id = ?1")?
                .query_row([row], |r| r.get("thread"))?);
        }
    }
    Ok(String::new())
}

/// A message was for us alone, and is nothing to any agent.
fn is_no_prompt(c: &Connection, seq: i64, note: &str) -> Result<()> {
    c.prepare_cached(
        "UPDATE inbox SET verdict = 'ignore', rule = 'answer', reason = ?2 WHERE seq = ?1 AND verdict IS NULL",
    )?
    .execute(params![seq, note])?;
    Ok(())
}

/// What was stored of an event.
struct Stored {
    seq: i64,
    /// A message was made for it.
    is_new: bool,
    /// The groups whose inboxes are still to get that.
    groups: Vec<String>,
    /// How many wirings the chat has.
    wired: usize,
}

/// Makes the message of an event, or gives messages that are known the words of an edit.
fn store(
    c: &Connection,
    inbound: &mut Inbound,
    edited: &Edited,
    files: &[Attachment],
    now: Time,
) -> Result<Stored> {
    let (groups, wired) = match edited {
        Edited::Known(known) => {
            let wired = known.groups();
            let Some(own) = edits::apply(c, known, inbound, files, now)? else {
                return Ok(Stored { seq: known.newest, is_new: false, groups: Vec::new(), wired });
            };
            inbound.thread.clone_from(&known.thread);
            let files = if known.has_other_files() { files } else { &[] };
            let seq = insert(c, inbound, files.len(), now)?;
            attachments::add(c, Beside::Message(seq), &inbound.chat_jid, files, now)?;
            own.take_over(c, seq, files.is_empty())?;
            return Ok(Stored { seq, is_new: true, groups: own.groups, wired });
        }
        Edited::Unknown | Edited::Nothing(_) => {
            let groups: Vec<String> = c
                .prepare_cached("SELECT group_folder FROM wirings WHERE chat_jid = ?1 ORDER BY id")?
                .query_map([&inbound.chat_jid], |r| r.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let wired = groups.len();
            (groups, wired)
        }
    };
    let seq = insert(c, inbound, files.len(), now)?;
    attachments::add(c, Beside::Message(seq), &inbound.chat_jid, files, now)?;
    Ok(Stored { seq, is_new: true, groups, wired })
}

/// Makes the row of a message that has this number of files.
fn insert(c: &Connection, inbound: &Inbound, files: usize, now: Time) -> Result<i64> {
    let Answered { own, quote, kind, chat } = &inbound.answered;
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    c.prepare_cached(
        "INSERT INTO messages (chat_jid, replay_key, id, thread, sender, sender_name, text, at, received_at, from_me, bot, mentioned, reply_to_id, reply_to_text, reply_to_sender, late, files, origin,
           forwarded_from, comment, reply_to_self, reply_to_quote, reply_to_kind, reply_to_chat, title)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)",
    )?
    .execute(params![
        inbound.chat_jid, inbound.replay_key, inbound.id, inbound.thread, inbound.sender, inbound.sender_name,
        inbound.text, inbound.at.map(|t| t.0), now.0, inbound.from_me, inbound.bot, inbound.mentioned,
        inbound.reply_to_id, inbound.reply_to_text, inbound.reply_to_sender, inbound.late, files,
        Some(inbound.origin).filter(|origin| *origin != Origin::Written).map(Origin::as_str),
        inbound.forwarded_from, Some(&inbound.comment).filter(|comment| !comment.is_empty()),
        own, given(quote), kind.map(MediaKind::as_str), given(chat), Some(&inbound.title).filter(|title| !title.is_empty())
    ])?;
    Ok(c.last_insert_rowid())
}

/// Tells a chat that what was written while we were away was read and is not answered, once in [`LATE_NOTICE_MS`].
fn tell_of_late(c: &Connection, chat: &str, now: Time) -> Result<bool> {
    let text = "I was away for a while. I have read the messages that are more than an hour old, and I answer none of them by myself. Write again if you still want an answer.";
    tell_once(c, chat, "", text, LATE_NOTICE, LATE_NOTICE_MS, now)
}

const LATE_NOTICE: &str = "late messages";
/// What comes in one piece after an outage comes within that time, ms.
const LATE_NOTICE_MS: i64 = 3_600_000;

fn unjudged_row(c: &Connection, r: &Row<'_>) -> rusqlite::Result<Unjudged> {
    let (group, sender) =
        (Folder::parse(&r.get::<_, String>("group_folder")?).ok(), r.get::<_, String>("sender")?);
    let standing = match &group {
        Some(group) => people::standing(c, &sender, group)?,
        None => Standing::Unknown,
    };
    let (seq, text): (i64, String) = (r.get("seq")?, r.get("text")?);
    let origin: Origin = r.word_or_null("messages", "origin")?.unwrap_or_default();
    let kind: ChatKind = r.word("chats", "kind")?;
    let comment: Option<String> = r.get("comment")?;
    let from: Option<String> = r.get("forwarded_from")?;
    let author = Author::of(origin, from.as_deref());
    let mut own_words = author.own_words(kind, &text, comment.as_deref().unwrap_or_default());
    let mut pending = Vec::new();
    if r.get::<_, u32>("files")? > 0 {
        let files = attachments::beside_message(c, seq).unwrap_or_default();
        // The files of a forward are as little its sender's words as its text.
        if author == Author::Sender || kind == ChatKind::Direct {
            own_words = heard_as(&own_words, &files);
        }
        pending = files::pending(c, seq)?;
    }
    let (chat, bot, bots): (String, bool, _) =
        (r.get("chat_jid")?, r.get("bot")?, r.word_or_null("groups", "bots")?.unwrap_or_default());
    let main_thread: Option<String> = r.get("main_thread")?;
    let sticky =
        Sticky::of(kind, &main_thread.unwrap_or_default(), &r.get::<_, String>("thread")?, r.get("marked")?);
    let turns = match &group {
        Some(group) if bot && bots == Bots::Heard => turns_of(c, group, &chat, &sender, seq)?,
        Some(_) | None => Vec::new(),
    };
    Ok(Unjudged {
        n: r.get("n")?,
        lane: r.get("lane_id")?,
        group,
        trigger: r.get("trigger")?,
        engage_mode: r.word_or_null("wirings", "engage_mode")?,
        engage_pattern: r.get("engage_pattern")?,
        ignored_message_policy: r.word_or_null("wirings", "ignored_message_policy")?,
        text,
        edited_at: r.time_or_null("edited_at")?,
        own_words,
        origin,
        author,
        pending,
        files_wanted: r.get("files_wanted")?,
        mentioned: r.get("mentioned")?,
        from_me: r.get("from_me")?,
        bot,
        bots,
        turns,
        commands: r.word_or_null("groups", "commands")?.unwrap_or_default(),
        came: Time(r.get("received_at")?),
        late: r.get("late")?,
        seq,
        chat_jid: chat,
        also: same::always(c, &sender)?,
        sender,
        sender_name: r.get("sender_name")?,
        unknown_senders: r.word("chats", "unknown_sender_policy")?,
        sender_scope: r.word_or_null("wirings", "sender_scope")?,
        sticky,
        approved: r.get("approved")?,
        answers: r.get("answers")?,
        pressed: r.get("pressed")?,
        standing,
    })
}

/// Returns the newest turns of bots with a group in a chat, before the message `seq` of `sender`.
fn turns_of(
    c: &Connection,
    group: &Folder,
    chat: &str,
    sender: &str,
    seq: i64,
) -> rusqlite::Result<Vec<Turn>> {
    c.prepare_cached(
        "SELECT b.received_at, b.sender = ?2 AS own FROM (SELECT seq, received_at, sender FROM messages INDEXED BY messages_of_bots
           WHERE bot = 1 AND chat_jid = ?1 AND seq < ?3 ORDER BY seq DESC LIMIT ?5) b
         JOIN inbox i ON i.seq = b.seq JOIN lanes l ON l.id = i.lane_id
         WHERE l.group_folder = ?4 AND (i.verdict = 'wake' OR i.rule = 'bot_loop') ORDER BY b.seq DESC LIMIT ?6",
    )?
    .query_map(params![chat, sender, seq, group.as_str(), bots::LOOKED_THROUGH, bots::TURNS_OF_ALL], |r| {
        Ok(Turn { at: Time(r.get("received_at")?), own: r.get("own")? })
    })?
    .collect()
}

/// Tells a chat that a bot is no longer answered, once in [`bots::TOLD_EVERY_MS`].
fn tell_of_loop(c: &Connection, n: i64, now: Time) -> Result<bool> {
    let (chat, thread, _) = place_of(c, n)?;
    tell_once(c, &chat, &thread, bots::TOLD, BOT_NOTICE, bots::TOLD_EVERY_MS, now)
}

/// Returns where the message of an inbox row was written, and its number.
fn place_of(c: &Connection, n: i64) -> Result<(String, String, i64)> {
    Ok(c.prepare_cached(
        "SELECT m.chat_jid, m.thread, m.seq FROM inbox i JOIN messages m ON m.seq = i.seq WHERE i.n = ?1",
    )?
    .query_row([n], |r| Ok((r.get("chat_jid")?, r.get("thread")?, r.get("seq")?)))?)
}

/// Each group that hears a message is asked about it within that time, ms.
const NO_COMMAND_MS: i64 = 3_600_000;

const BOT_NOTICE: &str = "a bot that answers";

/// Says something in a chat, unless it was said there for the same cause less than `every_ms` ago.
pub(in crate::store) fn tell_once(
    c: &Connection,
    chat: &str,
    thread: &str,
    text: &str,
    notice: &str,
    every_ms: i64,
    now: Time,
) -> Result<bool> {
    let cause = outbox::TextCause::Notice(notice);
    let told: bool = c
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM (SELECT cause, created_at FROM outbox WHERE chat_jid = ?1 ORDER BY id DESC LIMIT 50) WHERE cause = ?2 AND created_at > ?3) AS told",
        )?
        .query_row(params![chat, cause.to_string(), now.plus_ms(-every_ms).0], |r| r.get("told"))?;
    if !told {
        outbox::say(c, &outbox::Say { chat_jid: chat, thread, text, cause, ..outbox::Say::default() }, now)?;
    }
    Ok(!told)
}

/// Has a group judge a message anew, under a new inbox row after the cursor. One that it was given, or that waits for it
/// already, stays as it is.
pub(in crate::store) fn replay(
    c: &Connection,
    group: &Folder,
    chat: &str,
    thread: &str,
    seq: i64,
) -> Result<()> {
    c.prepare_cached(
        "DELETE FROM inbox WHERE n = (SELECT i.n FROM inbox i JOIN lanes l ON l.id = i.lane_id
           WHERE i.seq = ?4 AND l.group_folder = ?1 AND l.chat_jid = ?2 AND l.thread = ?3
             AND (i.verdict IN ('ignore', 'held') OR (i.verdict = 'context' AND i.n > l.cursor)))",
    )?
    .execute(params![group.as_str(), chat, thread, seq])?;
    put_into_inbox(c, group.as_str(), chat, thread, seq)
}

/// Puts the words of an edit in the place of those of a message. No two edits of one have the same instant: a judgement tells by
/// that which words it is of.
pub(in crate::store) fn reword(
    c: &Connection,
    seq: i64,
    edit: &Inbound,
    change: Change,
    now: Time,
) -> Result<()> {
    // What no person changed is judged as it was.
    let by_person = change == Change::ByPerson;
    c.prepare_cached(
        "UPDATE messages SET text = ?2, forwarded_from = ?8, comment = ?3, edited_at = max(?4, coalesce(edited_at + 1, 0)),
           mentioned = CASE WHEN ?5 THEN ?6 OR (mentioned AND reply_to_id IS NOT NULL) ELSE mentioned END,
           late = CASE WHEN ?5 THEN ?7 ELSE late END WHERE seq = ?1",
    )?
    .execute(params![
        seq,
        edit.text,
        Some(&edit.comment).filter(|comment| !comment.is_empty()),
        now.0,
        by_person,
        edit.mentioned,
        edit.late,
        edit.forwarded_from
    ])?;
    Ok(())
}

/// Writes down how many files are beside a message by now.
pub(in crate::store) fn count_files(c: &Connection, seq: i64, files: usize) -> Result<()> {
    c.prepare_cached("UPDATE messages SET files = ?2 WHERE seq = ?1")?.execute(params![seq, files])?;
    Ok(())
}

/// Has an inbox row judged anew: where it stands, or behind all others if its lane has gone on past it, as nobody looks there any
/// more.
pub(in crate::store) fn judge_anew(c: &Connection, lane: i64, n: i64, seq: i64) -> Result<()> {
    let is_passed: bool = c
        .prepare_cached(
            "SELECT ?2 <= l.cursor OR EXISTS (SELECT 1 FROM inbox i INDEXED BY inbox_waking WHERE i.lane_id = ?1 AND i.verdict = 'wake' AND i.n > ?2) AS passed
             FROM lanes l WHERE l.id = ?1",
        )?
        .query_row([lane, n], |r| r.get("passed"))?;
    c.prepare_cached("DELETE FROM inbox WHERE n = ?1")?.execute([n])?;
    c.prepare_cached("INSERT INTO inbox (n, lane_id, seq) VALUES (?1, ?2, ?3)")?.execute(params![
        (!is_passed).then_some(n),
        lane,
        seq
    ])?;
    Ok(())
}

/// Has a group judge anew what its wiring to a chat holds.
pub(in crate::store) fn replay_held(c: &Connection, group: &Folder, chat: &str) -> Result<()> {
    let held: Vec<(String, i64)> = c
        .prepare_cached(
            "SELECT l.thread, i.seq FROM lanes l JOIN inbox i INDEXED BY inbox_held ON i.lane_id = l.id
             WHERE l.group_folder = ?1 AND l.chat_jid = ?2 AND i.verdict = 'held' ORDER BY i.n",
        )?
        .query_map([group.as_str(), chat], |r| Ok((r.get("thread")?, r.get("seq")?)))?
        .collect::<rusqlite::Result<_>>()?;
    held.iter().try_for_each(|(thread, seq)| replay(c, group, chat, thread, *seq))
}

/// Makes the inbox row of a message for one group, and the lane where it is new. A row that is there stays.
/// How a message is judged when it comes in.
pub(in crate::store) struct Placed {
    pub verdict: EngageVerdict,
    pub rule: Rule,
    pub reason: String,
}

/// Stores a message that is judged already, for one lane alone. The same key again changes nothing.
pub(in crate::store) fn put_into_lane(
    c: &Connection,
    lane: i64,
    message: &Inbound,
    placed: &Placed,
    now: Time,
) -> Result<i64> {
    let sender = user_in(&message.chat_jid, &message.sender);
    let known: Option<i64> = c
        .prepare_cached("SELECT seq FROM messages WHERE chat_jid = ?1 AND replay_key = ?2")?
        .query_row([&message.chat_jid, &message.replay_key], |r| r.get(0))
        .optional()?;
    if let Some(seq) = known {
        return Ok(seq);
    }
    c.prepare_cached(
        "INSERT INTO messages (chat_jid, replay_key, id, thread, sender, sender_name, text, at, received_at, from_me, bot, mentioned)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, 0, 0, 1)",
    )?
    .execute(params![
        message.chat_jid, message.replay_key, message.id, message.thread, sender, message.sender_name, message.text, now.0
    ])?;
    let seq = c.last_insert_rowid();
    c.prepare_cached("INSERT INTO inbox (lane_id, seq, verdict, rule, reason) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![lane, seq, placed.verdict.as_str(), placed.rule.as_str(), placed.reason])?;
    Ok(seq)
}

/// A message answers this question of an agent, or tells its end.
pub(in crate::store) fn answers(c: &Connection, seq: i64, question: i64) -> Result<()> {
    c.prepare_cached("UPDATE messages SET answers = ?2 WHERE seq = ?1")?.execute([seq, question])?;
    Ok(())
}

/// Stores a message for one group alone, which is to be judged like any other. It must not be known.
pub(in crate::store) fn put_for_group(
    c: &Connection,
    group: &str,
    message: &Inbound,
    now: Time,
) -> Result<i64> {
    let sender = user_in(&message.chat_jid, &message.sender);
    let seq = insert(c, &Inbound { sender, ..message.clone() }, 0, now)?;
    put_into_inbox(c, group, &message.chat_jid, &message.thread, seq)?;
    Ok(seq)
}

fn put_into_inbox(c: &Connection, group: &str, chat: &str, thread: &str, seq: i64) -> Result<()> {
    c.prepare_cached(
        "INSERT INTO lanes (group_folder, chat_jid, thread) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    )?
    .execute([group, chat, thread])?;
    c.prepare_cached(
        "INSERT INTO inbox (lane_id, seq) SELECT id, ?4 FROM lanes WHERE group_folder = ?1 AND chat_jid = ?2 AND thread = ?3
         ON CONFLICT DO NOTHING",
    )?
    .execute(params![group, chat, thread, seq])?;
    Ok(())
}

pub(in crate::store) const MESSAGE: &str = "SELECT seq, id, chat_jid, thread, sender, sender_name, text, at, received_at, from_me, bot, mentioned, reply_to_id, reply_to_text, reply_to_sender,
  reply_to_self, reply_to_quote, reply_to_kind, reply_to_chat, origin, forwarded_from, comment, edited_at, shown, title FROM messages";

pub(in crate::store) fn message_row(r: &Row<'_>) -> rusqlite::Result<Message> {
    Ok(Message {
        seq: r.get("seq")?,
        id: r.get("id")?,
        chat_jid: r.get("chat_jid")?,
        thread: r.get("thread")?,
        sender: r.get("sender")?,
        sender_name: r.get("sender_name")?,
        text: r.get("text")?,
        title: r.get("title")?,
        at: r.time_or_null("at")?,
        received_at: r.time("received_at")?,
        from_me: r.get("from_me")?,
        bot: r.get("bot")?,
        mentioned: r.get("mentioned")?,
        reply_to_id: r.get("reply_to_id")?,
        reply_to_text: r.get("reply_to_text")?,
        reply_to_sender: r.get("reply_to_sender")?,
        answered: Answered {
            own: r.get("reply_to_self")?,
            quote: r.get("reply_to_quote")?,
            kind: r.word_or_null("messages", "reply_to_kind")?,
            chat: r.get("reply_to_chat")?,
        },
        origin: r.word_or_null("messages", "origin")?.unwrap_or_default(),
        forwarded_from: r.get("forwarded_from")?,
        comment: r.get::<_, Option<String>>("comment")?.unwrap_or_default(),
        edited_at: r.time_or_null("edited_at")?,
        shown: r.get("shown")?,
        attachments: Vec::new(),
    })
}

//! Messages: each is there once as it was told, and is answered once, or its chat is told; in order.

use std::collections::{BTreeMap, BTreeSet};

use g2::domain::{heard::origin::Origin, platforms::channels::Mark, rows::Inbound};

use super::{Case, people, rows};
use crate::{agent::tokens, people::Deed};

pub(super) fn judge(case: &Case<'_>, broken: &mut Vec<String>) {
    // What was told of each message, in order: itself, then its edits.
    let mut told: BTreeMap<(&str, &str), Vec<&Inbound>> = BTreeMap::new();
    for (_, deed) in case.plan.deeds.iter().flatten() {
        match deed {
            Deed::Writes(message) => told.entry((&message.chat_jid, &message.id)).or_default().push(message),
            Deed::Marks(mark) => judge_mark(case, mark, broken),
            Deed::Presses { .. } => {}
        }
    }
    for events in told.values() {
        judge_told(case, events, broken);
    }
    judge_order(case, broken);
}

/// A row of what a platform calls one message.
struct Kept {
    seq: i64,
    key: String,
    text: String,
    origin: Option<String>,
    /// The keys of edits that took the place of its words.
    edits: BTreeSet<String>,
}

/// A deletion or a reaction is there once.
fn judge_mark(case: &Case<'_>, mark: &Mark, broken: &mut Vec<String>) {
    let found: Vec<(String, String)> = rows(
        case.c,
        "SELECT message_id, kind FROM message_marks WHERE chat_jid = ?1 AND (replay_key = ?2 OR replay_key LIKE ?2 || ' %')",
        [&mark.chat_jid, &mark.replay_key],
        |r| Ok((r.get("message_id")?, r.get("kind")?)),
    );
    let wanted = [(mark.message_id.clone(), mark.kind.as_str().to_owned())];
    if found != wanted {
        broken
            .push(format!("the mark {} is there as {found:?}, and was told as {wanted:?}", mark.replay_key));
    }
}

/// A message is there once, as it was told, and each edit took the place of its words or is a message of its own: one that nobody
/// had read is answered by nobody, and the last one stands there.
fn judge_told(case: &Case<'_>, events: &[&Inbound], broken: &mut Vec<String>) {
    let [first, ..] = events else { return };
    let name = &first.replay_key;
    let kept: Vec<Kept> = rows(
        case.c,
        "SELECT seq, replay_key, text, origin, (SELECT json_group_array(e.replay_key) FROM message_edits e WHERE e.seq = m.seq) AS edits
         FROM messages m WHERE chat_jid = ?1 AND id = ?2 ORDER BY seq",
        [&first.chat_jid, &first.id],
        |r| {
            Ok(Kept {
                seq: r.get("seq")?,
                key: r.get("replay_key")?,
                text: r.get("text")?,
                origin: r.get("origin")?,
                edits: serde_json::from_str(&r.get::<_, String>("edits")?).unwrap_or_default(),
            })
        },
    );
    for event in events {
        let key = &event.replay_key;
        let times = kept.iter().filter(|row| row.key == *key || row.edits.contains(key)).count();
        if times != 1 {
            broken.push(format!("the message {key} is there {times} times"));
        }
    }
    if kept.last().map(|row| &row.text) != events.last().map(|event| &event.text) {
        broken.push(format!("of the message {name} the last words are not those that stand there"));
    }
    let mut read = BTreeSet::new();
    for row in &kept {
        let of = |wanted: &dyn Fn(&Inbound) -> bool| events.iter().position(|event| wanted(event));
        let (came, says) = (of(&|event| event.replay_key == row.key), of(&|event| event.text == row.text));
        let (Some(came), Some(says)) = (came, says) else {
            broken.push(format!("the message {name} is kept as {:?} of {}", row.text, row.key));
            continue;
        };
        let told = Some(events[came].origin).filter(|origin| *origin != Origin::Written).map(Origin::as_str);
        if says < came || row.origin.as_deref() != told || !read.insert(says) {
            broken.push(format!("the message {name} is kept as {:?}, {:?}", row.text, row.origin));
        }
        judge_message(case, events[says], row.seq, broken);
    }
    for (_, event) in events.iter().enumerate().filter(|(n, _)| !read.contains(n)) {
        let answered = answered(case, event);
        if answered > 0 {
            broken.push(format!(
                "the words {} were replaced, and are answered {answered} times",
                event.replay_key
            ));
        }
    }
}

/// How many texts in its chat answer a message.
fn answered(case: &Case<'_>, message: &Inbound) -> usize {
    // A question to somebody else quotes it.
    let shows = |text: &str| tokens(text).any(|word| word == message.replay_key);
    case.shown.iter().filter(|(_, shown)| shown.chat == message.chat_jid && shows(&shown.text)).count()
}

/// A message that is for an agent is answered once, or its chat is told; one of somebody who was not admitted is not.
fn judge_message(case: &Case<'_>, message: &Inbound, seq: i64, broken: &mut Vec<String>) {
    let token = &message.replay_key;
    let answered = answered(case, message);
    let again = !case.shown.iter().all(|(kind, shown)| case.counts(kind) || shown.chat != message.chat_jid);
    if answered > 1 && !again {
        broken.push(format!("the message {token} is answered {answered} times"));
    }
    let is_heard = people::may_be_heard(case, message);
    if answered > 0 && !is_heard {
        broken
            .push(format!("the message {token} of {} is answered, and nobody allowed that", message.sender));
    }
    let why = match case.store.why(seq, case.now) {
        Ok(Some(why)) => why,
        Ok(None) => {
            broken.push(format!("nothing is known of the message {token}"));
            return;
        }
        Err(error) => {
            broken.push(format!("why of the message {token} fails: {error}"));
            return;
        }
    };
    if why.answer.is_empty() {
        broken.push(format!("why of the message {token} says nothing"));
    }
    // The chat was told, or a text about it may have arrived, or was given up.
    let is_wanted = message.mentioned && is_heard && !people::waits_in_vain(case, seq);
    if is_wanted && answered == 0 && why.outbox.is_empty() {
        broken.push(format!(
            "the message {token} has no answer, and its chat was told nothing: {}",
            why.answer
        ));
    }
}

/// Answers to a chat come in the order of its messages.
fn judge_order(case: &Case<'_>, broken: &mut Vec<String>) {
    // What waited for a person's answer comes later.
    let waited: BTreeSet<&str> = (case.plan.deeds.iter().flatten())
        .filter_map(|(_, deed)| deed.message())
        .filter(|message| people::needs_leave(message))
        .map(|message| message.replay_key.as_str())
        .collect();
    // An edit takes the place of the words that nobody has read.
    let places: BTreeMap<String, i64> = rows(
        case.c,
        // What is said to a question may have its words, which stand in the chat since it was asked.
        "SELECT m.text, max(i.n) AS n FROM inbox i JOIN messages m ON m.seq = i.seq WHERE m.answers IS NULL GROUP BY m.seq",
        [],
        |r| Ok((r.get::<_, String>("text")?, r.get::<_, i64>("n")?)),
    )
    .into_iter()
    .flat_map(|(text, n)| tokens(&text).map(|word| (word.to_owned(), n)).collect::<Vec<_>>())
    .collect();
    let (mut last, mut seen): (BTreeMap<&str, i64>, BTreeSet<&str>) = Default::default();
    // What is shown again comes out of order.
    for (_, shown) in case.shown.iter().filter(|(_, shown)| seen.insert(&shown.key)) {
        for word in tokens(&shown.text).filter(|word| !waited.contains(word)) {
            let Some(n) = places.get(word).copied() else { continue };
            let before = last.entry(&shown.chat).or_insert(n);
            if n < *before {
                broken
                    .push(format!("in {} {word}, number {n}, is answered after number {before}", shown.chat));
            }
            *before = n.max(*before);
        }
    }
}

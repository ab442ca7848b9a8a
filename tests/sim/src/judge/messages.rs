//! Messages: each is there once as it was told, and is answered once, or its chat is told; in order.

use std::collections::{BTreeMap, BTreeSet};

use g2::domain::{heard::origin::Origin, platforms::channels::Mark, rows::Inbound};

use super::{Case, people, rows};
use crate::{agent::tokens, people::Deed};

pub(super) fn judge(case: &Case<'_>, broken: &mut Vec<String>) {
    for (_, deed) in case.plan.deeds.iter().flatten() {
        match deed {
            Deed::Writes(message) => judge_message(case, message, broken),
            Deed::Marks(mark) => judge_mark(case, mark, broken),
            Deed::Presses { .. } => {}
        }
    }
    judge_order(case, broken);
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

/// A message is there once, as it was told. One that is for an agent is answered once, or its chat is told; one of somebody who was
/// not admitted is not.
fn judge_message(case: &Case<'_>, message: &Inbound, broken: &mut Vec<String>) {
    let token = &message.replay_key;
    let found: Vec<(i64, String, String, Option<String>)> = rows(
        case.c,
        "SELECT seq, id, text, origin FROM messages WHERE chat_jid = ?1 AND replay_key = ?2",
        [&message.chat_jid, token],
        |r| Ok((r.get("seq")?, r.get("id")?, r.get("text")?, r.get("origin")?)),
    );
    let [(seq, id, text, origin)] = &found[..] else {
        broken.push(format!("the message {token} is there {} times", found.len()));
        return;
    };
    let told = Some(message.origin).filter(|origin| *origin != Origin::Written).map(Origin::as_str);
    if (id, text, origin.as_deref()) != (&message.id, &message.text, told) {
        broken.push(format!("the message {token} is kept as {id}, {text:?}, {origin:?}"));
    }
    // A question to somebody else quotes it.
    let shows = |text: &str| tokens(text).any(|word| word == token);
    let answered =
        (case.shown.iter()).filter(|(_, shown)| shown.chat == message.chat_jid && shows(&shown.text)).count();
    let again = !case.shown.iter().all(|(kind, shown)| case.counts(kind) || shown.chat != message.chat_jid);
    if answered > 1 && !again {
        broken.push(format!("the message {token} is answered {answered} times"));
    }
    let is_heard = people::may_be_heard(case, message);
    if answered > 0 && !is_heard {
        broken
            .push(format!("the message {token} of {} is answered, and nobody allowed that", message.sender));
    }
    let why = match case.store.why(*seq, case.now) {
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
    let is_wanted = message.mentioned && is_heard && !people::waits_in_vain(case, *seq);
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
    let (mut last, mut seen): (BTreeMap<&str, usize>, BTreeSet<&str>) = Default::default();
    // What is shown again comes out of order.
    for (_, shown) in case.shown.iter().filter(|(_, shown)| seen.insert(&shown.key)) {
        for word in tokens(&shown.text).filter(|word| !waited.contains(word)) {
            let Some(n) = word.strip_prefix("tok").and_then(|n| n.strip_suffix('x')?.parse().ok()) else {
                continue;
            };
            let before = last.entry(&shown.chat).or_insert(n);
            if n < *before {
                broken.push(format!("in {} {word} is answered after tok{before}x", shown.chat));
            }
            *before = n.max(*before);
        }
    }
}

//! Texts: each is seen once, as it is at last, in order.

use std::collections::{BTreeMap, BTreeSet};

use super::{Case, rows};
use crate::Shown;

/// A row of the outbox.
struct Said {
    id: i64,
    chat: String,
    status: String,
    cause: String,
    text: String,
    files: i64,
    /// It asks an agent's question.
    asks: bool,
}

/// No part is shown twice; what is sent is shown, as it is at last; of a chat in the order of the rows. No reaction stays.
pub(super) fn judge(case: &Case<'_>, broken: &mut Vec<String>) {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, shown) in case.shown.iter().filter(|(kind, _)| case.counts(kind)) {
        *times.entry(&shown.key).or_default() += 1;
    }
    for (key, n) in times.iter().filter(|(_, n)| **n > 1) {
        broken.push(format!("the part {key} is shown {n} times"));
    }
    let said = rows(
        case.c,
        "SELECT id, chat_jid, status, cause, text, (SELECT count(*) FROM attachments a WHERE a.outbox_id = outbox.id) AS files,
           EXISTS (SELECT 1 FROM questions q WHERE q.card = outbox.id) AS asks FROM outbox ORDER BY id",
        [],
        |r| {
            Ok(Said {
                id: r.get("id")?,
                chat: r.get("chat_jid")?,
                status: r.get("status")?,
                cause: r.get("cause")?,
                text: r.get("text")?,
                files: r.get("files")?,
                asks: r.get("asks")?,
            })
        },
    );
    for said in said.iter().filter(|said| said.status == "sent" && said.chat.starts_with("sim")) {
        is_seen(case, said, broken);
    }
    let turns = turns(case);
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    for (kind, shown) in &case.shown {
        let before = last.entry(&shown.chat).or_default();
        let is_late = || match (turns.get(before), turns.get(&shown.row)) {
            (Some(before), Some(this)) => !kind.edits && before.told < this.came,
            (None, _) | (_, None) => false,
        };
        if shown.row < *before && !is_late() {
            broken.push(format!("in {} the text {} is shown after {before}", shown.chat, shown.row));
        }
        *before = shown.row.max(*before);
    }
    if case.signs > 0 {
        broken.push(format!("{} reactions stay", case.signs));
    }
}

/// When a row was told of first, and when its turn came, by the feed.
struct Turn {
    told: i64,
    came: i64,
    is_open: bool,
}

/// Returns the turns of all rows. Where a platform can't change what it shows, a text that grows counts as said until it is whole:
/// others go before it, and its turn comes then.
fn turns(case: &Case<'_>) -> BTreeMap<i64, Turn> {
    let mut turns = BTreeMap::new();
    let events: Vec<(i64, i64, bool, bool)> = rows(
        case.c,
        "SELECT e.seq, o.id, e.kind = 'say' AS opens, o.growth IS NOT NULL AS grows
         FROM events e JOIN outbox o ON o.id = CAST(e.subject AS INTEGER) WHERE e.kind IN ('say', 'said') ORDER BY e.seq",
        [],
        |r| Ok((r.get("seq")?, r.get("id")?, r.get("opens")?, r.get("grows")?)),
    );
    for (seq, row, opens, grows) in events {
        let turn = turns.entry(row).or_insert(Turn { told: seq, came: seq, is_open: false });
        if grows && opens && !turn.is_open {
            turn.came = seq;
        }
        turn.is_open = opens;
    }
    turns
}

fn is_seen(case: &Case<'_>, said: &Said, broken: &mut Vec<String>) {
    let Said { id, chat, cause, .. } = said;
    let mut known = BTreeSet::new();
    let parts: Vec<&Shown> = case
        .shown
        .iter()
        .map(|(_, shown)| shown)
        .filter(|shown| shown.row == *id && known.insert(&shown.key))
        .collect();
    if parts.is_empty() {
        broken.push(format!("the text {id} for {chat} ({cause}) counts as sent, and nobody saw it"));
        return;
    }
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    let seen: String = parts.iter().filter(|part| !part.is_gone).map(|part| bare(&part.text)).collect();
    // Behind it stands what came of a question, or that there are files.
    let is_more = cause.starts_with("approval ") || said.asks || said.files > 0;
    let wanted = bare(&said.text);
    if !(seen == wanted || (is_more && seen.starts_with(&wanted))) {
        broken
            .push(format!("the text {id} for {chat} ({cause}) is {:?}, and people see {seen:?}", said.text));
    }
}

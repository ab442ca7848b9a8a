//! What the store tells: chats, questions, platforms, and work that failed.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, Time};

use super::{super::backups, View};
use crate::{
    channels,
    domain::{
        heard::{
            approvals::full,
            engage::{takes_everything, wakes_unmentioned},
            js_regex::Pattern,
        },
        kept::prune::DAY_MS,
        problems::{Problem, of_channels, of_ledger},
        rows::Wiring,
        runs::hindrance::Hindrance,
        shown::errors::chain,
    },
    store::{ActiveRun, Store, StoreError},
};

/// Groups over which the daemon died again and again.
pub(super) fn aside(store: &Store, found: &mut Vec<Problem>) {
    match store.holds() {
        Ok(holds) => found.extend(holds.into_iter().filter(|hold| hold.aside).map(|hold| Problem::Aside {
            group: hold.group,
            // Each that the daemon sets aside has one.
            why: hold.reason.unwrap_or_default(),
            since: hold.at,
        })),
        Err(error) => found.push(Problem::Unreadable { what: "the holds", why: chain(&error) }),
    }
}

/// Runs that nobody owns. One whose container is found has an owner once the daemon has adopted it.
pub(super) fn unowned(store: &Store, found: &mut Vec<Problem>) {
    match store.active_runs() {
        Ok(active) => {
            found.extend(active.into_iter().filter(ActiveRun::is_unowned).map(|run| Problem::Unowned {
                group: run.group,
                run: run.id,
                source: run.work.to_string(),
                begun: run.created,
            }));
        }
        Err(error) => found.push(Problem::Unreadable { what: "the runs", why: chain(&error) }),
    }
}

/// Whether the daily backup works.
pub(super) fn backup(view: &View<'_>, store: &Store, found: &mut Vec<Problem>) {
    if view.config.backup.to.is_none() {
        return;
    }
    match backups::failure(store) {
        Ok(why) => found.extend(why.map(|why| Problem::Backup { why })),
        Err(error) => found.push(Problem::Unreadable { what: "the last backup", why: chain(&error) }),
    }
    match backups::lacks(store) {
        Ok(lacks) => {
            let folders = lacks.into_iter().flat_map(|(_, folders)| folders);
            found.extend(folders.map(|folder| Problem::BackupLacks { folder }));
        }
        Err(error) => found.push(Problem::Unreadable { what: "the last backup", why: chain(&error) }),
    }
}

/// What a restore held back.
pub(super) async fn held_back(store: &Store, found: &mut Vec<Problem>) {
    match store.count_held_back().await {
        Ok(held) if held.is_none() => {}
        Ok(held) => found.push(Problem::HeldBack { held }),
        Err(error) => found.push(Problem::Unreadable { what: "what is held back", why: chain(&error) }),
    }
}

/// Patterns, and messages that wait for a person.
pub(super) async fn hearing(store: &Store, found: &mut Vec<Problem>) {
    match store.wirings().await {
        Ok(wirings) => of_wirings(&wirings, found),
        Err(error) => found.push(Problem::Unreadable { what: "the wirings", why: chain(&error) }),
    }
    match store.held_messages().await {
        Ok(held) => found.extend(held.map(|held| Problem::Held {
            count: held.count,
            seq: held.seq,
            chat: held.chat_jid,
            group: held.group,
            reason: held.reason,
        })),
        Err(error) => found.push(Problem::Unreadable { what: "held messages", why: chain(&error) }),
    }
}

/// Patterns that can't be used, and chats in which several groups answer everything.
fn of_wirings(wirings: &[Wiring], found: &mut Vec<Problem>) {
    let mut by_chat: BTreeMap<&str, Vec<Folder>> = BTreeMap::new();
    for wiring in wirings {
        let Some(pattern) = wiring.engage_pattern.as_deref() else { continue };
        if pattern != "."
            && let Err(why) = Pattern::compile(pattern)
        {
            found.push(Problem::Pattern {
                group: wiring.group.clone(),
                chat: wiring.chat_jid.clone(),
                pattern: pattern.to_owned(),
                why: why.to_string(),
            });
        } else if takes_everything(Some(pattern)) {
            by_chat.entry(&wiring.chat_jid).or_default().push(wiring.group.clone());
        }
    }
    let twice = by_chat.into_iter().filter(|(_, groups)| groups.len() > 1);
    found.extend(twice.map(|(chat, groups)| Problem::AnswersTwice { chat: chat.to_owned(), groups }));
}

/// Whether strangers can be asked about.
pub(super) async fn questions(store: &Store, found: &mut Vec<Problem>) {
    match store.who_is_asked().await {
        Ok(Ok(_)) => {}
        Ok(Err(nobody)) => found.push(Problem::NobodyIsAsked { why: nobody.to_string() }),
        Err(error) => found.push(Problem::Unreadable { what: "the people", why: chain(&error) }),
    }
    match store.approvals(false).await {
        Ok(open) => found.extend(full(&open).map(|full| Problem::ManyQuestions { full })),
        Err(error) => found.push(Problem::Unreadable { what: "the questions", why: chain(&error) }),
    }
}

/// Whether the platforms of this program are connected.
pub(super) async fn connections(view: &View<'_>, store: &Store, found: &mut Vec<Problem>) {
    match store.connections().await {
        Ok(mut states) => {
            // A row of a platform that this program does not have is old.
            let has = |name: &str| view.config.channels.iter().any(|account| account.name == name);
            states.retain(|state| channels::NAMES.contains(&state.channel.as_str()) || has(&state.channel));
            found.extend(of_channels(states, view.now));
        }
        Err(error) => found.push(Problem::Unreadable { what: "the channels", why: chain(&error) }),
    }
    let people = async { Ok::<_, StoreError>((store.owned_channels().await?, store.addresses().await?)) };
    match people.await {
        Ok((owned, addresses)) => {
            let accounts = view.config.channels.iter().map(|account| &account.name);
            let without = accounts.filter(|name| !owned.contains(name) && !addresses.is_of_programs(name));
            found.extend(without.map(|name| Problem::NoOwnerThere { channel: name.clone() }));
        }
        Err(error) => found.push(Problem::Unreadable { what: "the people", why: chain(&error) }),
    }
    match store.told_little().await {
        Ok(wirings) => {
            let wanting =
                wirings.into_iter().filter(|wiring| wakes_unmentioned(wiring.mode, wiring.threaded));
            found.extend(wanting.map(|wiring| Problem::TooLittleTold {
                channel: wiring.channel,
                group: wiring.group,
                chat: wiring.chat,
            }));
        }
        Err(error) => found.push(Problem::Unreadable { what: "the wirings", why: chain(&error) }),
    }
}

/// How long an account that told of too many chats is a problem after it did so last, ms. It may do so once a minute.
const TOLD_LATELY_MS: i64 = 600_000;

/// Accounts that tell of more chats than are kept.
pub(super) async fn chats(view: &View<'_>, store: &Store, found: &mut Vec<Problem>) {
    match store.too_many_chats(view.now.plus_ms(-TOLD_LATELY_MS)).await {
        Ok(channels) => found.extend(channels.into_iter().map(|channel| Problem::ManyChats { channel })),
        Err(error) => found.push(Problem::Unreadable { what: "the chats", why: chain(&error) }),
    }
}

/// What the model's host refuses groups: those that hear the same have one problem.
pub(super) fn refused(view: &View<'_>, store: &Store, found: &mut Vec<Problem>) {
    let rows = match store.hindrances() {
        Ok(rows) => rows,
        Err(error) => {
            return found
                .push(Problem::Unreadable { what: "what the model's host refuses", why: chain(&error) });
        }
    };
    let mut by_words = BTreeMap::<(Hindrance, String), (Time, Option<Time>, Vec<Folder>)>::new();
    for row in rows.into_iter().filter(|row| row.what.is_of_the_model()) {
        let ends = row.ends.filter(|ends| *ends > view.now);
        let (since, until, groups) =
            by_words.entry((row.what, row.why)).or_insert((row.since, ends, Vec::new()));
        *since = row.since.min(*since);
        *until = ends.max(*until);
        groups.push(row.group);
    }
    let one = |((what, why), (since, until, groups))| Problem::Refused { what, why, since, until, groups };
    found.extend(by_words.into_iter().map(one));
}

/// Groups whose own model is at a limit, and for which another one answers: those that hear the same have one problem.
pub(super) fn other_models(view: &View<'_>, store: &Store, found: &mut Vec<Problem>) {
    let rows = match store.fallbacks(view.now) {
        Ok(rows) => rows,
        Err(error) => {
            return found
                .push(Problem::Unreadable { what: "which groups ask another model", why: chain(&error) });
        }
    };
    let mut by_words = BTreeMap::<(String, String), (Time, Vec<Folder>)>::new();
    for row in rows {
        let (until, groups) = by_words.entry((row.model, row.why)).or_insert((row.until, Vec::new()));
        *until = row.until.max(*until);
        groups.push(row.group);
    }
    let one = |((model, why), (until, groups))| Problem::OtherModel { model, why, until, groups };
    found.extend(by_words.into_iter().map(one));
}

/// Commands that could not be read.
pub(super) fn dead(view: &View<'_>, store: &Store, found: &mut Vec<Problem>) {
    match store.dead_since(view.now.plus_ms(-DAY_MS)) {
        Ok(count) => found.extend((count > 0).then_some(Problem::DeadCommands { count })),
        Err(error) => found.push(Problem::Unreadable { what: "the receipts", why: chain(&error) }),
    }
}

/// What failed, rests, was given up or could not be said.
pub(super) fn ledger(view: &View<'_>, store: &Store, found: &mut Vec<Problem>) {
    match store.ledger(view.now) {
        Ok(ledger) => found.extend(of_ledger(ledger, view.now)),
        Err(error) => found.push(Problem::Unreadable { what: "the ledger", why: chain(&error) }),
    }
}

//! The sender list, and messages that no rule could judge.

use super::{Subject, row::Row};
use crate::{allowlists::senders, domain::heard::sender_list::SenderList};

pub(super) fn check(subject: &Subject) -> Vec<Row> {
    let list = match senders::read(&subject.config) {
        SenderList::Absent => {
            "there is no sender-allowlist.json: each chat's policy decides which senders are heard"
        }
        SenderList::Read(_) | SenderList::Broken(_) => "sender-allowlist.json can be read",
    };
    let mut rows: Vec<Row> = subject.all_is_well("sender_list", list).into_iter().collect();
    rows.extend(subject.all_is_well("held_messages", "no message is held"));
    rows
}

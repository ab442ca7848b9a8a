//! The sender list, and messages that no rule could judge.

use super::{Subject, row::Row};
use crate::{
    allowlists::senders,
    domain::{heard::sender_list::SenderList, problems::checks::Check},
};

pub(super) fn check(subject: &Subject) -> [Row; 2] {
    let list = match senders::read(&subject.config) {
        SenderList::Absent => {
            "there is no sender-allowlist.json: each chat's policy decides which senders are heard"
        }
        SenderList::Read(_) | SenderList::Broken(_) => "sender-allowlist.json can be read",
    };
    [Row::ok(Check::SenderList, list), Row::ok(Check::HeldMessages, "no message is held")]
}

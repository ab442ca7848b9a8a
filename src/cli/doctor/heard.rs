//! Who is heard: the sender list, and messages that no rule could decide about.

use super::{
    Subject,
    row::{Row, chain},
};
use crate::{
    domain::{rows::HeldMessage, sender_list::SenderList},
    senders,
};

pub(super) fn check(subject: &Subject) -> Vec<Row> {
    let list = senders::read(&subject.config);
    let problems = senders::problems(&subject.config, &list);
    let mut rows = sender_list(&list, &problems);
    if let Some(store) = &subject.store {
        rows.push(store.held_messages().map_or_else(
            |error| Row::fail("held_messages", chain(&error), "see the store's row"),
            |held| held_messages(&held),
        ));
    }
    rows
}

fn sender_list(list: &SenderList, problems: &[String]) -> Vec<Row> {
    if problems.is_empty() {
        let detail = match list {
            SenderList::Absent => {
                "there is no sender-allowlist.json: each chat's policy decides who is heard"
            }
            SenderList::Read(_) | SenderList::Broken(_) => "sender-allowlist.json is understood",
        };
        return vec![Row::ok("sender_list", detail)];
    }
    let mend = "correct it, or remove it to have each chat's policy decide alone; it is read again by itself";
    problems.iter().map(|problem| Row::fail("sender_list", problem, mend)).collect()
}

fn held_messages(held: &[HeldMessage]) -> Row {
    let Some(first) = held.first() else { return Row::ok("held_messages", "no message is held") };
    Row::warn(
        "held_messages",
        format!(
            "{} messages are held; the oldest is {} of {}, for group {}: {}",
            held.len(),
            first.seq,
            first.chat_jid,
            first.group,
            first.reason
        ),
        format!(
            "`g2 wirings set --group {} --chat {} 'pattern=…'`: what it holds is judged again",
            first.group, first.chat_jid
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::row::Status;

    #[test]
    fn a_list_that_can_not_be_read_is_a_failure_and_none_is_not() {
        let rows = |bytes: &[u8]| {
            let list = SenderList::parse(bytes);
            sender_list(&list, &list.problems())
        };
        assert_eq!(rows(b"null")[0].status, Status::Fail);
        assert_eq!(rows(br#"{"default": {"allow": "*", "mode": "drop"}}"#)[0].status, Status::Ok);
        assert_eq!(sender_list(&SenderList::Absent, &[])[0].status, Status::Ok);
    }
}

//! Questions to people: each is decided once, by somebody who may and did, and nothing follows from one that is not.

use g2::domain::rows::Inbound;

use super::{Case, count, rows};
use crate::people::{ADMIN, NEW_CHATS, OWNERS};

/// A question.
struct Question {
    id: i64,
    chat: String,
    sender: String,
    state: String,
    by: Option<String>,
}

fn questions(case: &Case<'_>) -> Vec<Question> {
    rows(case.c, "SELECT id, chat_jid, sender, state, decided_by FROM approvals ORDER BY id", [], |r| {
        Ok(Question {
            id: r.get("id")?,
            chat: r.get("chat_jid")?,
            sender: r.get("sender")?,
            state: r.get("state")?,
            by: r.get("decided_by")?,
        })
    })
}

/// Whether somebody has to allow that a message is heard.
pub(super) fn needs_leave(message: &Inbound) -> bool {
    message.sender.ends_with(":8") || NEW_CHATS.contains(&message.chat_jid.as_str())
}

/// Returns the groups that a chat is wired to by now.
fn groups_of(case: &Case<'_>, chat: &str) -> Vec<String> {
    rows(case.c, "SELECT group_folder FROM wirings WHERE chat_jid = ?1", [chat], |r| r.get(0))
}

/// Whether a message may be heard, as the questions stand: somebody connected its chat, and a group of it knows its sender.
pub(super) fn may_be_heard(case: &Case<'_>, message: &Inbound) -> bool {
    let groups = groups_of(case, &message.chat_jid);
    let is_connected = !NEW_CHATS.contains(&message.chat_jid.as_str())
        || questions(case)
            .iter()
            .any(|q| (q.chat.as_str(), q.state.as_str()) == (&message.chat_jid, "approved"));
    let is_stranger = message.sender.ends_with(":8");
    let knows = |group: &String| {
        // Who asked for a chat is known to the group that got it.
        let allows = |question: &Question| {
            question.state == "approved"
                && question.sender == message.sender
                && groups_of(case, &question.chat).contains(group)
        };
        !is_stranger || questions(case).iter().any(allows)
    };
    is_connected && groups.iter().any(knows)
}

/// Whether a message waits for an answer that did not come, or was a no.
pub(super) fn waits_in_vain(case: &Case<'_>, seq: i64) -> bool {
    let sql = format!(
        "SELECT count(*) FROM approval_messages p JOIN approvals a ON a.id = p.approval_id WHERE p.seq = {seq} AND a.state <> 'approved'"
    );
    count(case.c, &sql) > 0
}

pub(super) fn judge(case: &Case<'_>, broken: &mut Vec<String>) {
    for question in questions(case) {
        let Question { id, state, by, .. } = &question;
        let decided = count(
            case.c,
            &format!(
                "SELECT count(*) FROM approval_events WHERE approval_id = {id} AND what IN ('approved', 'denied')"
            ),
        );
        if decided != i64::from(matches!(state.as_str(), "approved" | "denied")) {
            broken.push(format!("the question {id} is {state}, and was decided {decided} times"));
        }
        if let ("approved" | "denied", Some(by)) = (state.as_str(), by) {
            let yes = state == "approved";
            if !case
                .answers
                .iter()
                .any(|answer| answer.question == *id && answer.yes == yes && answer.by == *by)
            {
                broken.push(format!("the question {id} is {state} by {by}, who never said so"));
            }
            if !OWNERS.contains(&by.as_str()) && ADMIN.0 != by {
                broken.push(format!("the question {id} is {state} by {by}, who may not"));
            }
        }
        if state == "approved" {
            let members =
                count(case.c, &format!("SELECT count(*) FROM members WHERE user_id = '{}'", question.sender));
            if members < 1 {
                broken.push(format!("the question {id} is approved, and nobody knows {}", question.sender));
            }
        }
    }
    let twice: Vec<(i64, String)> = rows(
        case.c,
        // Words that an edit brought after a question was closed are asked about anew.
        "SELECT am.seq AS seq, am.group_folder AS group_folder FROM approval_messages am JOIN approvals a ON a.id = am.approval_id
         GROUP BY am.seq, am.group_folder
         HAVING sum(a.state = 'pending') > 1 OR count(*) > 1 + (SELECT count(*) FROM message_edits e WHERE e.seq = am.seq)",
        [],
        |r| Ok((r.get("seq")?, r.get("group_folder")?)),
    );
    for (seq, group) in twice {
        broken.push(format!("more than one question is asked about the message {seq} for {group:?}"));
    }
    let strangers: Vec<String> =
        rows(case.c, "SELECT user_id FROM members WHERE user_id LIKE '%:8'", [], |r| r.get(0));
    let questions = questions(case);
    for stranger in strangers {
        if !questions.iter().any(|question| question.sender == stranger && question.state == "approved") {
            broken.push(format!("{stranger} is known, and nobody said yes"));
        }
    }
}

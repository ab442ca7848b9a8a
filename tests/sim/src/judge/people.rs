//! Questions to people: each is decided once, by somebody who may and did, and nothing follows from one that is not.

use g2::domain::rows::Inbound;

use super::{Case, count, rows};
use crate::people::{ADMIN, NEW_CHATS, OWNERS};

/// A question.
struct Question {
    id: i64,
    kind: String,
    chat: String,
    sender: String,
    state: String,
    by: Option<String>,
}

fn questions(case: &Case<'_>) -> Vec<Question> {
    rows(case.c, "SELECT id, kind, chat_jid, sender, state, decided_by FROM approvals ORDER BY id", [], |r| {
        Ok(Question {
            id: r.get("id")?,
            kind: r.get("kind")?,
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

/// Whether a message may be heard, as the questions stand.
pub(super) fn may_be_heard(case: &Case<'_>, message: &Inbound) -> bool {
    let (is_new, is_stranger) =
        (NEW_CHATS.contains(&message.chat_jid.as_str()), message.sender.ends_with(":8"));
    let questions = questions(case);
    let is_allowed = |kind: &str, matches: &dyn Fn(&Question) -> bool| {
        questions
            .iter()
            .any(|question| question.kind == kind && question.state == "approved" && matches(question))
    };
    let connected = is_allowed("channel", &|question| question.chat == message.chat_jid);
    // Whoever asked for a chat is known to its group then, and who is known to a group is so in all its chats.
    let known = is_allowed("sender", &|question| question.sender == message.sender)
        || is_allowed("channel", &|question| question.sender == message.sender);
    (!is_new || connected) && (!is_stranger || known)
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
        "SELECT seq, group_folder FROM approval_messages GROUP BY seq, group_folder HAVING count(*) > 1",
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

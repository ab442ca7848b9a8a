//! Questions of agents: each is asked once, and its agent is told one thing: the first answer that it may hear, or that there is none.

use super::{Case, count, rows};

/// A question of an agent.
struct Question {
    id: i64,
    state: String,
    /// The message that answered it.
    seq: Option<i64>,
    card: Option<i64>,
    expires_at: i64,
}

/// A message about a question.
struct Said {
    seq: i64,
    sender: String,
    /// It tells that nobody answered, or could.
    is_end: bool,
    verdict: Option<String>,
    /// When it was there, and its sender was admitted: what a stranger says waits for that.
    heard_at: i64,
}

/// Judges the question that a command asks.
pub(super) fn judge(case: &Case<'_>, request: &str, token: &str, broken: &mut Vec<String>) {
    let asked: Vec<Question> = rows(
        case.c,
        "SELECT id, state, seq, card, expires_at FROM questions WHERE instr(question, ?1) > 0",
        [token],
        |r| {
            Ok(Question {
                id: r.get("id")?,
                state: r.get("state")?,
                seq: r.get("seq")?,
                card: r.get("card")?,
                expires_at: r.get("expires_at")?,
            })
        },
    );
    let [question] = &asked[..] else {
        broken.push(format!("the question of the command {request} is there {} times", asked.len()));
        return;
    };
    let Question { id, state, .. } = question;
    let cards = count(case.c, &format!("SELECT count(*) FROM outbox WHERE text LIKE '%(question #q{id})%'"));
    if cards != 1 || question.card.is_none() {
        broken.push(format!("the question #q{id} has {cards} cards"));
    }
    let said: Vec<Said> = rows(
        case.c,
        "SELECT m.seq, coalesce(m.sender, '') AS sender, m.from_me AS is_end, i.verdict,
                max(m.received_at, coalesce((SELECT max(a.decided_at) FROM approvals a
                                             WHERE a.kind = 'sender' AND a.sender = m.sender AND a.state = 'approved'), 0)) AS heard_at
         FROM messages m LEFT JOIN inbox i ON i.seq = m.seq WHERE m.answers = ?1 ORDER BY m.seq",
        [id],
        |r| {
            Ok(Said {
                seq: r.get("seq")?,
                sender: r.get("sender")?,
                is_end: r.get("is_end")?,
                verdict: r.get("verdict")?,
                heard_at: r.get("heard_at")?,
            })
        },
    );
    let ends = said.iter().filter(|said| said.is_end).count();
    match (state.as_str(), question.seq) {
        ("answered", Some(seq)) => {
            let Some(answer) = said.iter().find(|said| said.seq == seq) else {
                broken.push(format!("the answer {seq} to #q{id} is no answer to it"));
                return;
            };
            if !case.replies.iter().any(|reply| reply.question == *id && reply.by == answer.sender) {
                broken.push(format!("#q{id} is answered by {}, who never did", answer.sender));
            }
            if answer.verdict.as_deref() != Some("wake") {
                broken.push(format!("the answer {seq} to #q{id} wakes nobody: {:?}", answer.verdict));
            }
            if ends > 0 {
                broken.push(format!("#q{id} was answered, and its agent is told that it was not"));
            }
        }
        ("expired" | "undeliverable", None) => {
            if ends != 1 {
                broken.push(format!("#q{id} is {state}, and its agent is told so {ends} times"));
            }
            let heard = said.iter().find(|said| {
                !said.is_end && said.verdict.as_deref() == Some("wake") && said.heard_at < question.expires_at
            });
            if let Some(heard) = heard.filter(|_| state == "expired") {
                broken.push(format!("#q{id} is expired, and {} answered it in time", heard.sender));
            }
        }
        (state, seq) => broken.push(format!("#q{id} is {state}, with the answer {seq:?}")),
    }
}

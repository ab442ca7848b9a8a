//! What stands beside questions on their cards.

use rusqlite::{OptionalExtension as _, params};

use crate::domain::heard::approvals::Approval;
use crate::store::{Result, Store};

/// How much of a message is read, characters.
const QUOTED: usize = 400;

/// The words that a question is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionShown {
    /// The chat's name; `None`: it has none but its address.
    pub chat: Option<String>,
    /// The beginning of the first message that waits; `None`: it is gone.
    pub text: Option<String>,
    /// How many files stand beside that message.
    pub files: u32,
}

impl Store {
    /// Returns the words that questions are about, in their order.
    pub async fn words_of_questions(&self, questions: &[Approval]) -> Result<Vec<QuestionShown>> {
        let about: Vec<(String, Option<i64>)> = questions
            .iter()
            .map(|question| (question.chat_jid.clone(), question.messages.first().copied()))
            .collect();
        self.ask(move |c| {
            let mut chat = c.prepare_cached("SELECT name FROM chats WHERE jid = ?1")?;
            let mut message =
                c.prepare_cached("SELECT substr(shown, 1, ?2) AS text, files FROM messages WHERE seq = ?1")?;
            let mut all = Vec::with_capacity(about.len());
            for (jid, seq) in about {
                let name: Option<String> = chat.query_row([&jid], |r| r.get("name")).optional()?;
                let said: Option<(String, u32)> = message
                    .query_row(params![seq, QUOTED], |r| Ok((r.get("text")?, r.get("files")?)))
                    .optional()?;
                let (text, files) = said.unzip();
                all.push(QuestionShown {
                    chat: name.filter(|name| !name.is_empty() && *name != jid),
                    text,
                    files: files.unwrap_or_default(),
                });
            }
            Ok(all)
        })
        .await
    }
}

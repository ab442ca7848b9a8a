//! Chats that are opened with the people who are to be asked. Such a question is pending, and has no chat yet.

use ipc_handlers::Time;
use rusqlite::Connection;

use super::{
    ask::{card_to, miss},
    candidates, groups_of,
};
use crate::domain::{
    heard::approvals::approver::Missed,
    platforms::chats::{ChatInfo, ChatKind},
};
use crate::store::{
    Result, Store,
    talk::{
        chats::{at_new_address, ensure_chat, learn},
        people::{dm_of, learn_dm},
    },
};

impl Store {
    /// Returns the people with whom a chat is to be opened.
    pub async fn openings(&self) -> Result<Vec<String>> {
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT DISTINCT approver FROM approvals INDEXED BY approvals_open_by_card
                 WHERE state = 'pending' AND card_chat = '' ORDER BY approver",
            )?
            .query_map([], |r| r.get("approver"))?
            .collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// A chat with a user is open: it is kept, and what waits for that is asked there. A chat that a person has set for them since goes
    /// first. Of the questions that the user may not decide any more, the next person is asked.
    pub async fn opened(&self, user: &str, chat: String, now: Time) -> Result<()> {
        let (user, asking) = (user.to_owned(), self.asking_now());
        self.write(move |c| {
            let mut chat = chat.clone();
            at_new_address(c, &mut chat)?;
            ensure_chat(c, &chat, now)?;
            let info = ChatInfo {
                name: String::new(),
                kind: ChatKind::Direct,
                threaded: false,
                members: None,
                hears_all: None,
            };
            learn(c, &chat, &info)?;
            learn_dm(c, &user, &chat)?;
            let chat = dm_of(c, &user)?;
            for id in waiting_for(c, &user)? {
                let groups = groups_of(c, id)?;
                let may = candidates(c, &groups)?.iter().any(|one| one.user == user);
                match chat.as_deref().filter(|_| may) {
                    Some(chat) => card_to(c, id, chat, now)?,
                    None => {
                        let why = "they may not decide it any more";
                        miss(c, &asking, id, (Missed::NotReached, why), now)?;
                    }
                }
            }
            Ok(())
        })
        .await
    }

    /// No chat with a user can be opened, for this reason: the next person is asked what waits for that, unless one is known since.
    pub async fn unopened(&self, user: &str, how: Missed, why: &str, now: Time) -> Result<()> {
        let (user, why, asking) = (user.to_owned(), why.to_owned(), self.asking_now());
        self.write(move |c| {
            let known = dm_of(c, &user)?;
            waiting_for(c, &user)?.into_iter().try_for_each(|id| match &known {
                Some(chat) => card_to(c, id, chat, now),
                None => miss(c, &asking, id, (how, &why), now),
            })
        })
        .await
    }
}

/// The questions that wait for a chat with a user.
fn waiting_for(c: &Connection, user: &str) -> Result<Vec<i64>> {
    Ok(c.prepare_cached(
        "SELECT id FROM approvals INDEXED BY approvals_open_by_card
         WHERE state = 'pending' AND card_chat = '' AND approver = ?1 ORDER BY id",
    )?
    .query_map([user], |r| r.get("id"))?
    .collect::<rusqlite::Result<_>>()?)
}

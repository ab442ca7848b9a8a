//! How a group's budget stands is written down with what is said of it, so that each is told once a day whatever dies.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, params};

use super::{
    said::{Key, said},
    waiting::waiting,
};
use crate::store::{
    Result, Store,
    talk::{groups::main_and_its_chat, outbox::Say},
    work::budgets::{self, BudgetRow},
};

/// How a group's budget stands, and what is to be said of that, unless it was said on this day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetNews {
    pub row: BudgetRow,
    /// To the owner: to the main group's chat.
    pub warning: Option<String>,
    /// To each chat whose work waits.
    pub notice: Option<String>,
}

impl Store {
    /// Writes down how a group's budget stands, and says what is to be said.
    pub async fn note_budget(&self, news: BudgetNews, now: Time) -> Result<()> {
        self.write(move |c| {
            let BudgetNews { row, warning, notice } = news;
            budgets::note(c, &row, now)?;
            let (group, day) = (&row.group, row.day.start);
            // As every notice to the owner.
            let of_main = main_and_its_chat(c)?.and_then(|(_, chat)| chat);
            if let (Some(text), Some(chat)) = (warning, of_main) {
                let key = Key::BudgetNear { group: group.clone(), day };
                let cause = format!("budget of {group} nearly used up");
                said(c, &key, &Say::notice(&chat, "", &text, &cause), now)?;
            }
            if let Some(text) = notice {
                for (wiring, chat) in waiting_chats(c, group, now)? {
                    let key = Key::BudgetOut { group: group.clone(), day, wiring };
                    let cause = format!("budget of {group} used up");
                    said(c, &key, &Say::notice(&chat, "", &text, &cause), now)?;
                }
            }
            crate::system::failpoint::reach("budget.written");
            Ok(())
        })
        .await
    }
}

/// The chats in which something of a group waits, each with the wiring by which it is known.
fn waiting_chats(c: &Connection, group: &Folder, now: Time) -> Result<Vec<(i64, String)>> {
    let lanes: Vec<i64> = waiting(c, Some(group))?.into_iter().map(|lane| lane.lane).collect();
    let mut chats = c.prepare_cached(
        "SELECT id, chat_jid FROM wirings WHERE group_folder = ?1 AND (
           chat_jid IN (SELECT l.chat_jid FROM lanes l WHERE l.id IN (SELECT value FROM json_each(?2)))
           OR chat_jid IN (SELECT t.chat_jid FROM tasks t INDEXED BY tasks_due_by_group
             WHERE t.group_folder = ?1 AND t.status = 'active' AND t.next_run IS NOT NULL AND t.next_run <= ?3))
         ORDER BY id",
    )?;
    let given = params![group.as_str(), serde_json::json!(lanes).to_string(), now.0];
    let rows = chats.query_map(given, |r| Ok((r.get("id")?, r.get("chat_jid")?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

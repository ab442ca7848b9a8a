//! Sessions of the operator's page, and the tickets that open them. Only digests of both are here.

use ipc_handlers::Time;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::domain::machine::web::{LONGEST_BROWSER, MOST_SESSIONS, SESSION_MS, TICKET_MS, WebSession};
use crate::store::{Result, Store, StoreError, columns::Columns as _, digest};

const SESSION: &str = "SELECT id, opened_by, made_at, entered_at, ends_at, browser FROM web_sessions";

fn session(r: &Row<'_>) -> rusqlite::Result<WebSession> {
    Ok(WebSession {
        id: r.get("id")?,
        opened_by: r.get("opened_by")?,
        made_at: r.time("made_at")?,
        entered_at: r.time_or_null("entered_at")?,
        ends_at: r.time("ends_at")?,
        browser: r.get("browser")?,
    })
}

impl Store {
    /// Stores a ticket, and forgets what has ended. Refused where there are [`MOST_SESSIONS`] already.
    pub async fn add_web_ticket(&self, ticket: &str, by: &str, now: Time) -> Result<WebSession> {
        let (ticket, by) = (digest(ticket.as_bytes()), by.to_owned());
        self.write(move |c| {
            c.prepare_cached("DELETE FROM web_sessions WHERE ends_at <= ?1")?.execute([now.0])?;
            let there: usize =
                c.prepare_cached("SELECT count(*) FROM web_sessions")?.query_row([], |r| r.get(0))?;
            if there >= MOST_SESSIONS {
                return Err(StoreError::refused(
                    format!("the page has {MOST_SESSIONS} sessions"),
                    "end some with `g2 web sessions revoke`",
                ));
            }
            c.prepare_cached(
                "INSERT INTO web_sessions (opened_by, ticket, made_at, ends_at) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![by, ticket, now.0, now.plus_ms(TICKET_MS).0])?;
            one(c, c.last_insert_rowid())
        })
        .await
    }

    /// Makes a session of a ticket, once. `None`: there is no such ticket, or not any more.
    pub async fn enter_web(
        &self,
        ticket: &str,
        cookie: &str,
        browser: &str,
        now: Time,
    ) -> Result<Option<WebSession>> {
        let (ticket, cookie) = (digest(ticket.as_bytes()), digest(cookie.as_bytes()));
        let browser: String = browser.chars().take(LONGEST_BROWSER).collect();
        self.write(move |c| {
            let entered: Option<i64> = c
                .prepare_cached(
                    "UPDATE web_sessions SET ticket = NULL, cookie = ?2, entered_at = ?3, ends_at = ?4, browser = ?5
                     WHERE ticket = ?1 AND ends_at > ?3 RETURNING id",
                )?
                .query_row(params![ticket, cookie, now.0, now.plus_ms(SESSION_MS).0, browser], |r| r.get(0))
                .optional()?;
            entered.map(|id| one(c, id)).transpose()
        })
        .await
    }

    /// Returns the session of a cookie, while it lasts.
    pub fn web_session(&self, cookie: &str, now: Time) -> Result<Option<WebSession>> {
        self.read(|c| {
            Ok(c.prepare_cached(&format!("{SESSION} WHERE cookie = ?1 AND ends_at > ?2"))?
                .query_row(params![digest(cookie.as_bytes()), now.0], session)
                .optional()?)
        })
    }

    /// Returns the sessions and tickets that have not ended, in the order in which they were made.
    pub fn web_sessions(&self, now: Time) -> Result<Vec<WebSession>> {
        self.read(|c| {
            Ok(c.prepare_cached(&format!("{SESSION} WHERE ends_at > ?1 ORDER BY id"))?
                .query_map([now.0], session)?
                .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Ends a session or a ticket, or all of them. Returns those that it ended.
    pub async fn end_web_sessions(&self, id: Option<i64>, now: Time) -> Result<Vec<WebSession>> {
        self.write(move |c| {
            let ended = c
                .prepare_cached(&format!(
                    "{SESSION} WHERE ends_at > ?1 AND (?2 IS NULL OR id = ?2) ORDER BY id"
                ))?
                .query_map(params![now.0, id], session)?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            c.prepare_cached("DELETE FROM web_sessions WHERE ?1 IS NULL OR id = ?1")?.execute([id])?;
            Ok(ended)
        })
        .await
    }
}

fn one(c: &Connection, id: i64) -> Result<WebSession> {
    Ok(c.prepare_cached(&format!("{SESSION} WHERE id = ?1"))?.query_row([id], session)?)
}

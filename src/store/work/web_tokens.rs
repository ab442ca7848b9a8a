//! Tokens of programs at the operator's page. Only digests of them are here.

use ipc_handlers::Time;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::domain::machine::web::{MOST_TOKENS, Purpose, TOKEN_OF_FILE, WebToken, is_same};
use crate::store::{Result, Store, StoreError, columns::Columns as _, digest};

const TOKEN: &str = "SELECT id, name, purpose, made_by, made_at, used_at, digest FROM web_tokens";

fn token(r: &Row<'_>) -> rusqlite::Result<WebToken> {
    Ok(WebToken {
        id: r.get("id")?,
        name: r.get("name")?,
        purpose: r.word("web_tokens", "purpose")?,
        made_by: r.get("made_by")?,
        made_at: r.time("made_at")?,
        used_at: r.time_or_null("used_at")?,
    })
}

impl Store {
    /// Stores a new token. Refused where one is called so, and where there are [`MOST_TOKENS`] already.
    pub async fn add_web_token(
        &self,
        name: &str,
        purpose: Purpose,
        secret: &str,
        by: &str,
        now: Time,
    ) -> Result<WebToken> {
        let (name, by, secret) = (name.to_owned(), by.to_owned(), digest(secret.as_bytes()));
        self.write(move |c| {
            if name == TOKEN_OF_FILE || named(c, &name)?.is_some() {
                return Err(StoreError::refused(
                    format!("there is a token {name} already"),
                    format!("use another name, or end that one with `g2 web tokens revoke {name}`"),
                ));
            }
            let there: usize = c
                .prepare_cached("SELECT count(*) FROM web_tokens WHERE name <> ?1")?
                .query_row([TOKEN_OF_FILE], |r| r.get(0))?;
            if there >= MOST_TOKENS {
                return Err(StoreError::refused(
                    format!("there are {MOST_TOKENS} tokens"),
                    "end some with `g2 web tokens revoke`",
                ));
            }
            insert(c, &name, purpose, &secret, &by, now)?;
            c.prepare_cached(&format!("{TOKEN} WHERE name = ?1"))?
                .query_row([&name], token)
                .map_err(Into::into)
        })
        .await
    }

    /// Has the token in `data/web.token` let in, to read figures; an earlier one of that file no more. One that was made by
    /// [`Store::add_web_token`] stays what it is.
    pub async fn keep_token_of_file(&self, secret: &str, now: Time) -> Result<()> {
        let secret = digest(secret.as_bytes());
        self.write(move |c| {
            let known: Option<String> = c
                .prepare_cached("SELECT name FROM web_tokens WHERE digest = ?1")?
                .query_row([&secret], |r| r.get(0))
                .optional()?;
            if known.as_deref() == Some(TOKEN_OF_FILE) {
                return Ok(());
            }
            remove(c, TOKEN_OF_FILE)?;
            match known {
                Some(_) => Ok(()),
                None => insert(c, TOKEN_OF_FILE, Purpose::Metrics, &secret, "g2", now),
            }
        })
        .await
    }

    /// Returns the token that a program shows, if there is one. All are looked at, each to its end.
    pub fn web_token(&self, shown: &str) -> Result<Option<WebToken>> {
        let shown = digest(shown.as_bytes());
        self.read(|c| {
            let all = c
                .prepare_cached(TOKEN)?
                .query_map([], |r| Ok((token(r)?, r.get("digest")?)))?
                .collect::<rusqlite::Result<Vec<(WebToken, Vec<u8>)>>>()?;
            let found = all.into_iter().fold(None, |found, (token, digest)| match is_same(&digest, &shown) {
                true => Some(token),
                false => found,
            });
            Ok(found)
        })
    }

    /// Returns all tokens, in the order in which they were made.
    pub fn web_tokens(&self) -> Result<Vec<WebToken>> {
        self.read(|c| {
            Ok(c.prepare_cached(&format!("{TOKEN} ORDER BY id"))?
                .query_map([], token)?
                .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Writes down that a token was used. The work is queued when this is called, also if nobody waits for it.
    pub fn note_token_used(&self, id: i64, now: Time) -> impl Future<Output = Result<()>> + Send {
        self.write(move |c| {
            c.prepare_cached("UPDATE web_tokens SET used_at = ?2 WHERE id = ?1")?.execute([id, now.0])?;
            Ok(())
        })
    }

    /// Ends a token, and returns it; `None`: none is called so.
    pub async fn end_web_token(&self, name: &str) -> Result<Option<WebToken>> {
        let name = name.to_owned();
        self.write(move |c| {
            let ended = named(c, &name)?;
            remove(c, &name)?;
            Ok(ended)
        })
        .await
    }
}

fn named(c: &Connection, name: &str) -> Result<Option<WebToken>> {
    Ok(c.prepare_cached(&format!("{TOKEN} WHERE name = ?1"))?.query_row([name], token).optional()?)
}

fn insert(c: &Connection, name: &str, purpose: Purpose, secret: &[u8], by: &str, now: Time) -> Result<()> {
    c.prepare_cached(
        "INSERT INTO web_tokens (name, purpose, digest, made_by, made_at) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![name, purpose.as_str(), secret, by, now.0])?;
    Ok(())
}

fn remove(c: &Connection, name: &str) -> Result<()> {
    c.prepare_cached("DELETE FROM web_tokens WHERE name = ?1")?.execute([name])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_token_of_the_file_is_the_newest_in_it_and_never_more_than_it_was_made_for() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        let shown = |secret: &str| store.web_token(secret).unwrap().map(|token| (token.name, token.purpose));
        let of_file = Some((TOKEN_OF_FILE.to_owned(), Purpose::Metrics));
        store.keep_token_of_file("first", Time(1)).await.unwrap();
        assert_eq!(shown("first"), of_file);
        store.keep_token_of_file("first", Time(2)).await.unwrap();
        assert_eq!(store.web_tokens().unwrap()[0].made_at, Time(1));
        store.keep_token_of_file("second", Time(3)).await.unwrap();
        assert_eq!((shown("first"), shown("second")), (None, of_file));
        // A token that somebody put into the file is what it was made for.
        let made = store.add_web_token("bot", Purpose::Operate, "third", "me", Time(4)).await.unwrap();
        store.keep_token_of_file("third", Time(5)).await.unwrap();
        assert_eq!((shown("second"), shown("third")), (None, Some(("bot".to_owned(), Purpose::Operate))));
        store.note_token_used(made.id, Time(6)).await.unwrap();
        assert_eq!(store.web_tokens().unwrap()[0].used_at, Some(Time(6)));
        assert!(store.add_web_token(TOKEN_OF_FILE, Purpose::Operate, "x", "me", Time(7)).await.is_err());
    }
}

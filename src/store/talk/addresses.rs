//! How the addresses of accounts read, as their adapters told last. An account that is away, or was removed, is read as before.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{
    domain::platforms::addresses::{Addresses, Forms, LOCAL, Platform, is_local},
    store::{Result, Store, columns::Columns as _, talk::chats},
};

impl Store {
    /// Returns how the addresses of all accounts read that were ever there.
    pub async fn addresses(&self) -> Result<Addresses> {
        self.ask(|c| Ok(known(c)?)).await
    }

    /// Notes what the addresses of an account begin with, as it is started. Returns how they read.
    pub async fn know_account(&self, channel: &str, prefix: &str) -> Result<Platform> {
        let (channel, prefix) = (channel.to_owned(), prefix.to_owned());
        self.write(move |c| {
            let before = one(c, &channel)?;
            if before.as_ref().is_some_and(|before| before.prefix() == prefix) {
                return Ok(before.unwrap_or(LOCAL));
            }
            c.prepare_cached(
                "INSERT INTO account_addresses (channel, prefix, told) VALUES (?1, ?2, 0) ON CONFLICT (channel) DO UPDATE SET prefix = excluded.prefix",
            )?
            .execute([&channel, &prefix])?;
            let account = Platform::new(&channel, &prefix, before.map_or(Forms::NONE, |b| b.forms().clone()));
            chats::take_over(c, &account)?;
            Ok(account)
        })
        .await
    }

    /// Takes in what an account tells of its addresses. An ending that another account has told stays that one's, as long as it is
    /// there.
    pub async fn learn_addresses(&self, account: Platform) -> Result<Platform> {
        self.write(move |c| learn(c, &account)).await
    }
}

#[cfg(test)]
impl Store {
    /// The same store, to which accounts on some platforms have told how their addresses read.
    pub(in crate::store) async fn with_accounts(self) -> Self {
        for (channel, prefix, direct) in
            [("discord", "dc", ""), ("slack", "slack", "D.*"), ("telegram", "tg", "[0-9]+")]
        {
            let forms = Forms::kept(Vec::new(), direct.into(), String::new(), false);
            self.learn_addresses(Platform::new(channel, prefix, forms)).await.unwrap();
        }
        self
    }
}

fn learn(c: &Connection, account: &Platform) -> Result<Platform> {
    let (channel, forms) = (&*account.channel, account.forms());
    let mut own = Vec::new();
    for ending in forms.endings() {
        if !is_anothers(c, channel, ending)? {
            own.push(ending.clone());
        }
    }
    let kept = account.with(forms.with_endings(own.clone()));
    let was_told: Option<bool> = c
        .prepare_cached("SELECT told FROM account_addresses WHERE channel = ?1")?
        .query_row([channel], |r| r.get("told"))
        .optional()?;
    let changed = c
        .prepare_cached(
            "INSERT INTO account_addresses (channel, prefix, told, endings, direct, main_thread, programs) VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6)
             ON CONFLICT (channel) DO UPDATE SET prefix = excluded.prefix, told = 1, endings = excluded.endings, direct = excluded.direct,
               main_thread = excluded.main_thread, programs = excluded.programs
             WHERE NOT told OR prefix <> excluded.prefix OR endings <> excluded.endings OR direct <> excluded.direct
               OR main_thread <> excluded.main_thread OR programs <> excluded.programs",
        )?
        .execute(params![
            channel,
            account.prefix(),
            serde_json::json!(own).to_string(),
            forms.direct(),
            forms.main_thread(),
            forms.programs()
        ])?;
    if changed == 1 {
        chats::take_over(c, &kept)?;
        if was_told != Some(true) {
            chats::know_kinds(c, &kept)?;
        }
    }
    Ok(kept)
}

/// Whether addresses with this ending are those of another account. One that is gone gives its endings up.
fn is_anothers(c: &Connection, channel: &str, ending: &str) -> Result<bool> {
    let others: Vec<(String, bool)> = c
        .prepare_cached(
            "SELECT a.channel, EXISTS (SELECT 1 FROM channel_states s WHERE s.channel = a.channel) AS there FROM account_addresses a
             WHERE a.channel <> ?1 AND EXISTS (SELECT 1 FROM json_each(a.endings) e
               WHERE substr(?2, -length(e.value)) = e.value OR substr(e.value, -length(?2)) = ?2)",
        )?
        .query_map([channel, ending], |r| Ok((r.get("channel")?, r.get("there")?)))?
        .collect::<rusqlite::Result<_>>()?;
    if others.iter().any(|(_, there)| *there) {
        return Ok(true);
    }
    for (gone, _) in others {
        c.prepare_cached("UPDATE account_addresses SET endings = '[]' WHERE channel = ?1")?
            .execute([gone])?;
    }
    Ok(false)
}

const ACCOUNT: &str = "SELECT channel, prefix, endings, direct, main_thread, programs FROM account_addresses";

fn account_row(r: &Row<'_>) -> rusqlite::Result<Platform> {
    let forms = Forms::kept(
        r.json("account_addresses", "endings")?,
        r.get("direct")?,
        r.get("main_thread")?,
        r.get("programs")?,
    );
    Ok(Platform::new(&r.get::<_, String>("channel")?, &r.get::<_, String>("prefix")?, forms))
}

fn one(c: &Connection, channel: &str) -> Result<Option<Platform>> {
    Ok(c.prepare_cached(&format!("{ACCOUNT} WHERE channel = ?1"))?
        .query_row([channel], account_row)
        .optional()?)
}

/// Returns how the addresses of all accounts read.
pub(in crate::store) fn known(c: &Connection) -> rusqlite::Result<Addresses> {
    let all: Vec<Platform> = c
        .prepare_cached(&format!("{ACCOUNT} ORDER BY channel"))?
        .query_map([], account_row)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(all.into())
}

/// Returns the name of the channel that an address is one of.
pub(in crate::store) fn channel_of(c: &Connection, jid: &str) -> Result<String> {
    if is_local(jid) {
        return Ok(LOCAL.channel.into_owned());
    }
    let known: Option<String> = c
        .prepare_cached("SELECT channel FROM chats WHERE jid = ?1")?
        .query_row([jid], |r| r.get("channel"))
        .optional()?;
    match known {
        Some(channel) => Ok(channel),
        None => Ok(self::known(c)?.channel_of(jid).to_owned()),
    }
}

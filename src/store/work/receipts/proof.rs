//! A command's token, compared with the runs that there are.

use ipc_handlers::{
    Refusal, Time,
    token::{self, Seen},
};
use rusqlite::{Connection, OptionalExtension};

use super::{CommandFile, Proof};
use crate::store::{Result, columns::Columns as _};

/// Returns the run that the command's token names, if it carries one and may act as it.
pub(super) fn run_of_token(
    c: &Connection,
    file: &CommandFile,
    vouched: bool,
    now: Time,
) -> Result<std::result::Result<Option<i64>, Refusal>> {
    let claims = match &file.proof {
        Proof::None => return Ok(Ok(None)),
        // A person has put it back; its writer does not matter.
        Proof::Missing if vouched => return Ok(Ok(None)),
        Proof::Missing => return Ok(Err(token::missing())),
        Proof::Bad(fault) => return Ok(Err(token::refused(&fault.to_string()))),
        Proof::Claims(claims) => claims,
    };
    let workspace: Option<String> = c
        .prepare_cached("SELECT value FROM meta WHERE key = 'instance'")?
        .query_row([], |r| r.get(0))
        .optional()?;
    let run = c
        .prepare_cached("SELECT group_folder, ended_at FROM runs WHERE id = ?1")?
        .query_row([claims.run_id], |r| Ok((r.folder("group_folder")?, r.time_or_null("ended_at")?)))
        .optional()?;
    let seen = Seen {
        group: &file.group,
        workspace: workspace.as_deref().unwrap_or_default(),
        run,
        written: file.written,
        vouched,
    };
    Ok(token::judge(claims, &seen, now).map(|()| Some(claims.run_id)))
}

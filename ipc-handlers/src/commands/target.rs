//! Whose sessions or tasks a command is about: `targetFolder`, and the lanes it acts on.
//!
//! A command of a run acts on the lane of that run; one written outside a run, or about another group, on all lanes of
//! the group.

use crate::{Caller, Code, Facts, Folder, Refusal, Wants, effect::Lanes, fields::Fields};

/// Reads `targetFolder`.
pub(super) fn read(fields: &Fields<'_>) -> Result<Option<Folder>, Refusal> {
    let no_folder =
        || fields.invalid("targetFolder", "is no folder name (letters, digits, '-' and '_', 64 at most)");
    fields
        .optional_text("targetFolder")?
        .map(|name| Folder::parse(&name).map_err(|_| no_folder()))
        .transpose()
}

/// Another group has to be looked up.
pub(super) fn wants(target: Option<&Folder>, caller: &Caller) -> Wants {
    Wants { folder: target.filter(|folder| **folder != caller.group).cloned(), ..Wants::default() }
}

/// Says whether the caller may name this group.
///
/// # Errors
/// `not_authorized` for another group unless main asks.
pub(crate) fn allowed(target: Option<&Folder>, caller: &Caller) -> Result<(), Refusal> {
    match target {
        Some(other) if *other != caller.group && !caller.is_main => Err(Refusal::new(
            Code::NotAuthorized,
            format!("targetFolder \"{other}\" is not the group \"{}\"", caller.group),
            "leave targetFolder out to act on your own things; only the main group may name another",
        )),
        Some(_) | None => Ok(()),
    }
}

/// Returns the group and its lanes.
///
/// # Errors
/// `not_authorized` for another group unless main asks; `not_found` for one that does not exist.
pub(super) fn decide(
    target: Option<&Folder>,
    caller: &Caller,
    facts: &Facts,
) -> Result<(Folder, Lanes), Refusal> {
    let Some(other) = target.filter(|folder| **folder != caller.group) else {
        let lanes = caller.run.as_ref().map_or(Lanes::All, |seat| Lanes::One(seat.lane));
        return Ok((caller.group.clone(), lanes));
    };
    allowed(Some(other), caller)?;
    match &facts.group {
        Some(group) if group.folder == *other => Ok((other.clone(), Lanes::All)),
        Some(_) | None => Err(Refusal::no_such_group(other)),
    }
}

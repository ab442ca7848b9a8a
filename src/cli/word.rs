//! Words of the command line: settings as `KEY=VALUE`, and errors in its own words.

use ipc_handlers::Word;

use crate::ops::OpError;
pub(super) use crate::ops::args::word;

/// The fields of a command, and their names on the command line.
const TYPED: [(&str, &str); 10] = [
    ("field \"catchUpWindowMs\"", "--catch-up-window"),
    ("field \"targetJid\"", "--chat"),
    ("targetJid", "--chat"),
    ("\"schedule_type\":\"cron\",\"schedule_value\":\"0 9 * * *\"", "--type cron --value \"0 9 * * *\""),
    ("schedule_type \"interval\"", "--type interval"),
    ("schedule_type", "--type"),
    ("schedule_value", "--value"),
    ("context_mode", "--context"),
    ("taskId", "--id"),
    ("available_groups.json", "`g2 groups list`"),
];

/// Rewrites an error about a command of agents in the words of the command line.
pub(super) fn as_typed(error: OpError) -> OpError {
    let typed = |text: String| TYPED.iter().fold(text, |text, (field, option)| text.replace(field, option));
    OpError { message: typed(error.message), hint: typed(error.hint), ..error }
}

/// Reads `KEY=VALUE`.
///
/// # Errors
/// There is no `=` in it.
pub(super) fn setting(text: &str) -> Result<(String, String), OpError> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| OpError::invalid(format!("{text:?} is not KEY=VALUE")))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Reads the value of a setting that is one of the words of `W`.
///
/// # Errors
/// It is none; the error lists them.
pub(super) fn value<W: Word>(key: &str, value: &str) -> Result<W, OpError> {
    W::from_word(value).map_err(|_| {
        let words = W::CHOICES.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        OpError::invalid(format!("{value:?} is not a value of {key}")).hint(format!("use one of {words}"))
    })
}

//! `g2 groups edit`: a copy of a group's `CLAUDE.md` in an editor, then an operation that puts it back.

use std::{
    io::{IsTerminal as _, Read as _, stdin, stdout},
    path::Path,
};

use anyhow::{Context as _, anyhow};
use ipc_handlers::Folder;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use super::{CliResult, Context, Failure, client::change, out};
use crate::{
    domain::shown::command_words::command_words,
    ipc::{InsideError, MEMORY_LIMIT, MemoryOf, read_inside, read_memory},
    ops::{
        OpError,
        groups::edit::{Args, of_memory},
    },
    system::editor,
};

/// The name of the copy, as editors show it.
const COPY: &str = "CLAUDE.md";

/// Has a person change a group's memory; `None`: the one that all groups share.
pub(super) async fn run(context: &Context, folder: Option<Folder>) -> CliResult {
    let name = folder.as_ref().map_or("global", Folder::as_str);
    let path = context.root.join("groups").join(name).join(COPY);
    if !stdin().is_terminal() || !stdout().is_terminal() {
        let text = format!("an editor needs a terminal; the file is {}", path.display());
        return Err(OpError::refused(text).into());
    }
    let words = editor_words(context)?;
    let before = read_memory(&context.root, MemoryOf::named(folder.as_ref()))
        .map_err(|error| of_memory(&error, folder.as_ref()))?;
    // Nobody but its user may look into it, and no container sees it.
    let copy =
        tempfile::Builder::new().prefix("g2-edit-").tempdir().context("making a folder for the copy")?;
    write(copy.path(), &before.text)?;
    let after = match edited(context, words, copy.path()).await {
        Ok(after) => after,
        Err(failure) => return Err(keeping(copy, &before.text, failure)),
    };
    if after == before.text {
        return out::line("nothing was changed");
    }
    let done = change(context, Args { folder, text: after, was: before.digest }).await;
    done.map_err(|failure| keeping(copy, &before.text, failure))
}

/// Puts the text of a file in the place of a memory, whatever that is now; `-`: the text of stdin.
pub(super) async fn from_file(context: &Context, folder: Option<Folder>, file: &Path) -> CliResult {
    let text = read_text(file)?;
    let before = read_memory(&context.root, MemoryOf::named(folder.as_ref()))
        .map_err(|error| of_memory(&error, folder.as_ref()))?;
    change(context, Args { folder, text, was: before.digest }).await
}

/// Reads a text of the user's.
#[expect(clippy::disallowed_methods, reason = "a file that the user names")]
fn read_text(file: &Path) -> Result<String, OpError> {
    let wrong = |why: &str| OpError::invalid(format!("{} {why}", file.display()));
    let mut bytes = Vec::new();
    let read = match file.as_os_str() == "-" {
        true => stdin().take(MEMORY_LIMIT + 1).read_to_end(&mut bytes),
        false => {
            std::fs::File::open(file).and_then(|file| file.take(MEMORY_LIMIT + 1).read_to_end(&mut bytes))
        }
    };
    read.map_err(|error| wrong(&format!("can't be read: {error}")))?;
    if bytes.len() as u64 > MEMORY_LIMIT {
        return Err(wrong(&format!("has more than {MEMORY_LIMIT} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| wrong("is no text in UTF-8"))
}

/// Returns the words of the editor that the user has chosen.
fn editor_words(context: &Context) -> Result<Vec<String>, OpError> {
    let chosen = ["VISUAL", "EDITOR"].iter().find_map(|name| Some((*name, context.environment.get(name)?)));
    let Some((name, text)) = chosen else {
        return Err(OpError::invalid("no editor is chosen").hint("name one: `export EDITOR=nano`"));
    };
    match command_words(text) {
        Ok(words) if words.is_empty() => Err(OpError::invalid(format!("{name} is blank"))),
        Ok(words) => Ok(words),
        Err(why) => Err(OpError::invalid(format!("{name} can't be {text:?}: {why}"))),
    }
}

/// Shows the copy, and returns the text that the person has left in it.
async fn edited(context: &Context, words: Vec<String>, folder: &Path) -> Result<String, Failure> {
    // Ctrl-C is a key of the editor.
    let _editors = signal(SignalKind::interrupt()).context("leaving Ctrl-C to the editor")?;
    let (program, file) = (words.first().cloned().unwrap_or_default(), folder.join(COPY));
    let left = context.world.blocking(move || editor::edit(&words, &file)).await;
    let status = left.map_err(|fault| anyhow!("our own fault: {fault}"))?.map_err(|error| {
        OpError::invalid(format!("{program} can't be started: {error}"))
            .hint("VISUAL or EDITOR names the editor")
    })?;
    if !status.success() {
        return Err(anyhow!("{program} ended with {status}, so nothing was changed").into());
    }
    let read = match read_inside(folder, Path::new(COPY), MEMORY_LIMIT + 1) {
        Ok(read) => read.bytes,
        Err(InsideError::Absent(_) | InsideError::NotAFile(_)) => {
            return Err(anyhow!("{program} left no file, so nothing was changed").into());
        }
        Err(InsideError::World(error)) => return Err(anyhow::Error::new(error).into()),
    };
    if read.len() as u64 > MEMORY_LIMIT {
        return Err(OpError::invalid(format!("the text has more than {MEMORY_LIMIT} bytes"))
            .hint("an agent reads all of it in each run: move parts of it into files of their own")
            .into());
    }
    String::from_utf8(read).map_err(|_| OpError::invalid("the text is not in UTF-8").into())
}

/// Keeps what a person has written, where it is not written yet, and says where.
fn keeping(copy: TempDir, before: &str, failure: Failure) -> Failure {
    let written = read_inside(copy.path(), Path::new(COPY), MEMORY_LIMIT + 1).ok();
    if written.is_none_or(|written| written.bytes == before.as_bytes()) {
        return failure;
    }
    out::tell(format!("what you wrote is kept in {}", copy.keep().join(COPY).display()));
    failure
}

#[expect(clippy::disallowed_methods, reason = "a folder of the user's own, which no container can write to")]
fn write(folder: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(folder.join(COPY), text).context("writing the copy")
}

//! A program of the owner's that gets a text on its standard input. The owner names it in the settings, and it does what only they may
//! do, such as sending mail: so it is not shut in. It is a group of its own, and has nothing of our environment.
#![expect(clippy::disallowed_types, reason = "starts a program that the settings name")]
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "a test reads what its program wrote"))]

use std::{
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
    time::timeout,
};

use super::group::Group;

/// How much of what it says is kept, bytes.
const MOST_LOG: u64 = 500;
/// Where it finds programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where an errand is run.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The folder in which its group is noted.
    pub notes: &'a Path,
    /// The folder in which it begins.
    pub at: &'a Path,
    /// The owner's own folder, where programs have their settings.
    pub home: Option<&'a Path>,
}

/// Why an errand was not done.
#[derive(Debug, thiserror::Error)]
pub enum Undone {
    #[error("no program is named")]
    NoProgram,
    #[error("the program can't be started: {0}")]
    World(#[from] io::Error),
    #[error("the program took more than {} s", .0.as_secs())]
    Slow(Duration),
    #[error("the program ended with {0}: {1}")]
    Ended(ExitStatus, String),
}

/// Has a program take a text.
///
/// # Errors
/// [`Undone`]; the program has ended then.
pub async fn run(place: Place<'_>, command: &[String], text: &str, within: Duration) -> Result<(), Undone> {
    let [program, arguments @ ..] = command else { return Err(Undone::NoProgram) };
    let mut program = Command::new(program);
    program.args(arguments).current_dir(place.at).env_clear();
    program.env("PATH", PATH).env("LANG", "C.UTF-8").env("HOME", place.home.unwrap_or(place.at));
    program.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    // When it is dropped, all of it is killed.
    let mut group = Group::start(&mut program, place.notes.to_owned())?;
    let (stdin, stderr) = (group.child.stdin.take(), group.child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // One that reads nothing may be content.
            let _ = stdin.write_all(text.as_bytes()).await;
        }
    };
    let read = async {
        let mut said = Vec::new();
        if let Some(mut stderr) = stderr {
            let _ = (&mut stderr).take(MOST_LOG).read_to_end(&mut said).await;
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
        }
        said
    };
    let all = async { tokio::join!(write, read, group.ended()) };
    let ((), said, status) = timeout(within, all).await.map_err(|_| Undone::Slow(within))?;
    let status = status?;
    let said: String =
        String::from_utf8_lossy(&said).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match status.success() {
        true => Ok(()),
        false => Err(Undone::Ended(status, said.trim().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sh(script: &str, text: &str, within: Duration) -> (Result<(), Undone>, String) {
        let dir = tempfile::tempdir().unwrap();
        let command = ["/bin/sh", "-c", script].map(str::to_owned);
        let notes = dir.path().join("notes");
        let place = Place { notes: &notes, at: dir.path(), home: None };
        let done = run(place, &command, text, within).await;
        let out = std::fs::read_to_string(dir.path().join("out")).unwrap_or_default();
        (done, out)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_program_gets_the_text_and_nothing_of_our_secrets() {
        let (done, out) = sh("{ cat; echo; env; } >out", "two\nlines", LONG).await;
        assert!(done.is_ok(), "{done:?}");
        assert!(out.starts_with("two\nlines\n") && out.contains("PATH="), "{out}");
        assert!(!out.contains("CARGO"), "{out}");
    }

    #[tokio::test]
    async fn one_that_fails_hangs_or_is_not_there_says_why_and_one_that_reads_nothing_is_content() {
        let large = "x".repeat(1 << 20);
        assert!(sh("exit 0", &large, LONG).await.0.is_ok());
        let (failed, _) = sh("echo 'no\tmail' >&2; exit 3", "", LONG).await;
        assert_eq!(failed.unwrap_err().to_string(), "the program ended with exit status: 3: no mail");
        let (flood, _) = sh("yes >&2 & sleep 0; exec yes >&2", "", Duration::from_millis(100)).await;
        assert!(matches!(flood, Err(Undone::Slow(_))), "{flood:?}");
        let dir = tempfile::tempdir().unwrap();
        let at = Place { notes: dir.path(), at: dir.path(), home: None };
        let none = run(at, &["/nowhere/at/all".to_owned()], "", LONG).await;
        assert!(matches!(none, Err(Undone::World(_))), "{none:?}");
        assert!(matches!(run(at, &[], "", LONG).await, Err(Undone::NoProgram)));
    }
}

//! Writes `init`, `setup`, `prune` and their like down in the audit: they are changes, but no operations.

use super::{CliResult, Command, Context, Failure, channels::Channels};
use crate::{
    config::hide_secrets,
    domain::shown::{
        audit::{LONGEST, Origin, cut},
        screen::quoted,
    },
    ops::{By, audit},
};

/// Whether a command changes something that no operation does.
pub(super) fn is_a_change(command: &Command) -> bool {
    match command {
        Command::Init(_) | Command::Setup(_) => true,
        Command::Doctor(doctor) => doctor.is_a_change(),
        Command::Channels(Channels::Add { .. } | Channels::Remove(_)) => true,
        Command::Prune(prune) => !prune.dry_run,
        Command::Restore(restore) => restore.is_a_change(),
        Command::Service(service) => service.is_a_change(),
        _ => false,
    }
}

/// Notes what became of a change. One that was not begun, as it was said wrongly, is none.
pub(super) async fn note(context: &Context, outcome: &CliResult) {
    let done = match outcome {
        Ok(()) | Err(Failure::Quiet(0)) => true,
        Err(
            Failure::Usage(_) | Failure::NotRunning(_) | Failure::NothingToStop(_) | Failure::Mute { .. },
        ) => return,
        Err(Failure::Failed(_) | Failure::Op(_) | Failure::Quiet(_)) => false,
    };
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let words = line(words);
    let by = By::owner(
        crate::system::process::own_ids().0,
        context.environment.get("SUDO_USER").map(str::to_owned),
        Origin::CommandLine,
    );
    let done = (done, context.world.now());
    audit::note_made(&context.root, context.store().ok().as_ref(), &by, done, &words).await;
}

/// Returns a command line as it is written down: without secrets.
fn line(words: Vec<String>) -> String {
    let mut words = serde_json::Value::from(words);
    hide_secrets(&mut words);
    let words: Vec<String> =
        words.as_array().into_iter().flatten().filter_map(|word| Some(quoted(word.as_str()?))).collect();
    cut(&format!("g2 {}", words.join(" ")), LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_in_a_command_line() {
        for (words, shown) in [
            (
                &["channels", "add", "matrix", "--set", "homeserver=https://m", "--set", "password=hush"][..],
                "g2 channels add matrix --set homeserver=https://m --set 'password=…'",
            ),
            (
                &["channels", "add", "toy", "--set", "login={ user = \"u\", password = \"hush\" }"],
                "g2 channels add toy --set 'login={ user = \"u\", password =…'",
            ),
            (
                &["channels", "add", "toy", "--program", "x", "--program=--token=hush"],
                "g2 channels add toy --program x '--program=--token=…'",
            ),
            (&["doctor", "--fix"], "g2 doctor --fix"),
        ] {
            assert_eq!(line(words.iter().map(|word| (*word).to_owned()).collect()), shown);
        }
    }
}

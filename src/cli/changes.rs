//! Who changed what by the command line: a line each in `data/changes.log`, whether a daemon is up or not.

use super::{
    Command, Context, Failure, Outcome, approvals::Approvals, chats::Chats, dropped::Dropped, groups::Groups,
    ipc::Ipc, members::Members, outbox::Outbox, sessions::Sessions, tasks::Tasks, users::Users,
    wirings::Wirings,
};
use crate::{clock, domain::screen::escaped, root};

/// How much of a command's words is kept, characters.
const LONGEST: usize = 500;

/// Whether a command is to change something. Of a new one that is so until it is listed here as one that looks.
pub(super) fn is_a_change(command: &Command) -> bool {
    match command {
        Command::Up(_)
        | Command::Serve
        | Command::Status(_)
        | Command::Chat(_)
        | Command::Send(_)
        | Command::Engage(_)
        | Command::Messages(_)
        | Command::Schedule(_)
        | Command::Runs(_)
        | Command::Usage(_)
        | Command::Events(_)
        | Command::Why(_)
        | Command::Doctor(_)
        | Command::Agent => false,
        Command::Init(_) => true,
        Command::Prune(prune) => !prune.dry_run,
        Command::Groups(groups) => !matches!(groups, Groups::List { .. } | Groups::Show { .. }),
        Command::Wirings(wirings) => !matches!(wirings, Wirings::List { .. }),
        Command::Chats(chats) => !matches!(chats, Chats::List { .. }),
        Command::Users(users) => !matches!(users, Users::List { .. }),
        Command::Members(members) => !matches!(members, Members::List { .. }),
        Command::Dropped(dropped) => !matches!(dropped, Dropped::List { .. }),
        Command::Outbox(outbox) => !matches!(outbox, Outbox::List { .. }),
        Command::Tasks(tasks) => {
            !matches!(tasks, Tasks::List { .. } | Tasks::Show { .. } | Tasks::History { .. })
        }
        Command::Sessions(sessions) => {
            !matches!(sessions, Sessions::List { .. } | Sessions::Search { .. } | Sessions::Show { .. })
        }
        Command::Approvals(approvals) => {
            !matches!(approvals, Approvals::List { .. } | Approvals::Show { .. })
        }
        Command::Ipc(ipc) => !matches!(
            ipc,
            Ipc::List { .. } | Ipc::Show { .. } | Ipc::Watch { .. } | Ipc::Trace { .. } | Ipc::Schema
        ),
    }
}

/// Notes what became of a change. One that was not begun, as it was said wrongly, is none.
pub(super) fn note(context: &Context, outcome: &Outcome) {
    let became = match outcome {
        Ok(()) | Err(Failure::Quiet(0)) => "done",
        Err(Failure::Usage(_) | Failure::NotRunning(_) | Failure::Mute { .. }) => return,
        Err(Failure::Failed(_) | Failure::Quiet(_)) => "failed",
    };
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy())).collect();
    let mut words = words.join(" ");
    if let Some((end, _)) = words.char_indices().nth(LONGEST) {
        words.truncate(end);
        words.push('…');
    }
    let line = format!("{} {} {became}: g2 {words}", clock::now(), who(context));
    // A root that was refused has no `data/`.
    if let Err(error) = root::append_change(&context.root.join("data"), &line)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "data/changes.log can't be written");
    }
}

/// The user of this process, by number and name, and the one that it was before `sudo`.
fn who(context: &Context) -> String {
    let (user, _) = root::own_ids();
    let name = root::user_name(user).map(|name| format!(" ({name})")).unwrap_or_default();
    let before = context.environment.get("SUDO_USER").filter(|_| user == 0);
    let before = before.map(|name| format!(" for {}", quoted(name))).unwrap_or_default();
    format!("uid {user}{name}{before}")
}

/// One word as it could be typed again; nothing in it begins a line.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=./:@,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", escaped(&word.replace('\'', "'\\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_can_be_typed_again_and_stays_on_its_line() {
        for (word, shown) in [
            ("--chat=local:main", "--chat=local:main"),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("a\nb\u{1b}[2J", r"'a\nb\u{1b}[2J'"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }
}

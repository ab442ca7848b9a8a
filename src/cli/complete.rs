//! Completion of the command line: `g2` itself is asked by the shell, so that names of groups, chats, tasks, runs and others
//! are completed as the store has them.

use std::{ffi::OsStr, path::PathBuf};

use clap::{Arg, Command, builder::StyledStr};
use clap_complete::{
    ArgValueCompleter, CompletionCandidate,
    env::{CompleteEnv, Shells},
};

use ipc_handlers::Time;

use super::help;
use crate::{
    app,
    config::{self, Config, Environment},
    root::find_root,
    store::{Store, Which},
    system::world::World,
};

/// The variable by which a shell's script asks.
const ASKS: &str = "G2_COMPLETE";
/// At most this many names of a kind are offered, the newest.
const MOST: usize = 200;

/// Puts words that bash has ended at a colon or an equals sign together again, so that an address is one word, and takes off
/// what stands before the last of them from what is offered.
const BASH: &str = r#"
_g2() {
    local words=() n at=0
    for ((n = 0; n < ${#COMP_WORDS[@]}; n++)); do
        if ((n > 1)) && [[ ${COMP_WORDS[n]} == [:=] || ${COMP_WORDS[n - 1]} == [:=] ]]; then
            words[${#words[@]} - 1]+=${COMP_WORDS[n]}
        else
            words+=("${COMP_WORDS[n]}")
        fi
        ((n == COMP_CWORD)) && at=$((${#words[@]} - 1))
    done
    local current=${words[at]} COMP_WORDS=("${words[@]}") COMP_CWORD=$at
    _clap_complete_g2 "$1" "$current" "$3"
    if [[ $current == *[:=]* ]]; then
        local before=${current%"${current##*[:=]}"}
        COMPREPLY=("${COMPREPLY[@]#"$before"}")
    fi
}
complete -o nospace -o bashdefault -o nosort -F _g2 g2
"#;

/// Answers a shell that asks what a word could be, and ends the process. Otherwise nothing happens.
pub(super) fn answer_a_shell(world: &World) {
    CompleteEnv::with_factory(|| with_names(world, help::command(), &mut Vec::new())).var(ASKS).complete();
}

/// Returns the script by which a shell asks.
///
/// # Errors
/// There is none for this shell.
pub(super) fn script(shell: &str) -> anyhow::Result<String> {
    let shells = Shells::builtins();
    let known = shells.completer(shell).ok_or_else(|| anyhow::anyhow!("there is no script for {shell}"))?;
    let mut script = Vec::new();
    known.write_registration(ASKS, "g2", "g2", "g2", &mut script)?;
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if shell == "bash" {
        script.push_str(BASH.trim_start());
    }
    Ok(script)
}

/// What an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Group,
    Chat,
    Task,
    Run,
    Channel,
    Session,
    Text,
    Message,
    Question,
    Command,
    User,
    Token,
    Setting,
}

impl Kind {
    /// Returns what an argument of a command names, by the words of the command and the argument's own name.
    fn of(path: &[String], arg: &str) -> Option<Self> {
        let first = path.first().map_or("", String::as_str);
        let last = path.last().map_or("", String::as_str);
        Some(match (first, last, arg) {
            // New ones are named there.
            (_, "add", "folder" | "name" | "id") | ("schedule" | "up" | "init" | "doctor", ..) => {
                return None;
            }
            ("config", _, "name") => Self::Setting,
            ("tasks", _, "id") => Self::Task,
            ("runs", _, "id") => Self::Run,
            ("sessions", _, "id") => Self::Session,
            ("outbox", _, "id") => Self::Text,
            ("approvals", _, "id") => Self::Question,
            ("users", _, "id") | ("members", _, "user") => Self::User,
            ("channels", _, "name") => Self::Channel,
            ("web", "revoke", "name") => Self::Token,
            ("messages" | "why", _, "seq") => Self::Message,
            ("ipc", "hold" | "release", "what") => Self::Group,
            ("ipc", _, "what") => Self::Command,
            (_, _, "group") | ("groups", _, "folder") => Self::Group,
            (_, _, "chat") => Self::Chat,
            _ => return None,
        })
    }
}

/// Has the arguments of all commands completed that name something in the store.
fn with_names(world: &World, command: Command, path: &mut Vec<String>) -> Command {
    let command = command.mut_args(|arg: Arg| match Kind::of(path, arg.get_id().as_str()) {
        Some(kind) => {
            let world = world.clone();
            arg.add(ArgValueCompleter::new(move |typed: &OsStr| offered(kind, typed, world.now())))
        }
        None => arg,
    });
    command.mut_subcommands(|sub| {
        path.push(sub.get_name().to_owned());
        let sub = with_names(world, sub, path);
        path.pop();
        sub
    })
}

/// Returns what a word could be, each with a few words about it. Where nothing can be read, nothing is offered.
fn offered(kind: Kind, typed: &OsStr, now: Time) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let environment = Environment::of_process();
    let root = find_root(named_root(std::env::args().collect()), &environment);
    let found = runtime.ok().and_then(|runtime| {
        app::check_root(&root).ok()?;
        let store = app::open_store(&World::real(), &root).ok()?;
        runtime.block_on(names(kind, &store, now, || Config::load(&root, &environment).ok())).ok()
    });
    found
        .unwrap_or_default()
        .into_iter()
        .filter(|(name, _)| name.starts_with(&*typed))
        .map(|(name, about)| {
            // It is shown as it is, so nothing in it may act.
            let about: String = super::show::cell(&about.into()).chars().take(60).collect();
            CompletionCandidate::new(name).help((!about.is_empty()).then(|| StyledStr::from(about)))
        })
        .collect()
}

/// Returns the root that a command line names.
fn named_root(words: Vec<String>) -> Option<PathBuf> {
    let beside = words.windows(2).find(|pair| pair[0] == "--root").map(|pair| pair[1].clone());
    let joined = || words.iter().find_map(|word| word.strip_prefix("--root=").map(str::to_owned));
    beside.or_else(joined).map(PathBuf::from)
}

/// Names of a kind, and a few words about each.
type Names = Vec<(String, String)>;

async fn names(
    kind: Kind,
    store: &Store,
    now: Time,
    config: impl Fn() -> Option<Config>,
) -> anyhow::Result<Names> {
    let newest = || Which { limit: Some(MOST), ..Which::default() };
    Ok(match kind {
        Kind::Group => {
            store.groups().await?.into_iter().map(|group| (group.folder.to_string(), group.name)).collect()
        }
        Kind::Chat => {
            let chats = store.chats(Some(MOST)).await?;
            chats.into_iter().map(|chat| (chat.jid, chat.name)).collect()
        }
        Kind::Task => {
            let tasks = store.tasks(None, Some(MOST))?;
            tasks.into_iter().map(|task| (task.id, format!("{}: {}", task.group, task.prompt))).collect()
        }
        Kind::Run => {
            let runs = store.runs(Some(MOST))?.into_iter().rev();
            runs.map(|run| (run.id.to_string(), format!("{} {}", run.group, run.status))).collect()
        }
        Kind::Session => {
            let sessions = store.sessions(None, None, Some(MOST))?.into_iter();
            let named = sessions.filter_map(|session| Some((session.id?, session.name.unwrap_or_default())));
            named.map(|(id, name)| (id.to_string(), name)).collect()
        }
        Kind::Text => {
            let texts = store.outbox_of(newest()).await?.into_iter().rev();
            texts.map(|text| (text.id.to_string(), format!("{}: {}", text.status, text.text))).collect()
        }
        Kind::Message => {
            let messages = store.messages_of(newest()).await?.into_iter().rev();
            messages
                .map(|message| {
                    (message.seq.to_string(), format!("{}: {}", message.sender_name, message.text))
                })
                .collect()
        }
        Kind::Question => {
            let open = store.approvals_of(false, newest()).await?;
            open.into_iter()
                .map(|row| (row.id.to_string(), format!("{} {}", row.kind, row.chat_jid)))
                .collect()
        }
        Kind::Command => {
            let filter = crate::store::IpcFilter { limit: Some(MOST), ..Default::default() };
            let rows = store.ipc_rows(&filter, now)?;
            let named = rows.into_iter().rev().filter_map(|row| {
                let about = format!("{} {}", row.kind.as_deref().unwrap_or("-"), row.state);
                Some((row.id?.to_string(), about))
            });
            named.collect()
        }
        Kind::User => {
            let users = store.newest_users(Some(MOST)).await?;
            users.into_iter().map(|user| (user.id, user.name)).collect()
        }
        Kind::Token => {
            let tokens = store.web_tokens()?.into_iter();
            tokens.map(|token| (token.name, token.purpose.to_string())).collect()
        }
        Kind::Setting => config::names().map(|(name, about)| (name.to_owned(), about.to_owned())).collect(),
        Kind::Channel => {
            let accounts = config().map(|config| config.channels).unwrap_or_default();
            accounts.into_iter().map(|account| (account.name, String::new())).collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_name_something_are_known_by_their_commands() {
        let kind =
            |path: &str, arg: &str| Kind::of(&path.split(' ').map(str::to_owned).collect::<Vec<_>>(), arg);
        for (path, arg, expected) in [
            ("groups show", "folder", Some(Kind::Group)),
            ("groups add", "folder", None),
            ("groups add", "chat", Some(Kind::Chat)),
            ("tasks list", "group", Some(Kind::Group)),
            ("tasks pause", "id", Some(Kind::Task)),
            ("tasks add", "id", None),
            ("runs logs", "id", Some(Kind::Run)),
            ("why", "seq", Some(Kind::Message)),
            ("ipc hold", "what", Some(Kind::Group)),
            ("ipc retry", "what", Some(Kind::Command)),
            ("channels show", "name", Some(Kind::Channel)),
            ("web tokens revoke", "name", Some(Kind::Token)),
            ("web tokens add", "name", None),
            ("channels add", "name", None),
            ("config set", "name", Some(Kind::Setting)),
            ("config unset", "name", Some(Kind::Setting)),
            ("send", "text", None),
        ] {
            assert_eq!(kind(path, arg), expected, "{path} {arg}");
        }
    }

    #[test]
    fn a_root_is_found_among_the_words_that_are_typed() {
        let root = |line: &str| named_root(line.split(' ').map(str::to_owned).collect());
        assert_eq!(root("g2 -- g2 --root /a groups"), Some("/a".into()));
        assert_eq!(root("g2 -- g2 groups --root=/b"), Some("/b".into()));
        assert_eq!(root("g2 -- g2 groups --root"), None);
    }
}

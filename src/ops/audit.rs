//! Changes and their authors: rows of a chain in the store, and a line each in `data/changes.log`, written by the daemon or by a
//! program under the lock.

use std::path::Path;

use ipc_handlers::Time;
use serde_json::Value;

use super::{By, Op, OpError, Site};
use crate::{
    config::{hide_secrets, secrets_in},
    domain::{
        runs::{group_config::Key, tool_servers},
        shown::{
            audit::{Entry, LONGEST, Step, cut, mark},
            errors::chain,
            screen::{quoted, without},
        },
    },
    root,
    store::{Store, StoreError},
    system::failpoint,
};

/// Returns what an operation is asked to do, on one line: its name and its arguments; and the secrets that are left out of
/// it, as none is in a log.
#[must_use]
pub fn words(op: &Op) -> (String, Vec<String>) {
    let mut words = op.name().to_owned();
    let mut asked = serde_json::to_value(op).unwrap_or_default();
    let args = &mut asked["args"];
    let mut secrets = Vec::new();
    if let Op::ChannelsAdd(_) = op {
        secrets = hide_secrets(args);
    } else if let Op::ConfigSet(set) = op {
        secrets = secrets_in(&set.name, &set.value);
        args["value"] =
            secrets.iter().fold(set.value.clone(), |left, secret| left.replace(secret, "…")).into();
    }
    if let Op::GroupsSet(set) = op
        && let Some(text) = set.settings.get(&Key::Mcp)
    {
        // What is not taken is written down too, and may hold a secret.
        asked["args"]["settings"]["mcp"] = tool_servers::names(text).into();
    }
    if let (Op::GroupsSet(_), Value::Object(args)) = (op, &mut asked["args"]) {
        // What a page showed before is no part of what is asked.
        args.remove("was");
    }
    if let Op::GroupsEdit(_) = op {
        // A memory is nobody's but its group's.
        asked["args"]["text"] = "…".into();
    }
    if let Value::Object(args) = &asked["args"] {
        for (name, value) in args.iter().filter(|(_, value)| !value.is_null()) {
            if name == "token" || value == "…" {
                words.push_str(&format!(" {name}=…"));
                continue;
            }
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            // Of a long text no more is escaped than is kept.
            let head: String = text.chars().take(LONGEST + 1).collect();
            words.push_str(&format!(" {name}={}", quoted(&head)));
        }
    }
    (cut(&words, LONGEST), secrets)
}

fn entry(by: &By, what: &str, step: Step, now: Time) -> Entry {
    Entry {
        at: now,
        origin: by.origin(),
        who: by.to_string(),
        what: what.to_owned(),
        step,
        asked: None,
        why: None,
        agent: by.agent().map(ToString::to_string),
    }
}

/// Writes down that a change is about to be made; returns the row's number. Nothing is changed without it.
///
/// # Errors
/// The store's.
pub(super) async fn ask(site: &Site<'_>, by: &By, what: &str) -> Result<i64, StoreError> {
    let (row, _) = site.store.audit(entry(by, what, Step::Asked, site.world.now())).await?;
    failpoint::reach("audit.asked");
    Ok(row)
}

/// Writes down what became of it.
pub(super) async fn ended<T>(
    site: &Site<'_>,
    by: &By,
    asked: i64,
    (what, secrets): (&str, &[String]),
    outcome: &Result<T, OpError>,
) {
    failpoint::reach("audit.changed");
    let (step, why) = match outcome {
        Ok(_) => (Step::Done, None),
        Err(error) => (Step::Failed, Some(without(&error.to_string(), secrets))),
    };
    let entry = Entry { asked: Some(asked), why, ..entry(by, what, step, site.world.now()) };
    note(site.root, site.store, by, what, entry).await;
}

/// Writes down a change that no operation makes, once it is made or has failed.
pub async fn note_made(root: &Path, store: Option<&Store>, by: &By, (done, now): (bool, Time), what: &str) {
    let step = if done { Step::Done } else { Step::Failed };
    let entry = entry(by, what, step, now);
    match store {
        Some(store) => note(root, store, by, what, entry).await,
        None => line(root, by, what, &entry, ""),
    }
}

/// Appends the row, and the line that tells of it.
async fn note(root: &Path, store: &Store, by: &By, what: &str, entry: Entry) {
    let mark = match store.audit(entry.clone()).await {
        Ok((row, hash)) => format!(" {}", mark(row, hash)),
        Err(error) => {
            tracing::warn!(error = %chain(&error), what, "the audit can't be written");
            String::new()
        }
    };
    line(root, by, what, &entry, &mark);
}

/// Adds a line to the log. A root without `data/` has none.
fn line(root: &Path, by: &By, what: &str, entry: &Entry, mark: &str) {
    let text = format!("{} {by} {}: {what}{mark}", entry.at, entry.step);
    if let Err(error) = root::append_change(&root.join("data"), &text)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(error = %chain(&error), "data/changes.log can't be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_in_a_line() {
        let told = |name: &str, args: Value| {
            words(&Op::read(serde_json::json!({"name": name, "args": args})).unwrap())
        };
        let settings = serde_json::json!({"homeserver": "https://m", "password": "hush", "tokens": ["hush"]});
        let args = serde_json::json!({"name": "matrix", "token": "hush", "settings": settings, "program": ["a", "--key", "hush"]});
        let (line, secrets) = told("channels.add", args);
        assert!(!line.contains("hush") && line.contains("https://m") && line.contains(" token=…"), "{line}");
        assert_eq!(secrets, ["hush"; 4]);
        let edit = serde_json::json!({"folder": "family", "text": "Our door code is 1234.", "was": ""});
        assert_eq!(told("groups.edit", edit).0, "groups.edit folder=family text=… was=''");
        for (name, value, line) in [
            ("agent.acp.env", "{ API_KEY = \"sk-1234\" }", "config.set name=agent.acp.env value=…"),
            ("agent.acp.env", "API_KEY=sk-1234", "config.set name=agent.acp.env value=…"),
            ("network.proxy", "http://ada:sk-1234@p:1", "config.set name=network.proxy value='http://…p:1'"),
            ("network.proxy", "ada:sk-1234@p:1", "config.set name=network.proxy value='…p:1'"),
            ("limits.tasks", "", "config.set name=limits.tasks value=''"),
            ("assistant_name", "a=b", "config.set name=assistant_name value=a=b"),
        ] {
            let (said, secrets) = told("config.set", serde_json::json!({"name": name, "value": value}));
            assert_eq!(said, line);
            assert!(
                !without(&format!("{value:?} is no value for {name}"), &secrets).contains("sk-1234"),
                "{secrets:?}"
            );
        }
    }

    #[test]
    fn a_line_has_the_arguments_that_were_given_and_is_bounded() {
        let op = |name: &str| {
            let args = serde_json::json!({"folder": "family", "chat": "local:f", "name": name});
            words(&Op::read(serde_json::json!({"name": "groups.add", "args": args})).unwrap()).0
        };
        assert_eq!(op("Us all"), "groups.add chat=local:f folder=family main=false name='Us all'");
        let long = op(&"x\n".repeat(1 << 20));
        assert_eq!(long.chars().count(), LONGEST + 1);
        assert!(!long.contains('\n') && long.ends_with('…'));
    }
}

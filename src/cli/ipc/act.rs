//! `g2 ipc hold`, `release`, `retry`, `drop`: what a person does to commands. A daemon that is up does it; without one it
//! is done here, under the root's lock.

use std::os::unix::ffi::OsStrExt as _;

use anyhow::{anyhow, bail};
use ipc_handlers::Folder;

use super::{
    super::{
        Failure,
        client::{Client, NoDaemon, tell_changed},
        confirm::Yes,
    },
    Context, Outcome,
    look::{Found, NoSuchCommand, Open, find},
    show,
};
use crate::{
    app, clock,
    domain::{holds::Hold, screen::escaped, states::CommandOutcome},
    loops::control::{Request, Response, Which, shown},
    root,
    store::Store,
};

/// What can be held.
struct Target {
    group: Folder,
    file: Option<(String, Vec<u8>)>,
}

impl Target {
    fn of(context: &Context, store: &Store, what: &str) -> anyhow::Result<Self> {
        if let Ok(group) = Folder::parse(what)
            && store.group(&group)?.is_some()
        {
            return Ok(Self { group, file: None });
        }
        // What is held need not be there any more.
        if let Some(hold) = store.holds()?.into_iter().find(|hold| shown(hold) == what) {
            return Ok(Self { group: hold.group, file: hold.file });
        }
        let found = find(context, store, what).map_err(|error| match error.is::<NoSuchCommand>() {
            true => anyhow!(
                "there is neither a group nor a command called {}; `g2 groups list` names the groups, `g2 ipc list` the commands",
                escaped(what)
            ),
            false => error,
        })?;
        match found {
            Found::Open(open) if open.lying.claim.is_none() => match file(&open)? {
                Which::File { group, in_box, name } => Ok(Self { group, file: Some((in_box, name)) }),
                Which::Claim(_) => bail!("{what} is claimed already"),
            },
            Found::Open(_) => bail!("{what} is claimed already; `g2 ipc drop {what}` sets it aside"),
            Found::Settled(id) => bail!("command {id} is settled already; see `g2 ipc trace {id}`"),
        }
    }
}

fn file(open: &Open) -> anyhow::Result<Which> {
    if let Some(id) = open.lying.claim {
        return Ok(Which::Claim(id));
    }
    let in_box = open.lying.in_box.ok_or_else(|| anyhow!("its box is not known"))?;
    Ok(Which::File {
        group: Folder::parse(&open.lying.group)?,
        in_box: in_box.to_string(),
        name: open.lying.file.as_bytes().to_vec(),
    })
}

pub(super) async fn hold(context: &Context, store: &Store, what: &str, reason: Option<String>) -> Outcome {
    let Target { group, file } = Target::of(context, store, what)?;
    let hold = Hold { group: group.clone(), file: file.clone(), reason, at: clock::now(), aside: false };
    let name = shown(&hold);
    store.hold(hold).await?;
    tell_changed(context, Some(&group)).await;
    // It may have been claimed before anybody was told.
    if file.is_some()
        && !matches!(find(context, store, &name), Ok(Found::Open(open)) if open.lying.claim.is_none())
    {
        store.release(group, file).await?;
        return Err(anyhow!("{name} was claimed meanwhile; see `g2 ipc trace {name}`").into());
    }
    show::done(context, &format!("{name} is held until `g2 ipc release {name}`"))
}

pub(super) async fn release(context: &Context, store: &Store, what: &str) -> Outcome {
    let Target { group, file } = Target::of(context, store, what)?;
    if store.release(group.clone(), file).await? == 0 {
        return Err(anyhow!("{what} is not held").into());
    }
    tell_changed(context, Some(&group)).await;
    show::done(context, &format!("{what} is held no more"))
}

pub(super) async fn retry(context: &Context, store: &Store, what: &str) -> Outcome {
    let of = match find(context, store, what)? {
        Found::Settled(id) => id,
        Found::Open(open) => {
            return Err(anyhow!("{what} is {} and was not decided yet", open.row.state).into());
        }
    };
    let id = match Client::connect(&context.root).await {
        Ok(client) => ask(client, &Request::RetryCommand { id: of }).await?,
        Err(NoDaemon::Down) => app::retry_command(&context.root, of).await?,
        Err(NoDaemon::Mute(why)) => return Err(Failure::Mute { root: context.root.clone(), why }),
    };
    tell(context, store, id, &format!("command {of} is tried again as {id}"))
}

pub(super) async fn drop(context: &Context, store: &Store, what: &str, reason: String, yes: &Yes) -> Outcome {
    let which = match find(context, store, what)? {
        Found::Settled(id) => {
            // Anything else that is dropped is kept, and can be tried again.
            let data = context.root.join("data");
            if let Some(file) = store.settled_file(id)?
                && file.outcome == CommandOutcome::Malformed
                && root::read_kept_bytes(&data, &file.group, id, true).is_some()
            {
                yes.to(&format!("what is kept of dead command {id} is removed for good"))?;
            }
            Which::Claim(id)
        }
        Found::Open(open) => file(&open)?,
    };
    let id = match Client::connect(&context.root).await {
        Ok(client) => ask(client, &Request::DropCommand { which, reason }).await?,
        Err(NoDaemon::Down) => app::drop_command(&context.root, which, reason).await?,
        Err(NoDaemon::Mute(why)) => return Err(Failure::Mute { root: context.root.clone(), why }),
    };
    tell(context, store, id, &format!("{what} is dropped"))
}

async fn ask(mut client: Client, request: &Request) -> anyhow::Result<i64> {
    match client.call(request).await? {
        Response::Command { id } => Ok(id),
        _ => Err(anyhow!("the daemon gave an answer to something else")),
    }
}

/// Says what was done, and how the command is now.
fn tell(context: &Context, store: &Store, id: i64, done: &str) -> Outcome {
    let row = store.story(id, clock::now())?.map(|story| story.row);
    if context.json {
        let whole = serde_json::json!({ "ok": true, "done": done, "id": id, "command": row });
        return super::super::out::json(whole);
    }
    let state = match row {
        Some(row) => {
            let why = row.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{}{why}", row.state)
        }
        None => "claimed; a daemon decides it".into(),
    };
    show::done(context, &format!("{done}; command {id} is {state}"))
}

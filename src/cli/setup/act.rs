//! What the steps of the set-up do: by the operations and commands that there are.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, anyhow};

use super::{
    super::{Context, Failure, channels, client::perform, image, secret, service},
    Setup, hello,
};
use crate::{
    app::{self, History},
    domain::{machine::setup::Act, time::zone::suggestion},
    gateway::{Credential, Upstream, Verdict, try_key},
    ops::{OpCode, OpError, channels::add, config},
    root::put_variable,
    system::failpoint,
};

/// How long the model's host may take over a key.
const KEY_CHECK: Duration = Duration::from_secs(20);

impl Setup {
    /// Does what a step asks for, and returns it in words.
    pub(super) async fn perform(&self, context: &Context, act: Act) -> Result<String, Failure> {
        match act {
            Act::MakeRoot => {
                app::found(&context.world, &context.root, &context.config()?, History::Refuse).await?;
                app::lay_out_boxes(&context.world, &context.root).await?;
                failpoint::reach("setup.root");
                Ok(format!("{} is laid out", context.root.display()))
            }
            Act::Build(kind) => {
                let name = context.config()?.sandbox.image;
                image::build(context, kind, &name).await?;
                failpoint::reach("setup.image");
                Ok(format!("{name} is built: {}", kind.holds()))
            }
            Act::PutKey => self.put_key(context).await,
            Act::UseKey => use_key(context).await,
            Act::SetZone(zone) => set_zone(context, &zone).await,
            Act::AddAccount(name) => self.add_account(context, name).await,
            Act::InstallService => {
                let said = service::install_usual(context).await?;
                failpoint::reach("setup.service");
                Ok(said)
            }
            Act::SayHello => hello::say(context, Duration::from_secs(self.patience)).await,
        }
    }

    async fn put_key(&self, context: &Context) -> Result<String, Failure> {
        let file = self.key_file.as_deref().filter(|path| *path != Path::new("-"));
        let text = secret::read("Key", file)?;
        let credential = Credential::of_word(&text).map_err(|why| anyhow!(why))?;
        let mut said = "kept in .env, not tried";
        if !self.no_check {
            check(context, &credential).await?;
            said = "kept in .env; the model's host takes it";
        }
        let variable = credential.kind.variable();
        put_variable(&context.root, variable, text.trim()).context("writing .env")?;
        failpoint::reach("setup.key");
        Ok(format!("{variable} is {said}; {}", use_key(context).await?))
    }

    async fn add_account(&self, context: &Context, name: String) -> Result<String, Failure> {
        let token = secret::read(&format!("Token of {name}"), self.token_file.as_deref())?;
        let settings = self.set.iter().cloned().collect();
        let args = add::Args { name, token: Some(token), program: Vec::new(), settings };
        let answer = channels::add(context, args, self.no_check).await?;
        failpoint::reach("setup.channel");
        Ok([vec![answer.says], answer.notes].concat().join("; "))
    }
}

/// Asks the model's host whether it takes a key.
async fn check(context: &Context, credential: &Credential) -> Result<(), Failure> {
    let upstream = Upstream::of(&context.config()?).map_err(anyhow::Error::from)?;
    let failed = |why: String, hint: &str| -> Failure { OpError::new(OpCode::Failed, why).hint(hint).into() };
    match try_key(&context.world, &upstream, credential, KEY_CHECK).await {
        // A host of its own may not have this list; the first answer will tell.
        Ok(Verdict::Taken | Verdict::Unclear(_)) => Ok(()),
        Ok(Verdict::Refused(status)) => Err(failed(
            format!("{upstream} does not take the key (status {status})"),
            "give another key; --no-check keeps it as it is",
        )),
        Err(error) => Err(failed(error.to_string(), "see to the network, or add --no-check")),
    }
}

/// Changes a setting.
async fn set(context: &Context, name: &str, value: &str) -> Result<(), Failure> {
    perform(context, config::set::Args { name: name.to_owned(), value: value.to_owned() }).await.map(drop)
}

async fn use_key(context: &Context) -> Result<String, Failure> {
    set(context, "agent.provider", "claude").await?;
    failpoint::reach("setup.provider");
    Ok("agents are Claude Code from now on".to_owned())
}

async fn set_zone(context: &Context, zone: &str) -> Result<String, Failure> {
    let config = context.config()?;
    if config.zone_source.data().get(zone).is_none() {
        let meant = suggestion(zone).map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        return Err(OpError::invalid(format!("{zone:?} is not a time zone{meant}"))
            .hint("name one such as Europe/Paris: `g2 setup --tz ZONE`")
            .into());
    }
    set(context, "timezone", zone).await?;
    failpoint::reach("setup.zone");
    let used = context.config()?.zone.name;
    Ok(if used == zone {
        zone.to_owned()
    } else {
        format!("{zone} is in g2.toml; TZ in the environment wins: {used}")
    })
}

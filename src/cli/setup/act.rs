//! What the steps of the set-up do: by the operations and commands that there are.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context as _, anyhow};
use serde_json::Value;

use super::{
    super::{Context, Failure, channels, claim, client::perform, image, out, secret, service, start},
    Setup, hello,
};
use crate::{
    app::{self, History},
    config::adapters::is_linked,
    domain::{machine::setup::Act, time::zone::suggestion},
    gateway::{Credential, Credentials, Upstream, Verdict, try_key},
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
            Act::TryKey(kind) => self.try_key(context, kind).await,
            Act::SetZone(zone) => set_zone(context, &zone).await,
            Act::AddAccount(name) => self.add_account(context, name).await,
            Act::InstallService => {
                let said = service::install_usual(context).await?;
                failpoint::reach("setup.service");
                Ok(said)
            }
            Act::Claim(accounts) => {
                let mut said = Vec::new();
                for account in &accounts {
                    said.push(claim::owner(context, account).await?);
                }
                Ok(said.join("\n"))
            }
            Act::Detach => {
                let said = start::detach(context, START).await?;
                failpoint::reach("setup.detached");
                Ok(said)
            }
            Act::SayHello => hello::say(context, Duration::from_secs(self.patience)).await,
        }
    }

    async fn put_key(&self, context: &Context) -> Result<String, Failure> {
        let file = self.key_file.as_deref().filter(|path| *path != Path::new("-"));
        let text = secret::read("Key", file)?;
        let credential = Credential::of_word(&text).map_err(|why| anyhow!(why))?;
        let said = match self.no_check {
            true => "kept in .env, not tried".to_owned(),
            false => format!("kept in .env; {}", check(context, &credential).await?),
        };
        let variable = credential.kind.variable();
        put_variable(&context.root, variable, text.trim()).context("writing .env")?;
        failpoint::reach("setup.key");
        Ok(format!("{variable} is {said}; {}", use_key(context).await?))
    }

    /// Tries the key that is there. One that is refused is replaced, where somebody can be asked for another.
    async fn try_key(&self, context: &Context, kind: &str) -> Result<String, Failure> {
        let there = format!("there is {kind}; agents get a placeholder instead");
        if self.no_check {
            return Ok(there);
        }
        let config = context.config()?;
        let credentials = Credentials::new(context.root.join(".env"), config.gateway.token_file.clone());
        let credential = credentials.current(context.world.now()).map_err(anyhow::Error::from)?;
        match check(context, &credential).await {
            Ok(said) => Ok(format!("{there}; {said}")),
            // Without a network it may be as good as ever.
            Err(NotTaken::NotTried(why)) => Ok(format!("{there}; it was not tried: {why}")),
            Err(NotTaken::Refused(refused)) if !self.yes && config.gateway.token_file.is_none() => {
                out::tell(format!("{}. Give another one; it is not shown", refused.message));
                self.put_key(context).await
            }
            Err(refused) => Err(refused.into()),
        }
    }

    async fn add_account(&self, context: &Context, name: String) -> Result<String, Failure> {
        let links = is_linked(&name);
        if self.token_file.is_none() && out::is_watched() && !links {
            out::ask(&format!("{}\n", where_from(&name)));
        }
        let token = channels::token(&name, self.token_file.as_deref())?;
        let mut settings: BTreeMap<String, Value> = self.set.iter().cloned().collect();
        if !self.yes {
            for &(key, question) in needs(&name) {
                if !settings.contains_key(key)
                    && let Some(value) = asked(question)?
                {
                    let value = if key == "invites_from" { serde_json::json!([value]) } else { value.into() };
                    settings.insert(key.to_owned(), value);
                }
            }
        }
        let args = add::Args { name, token, program: Vec::new(), settings };
        let (answer, _) = channels::add(context, args, self.no_check).await?;
        failpoint::reach("setup.channel");
        Ok([vec![answer.says], answer.notes].concat().join("; "))
    }
}

/// How long a daemon may take to start, s.
const START: u64 = 90;

/// What an account needs beside its token, and how a person is asked for it.
fn needs(name: &str) -> &'static [(&'static str, &'static str)] {
    match name.split('.').next() {
        Some("matrix") => &[
            ("homeserver", "Homeserver, such as https://matrix.example.org"),
            ("invites_from", "Your own id, such as @you:example.org: you may invite the bot"),
        ],
        Some("mail") => &[
            ("user", "Address of the mailbox, such as agent@example.org"),
            ("imap", "Its IMAP server, such as imap.example.org"),
            ("smtp", "Its SMTP server, such as smtp.example.org"),
            (
                "authserv",
                "Server that checks senders, as the headers Authentication-Results name it (docs/mail.md)",
            ),
        ],
        Some("signal") => &[("account", "Number of the account in signal-cli, such as +4930123456")],
        Some(_) | None => &[],
    }
}

/// Where a person gets the token of an account.
fn where_from(name: &str) -> &'static str {
    match name.split('.').next() {
        Some("telegram") => {
            "In Telegram, write /newbot to @BotFather (https://t.me/BotFather). It asks for a name and a handle, and answers with the token."
        }
        Some("discord") => {
            "At https://discord.com/developers/applications: New Application, then on its page Bot: Reset Token, and switch on Message Content Intent."
        }
        Some("matrix") => {
            "Make a user for the bot on your homeserver. In Element, logged in as the bot: Settings, Help & About, Access Token."
        }
        Some("signal") => {
            "Link or register the account in signal-cli, and start `signal-cli daemon --http --receive-mode on-connection`: docs/signal.md has each step."
        }
        Some("slack") => {
            "At https://api.slack.com/apps: Create New App, From a manifest, and paste the one below. Then Install App, which shows the bot token; and Basic Information, App-Level Tokens, Generate, with the scope connections:write."
        }
        Some("mail") => {
            "Make a mailbox for the agent alone. Gmail, Fastmail and others let programs in by an app password, which their security settings make."
        }
        Some(_) | None => "The platform's own pages say where its tokens are.",
    }
}

/// Asks for a line; `None`: it is empty, or nobody is there.
fn asked(question: &str) -> Result<Option<String>, Failure> {
    if !out::can_ask() {
        return Ok(None);
    }
    out::ask(&format!("{question}: "));
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .map_err(|error| anyhow::Error::new(error).context("reading the answer"))?;
    Ok(Some(line.trim().to_owned()).filter(|line| !line.is_empty()))
}

/// Why a key is not known to be taken.
enum NotTaken {
    Refused(OpError),
    NotTried(OpError),
    Failed(Failure),
}

impl From<NotTaken> for Failure {
    fn from(not: NotTaken) -> Self {
        match not {
            NotTaken::Refused(error) | NotTaken::NotTried(error) => error.into(),
            NotTaken::Failed(failure) => failure,
        }
    }
}

/// Asks the model's host whether it takes a key; returns what it said.
async fn check(context: &Context, credential: &Credential) -> Result<String, NotTaken> {
    let failed = |error: anyhow::Error| NotTaken::Failed(error.into());
    let config = context.config().map_err(failed)?;
    let upstream = Upstream::of(&config).map_err(|error| failed(error.into()))?;
    if out::is_watched() {
        out::ask(&format!(
            "{upstream} is asked whether it takes the key, for at most {} s …\n",
            KEY_CHECK.as_secs()
        ));
    }
    match try_key(&context.world, &upstream, credential, KEY_CHECK).await {
        Ok(Verdict::Taken) => Ok("the model's host takes it".to_owned()),
        // A host of its own may not have what is asked for; the first answer will tell.
        Ok(Verdict::Unclear(status)) => Ok(format!(
            "the model's host does not say whether it takes it (status {status}): the first answer tells"
        )),
        Ok(Verdict::Refused(status)) => {
            let why = format!("{upstream} does not take the key (status {status})");
            let hint = "give another key; --no-check keeps it as it is";
            Err(NotTaken::Refused(OpError::new(OpCode::Failed, why).hint(hint)))
        }
        Err(error) => {
            let hint = "see to the network, or add --no-check";
            Err(NotTaken::NotTried(OpError::new(OpCode::Failed, error.to_string()).hint(hint)))
        }
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

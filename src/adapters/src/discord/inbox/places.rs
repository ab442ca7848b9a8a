//! Which chat something was written in, and what that is called: known, or asked of Discord.

use channel_protocol::{Chat, ChatKind, Light, State};
use hyper::Method;
use serde::de::DeserializeOwned;

use super::Inbox;
use crate::{
    discord::{
        api::ApiError,
        events::{self, Channel, Guild, User, number},
    },
    kit::{Gone, Host, Rest},
};

/// How many channels' names are held.
const MOST_KNOWN: usize = 20_000;

/// Where something was written.
pub(super) struct Place {
    pub(super) chat: String,
    pub(super) thread: String,
    pub(super) about: Chat,
}

impl Inbox {
    pub(super) fn know(&mut self, channel: Channel) {
        let id = number(&channel.id);
        if self.channels.len() >= MOST_KNOWN && !self.channels.contains_key(&id) {
            self.channels.clear();
        }
        self.channels.insert(id, channel);
    }

    /// Finds out which chat a channel is: a thread is a thread of the channel above it.
    pub(super) async fn place(
        &mut self,
        host: &Host,
        channel: &str,
        guild: &str,
        from: Option<&User>,
    ) -> Result<Place, Gone> {
        let known = self.channel(host, channel, guild).await?;
        let (chat, of) = if known.is_thread() && !known.parent_id.is_empty() {
            let above = self.channel(host, &known.parent_id, guild).await?;
            (known.parent_id.clone(), above)
        } else {
            (channel.to_owned(), known.clone())
        };
        let direct = of.is_direct();
        let name = if direct {
            let of = of.recipients.first().or(from);
            of.map(|user| user.is(&events::Member::default()).name).unwrap_or_default()
        } else {
            let server = self.server(host, if guild.is_empty() { &of.guild_id } else { guild }).await?;
            match (&of.name[..], &server[..]) {
                ("", _) => String::new(),
                (name, "") => format!("#{name}"),
                (name, server) => format!("#{name} ({server})"),
            }
        };
        let chat = format!("{}:{chat}", self.prefix);
        let about = Chat {
            chat: chat.clone(),
            name,
            kind: if direct { ChatKind::Direct } else { ChatKind::Group },
            threaded: !direct,
            members: None,
        };
        let thread = if known.is_thread() { channel.to_owned() } else { String::new() };
        Ok(Place { chat, thread, about })
    }

    pub(super) async fn channel(&mut self, host: &Host, id: &str, guild: &str) -> Result<Channel, Gone> {
        if let Some(known) = self.channels.get(&number(id)) {
            return Ok(known.clone());
        }
        let asked = self.insist::<Channel>(host, &format!("/channels/{id}")).await?;
        // Where we may not look, it is a channel of its server; without a server it is a chat with one person.
        let channel = asked.unwrap_or_else(|| Channel {
            id: id.to_owned(),
            r#type: u8::from(guild.is_empty()),
            ..Channel::default()
        });
        self.know(channel.clone());
        Ok(channel)
    }

    pub(super) async fn server(&mut self, host: &Host, id: &str) -> Result<String, Gone> {
        if id.is_empty() {
            return Ok(String::new());
        }
        if let Some(name) = self.guilds.get(&number(id)) {
            return Ok(name.clone());
        }
        let name = self.insist::<Guild>(host, &format!("/guilds/{id}")).await?.unwrap_or_default().name;
        self.guilds.insert(number(id), name.clone());
        Ok(name)
    }

    /// Asks until there is an answer. `None`: it is not for us.
    pub(super) async fn insist<T: DeserializeOwned>(
        &self,
        host: &Host,
        path: &str,
    ) -> Result<Option<T>, Gone> {
        let mut rest = Rest::default();
        let mut waited = false;
        loop {
            let asked = self.api.call(Method::GET, path, None).await;
            if waited && asked.is_ok() {
                self.stand(host).await?;
            }
            let error = match asked {
                Ok(answer) => match serde_json::from_value::<T>(answer) {
                    Ok(read) => return Ok(Some(read)),
                    Err(error) => {
                        eprintln!("Discord's answer can't be read: {error}");
                        return Ok(None);
                    }
                },
                Err(error) if error.is_gone() => return Ok(None),
                Err(error) => error,
            };
            if let ApiError::Refused { status: 400 | 402..=428 | 430..=499, .. } = error {
                eprintln!("{error}");
                return Ok(None);
            }
            let state = State {
                transport: Light::Ok,
                inbound: Light::Waiting,
                outbound: Light::Ok,
                why: error.to_string(),
                hint: String::new(),
            };
            host.state(state).await?;
            waited = true;
            rest.wait(error.asked_ms()).await;
        }
    }
}

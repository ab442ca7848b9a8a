//! Which chat something was written in, and what that is called: known, or asked of Discord.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use channel_protocol::{Chat, ChatKind, Light, State};
use hyper::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Inbox;
use crate::{
    discord::{
        api::ApiError,
        events::{self, Channel, Guild, Message, Role, RoleTold, User, number},
        inbox::list,
    },
    kit::{Gone, Host, Rest, TRIES},
};

/// How many channels' names are held, and how many servers' roles.
const MOST_KNOWN: usize = 20_000;

/// The channels and threads that are known. A thread is known also after it was deleted.
#[derive(Clone, Default)]
pub(in crate::discord) struct Channels(Arc<Mutex<HashMap<u64, Channel>>>);

impl Channels {
    fn know(&self, channel: Channel) {
        let id = number(&channel.id);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KNOWN && !known.contains_key(&id) {
            known.clear();
        }
        known.insert(id, channel);
    }

    pub(in crate::discord) fn get(&self, id: u64) -> Option<Channel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }
}

/// Where something was written.
pub(super) struct Place {
    pub(super) chat: String,
    pub(super) thread: String,
    pub(super) about: Chat,
}

impl Inbox {
    pub(super) fn know(&mut self, channel: Channel) {
        self.channels.know(channel);
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
            hears_all: None,
        };
        let thread = if known.is_thread() { channel.to_owned() } else { String::new() };
        Ok(Place { chat, thread, about })
    }

    pub(super) async fn channel(&mut self, host: &Host, id: &str, guild: &str) -> Result<Channel, Gone> {
        if let Some(known) = self.channels.get(number(id)) {
            return Ok(known);
        }
        let asked = self.insist::<Channel>(host, &format!("/channels/{id}")).await?;
        // Where we may not look, it is a channel of its server; without a server it is a chat with one person.
        let channel = asked.unwrap_or_else(|| Channel {
            id: id.to_owned(),
            r#type: u64::from(guild.is_empty()),
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

    /// Takes in which of a server's roles is ours alone.
    pub(super) fn know_roles(&mut self, guild: u64, roles: &[Role]) {
        if self.roles.len() >= MOST_KNOWN {
            self.roles.clear();
        }
        self.roles.insert(guild, roles.iter().find(|role| role.tags.bot_id == self.me).cloned());
    }

    pub(super) fn role_told(&mut self, told: RoleTold) {
        let guild = number(&told.guild_id);
        let is_known = |id: &str| matches!(self.roles.get(&guild), Some(Some(role)) if role.id == id);
        if told.role.tags.bot_id == self.me {
            self.know_roles(guild, &[told.role]);
        } else if is_known(&told.role_id) {
            self.know_roles(guild, &[]);
        }
    }

    /// Returns the role that is ours alone where a message names roles. A session that goes on does not list them: they are asked
    /// for once.
    pub(super) async fn our_role(&mut self, host: &Host, message: &Message) -> Result<Option<Role>, Gone> {
        if message.mention_roles.is_empty() {
            return Ok(None);
        }
        // Messages of a page name no server; their channel does.
        let guild = match number(&message.guild_id) {
            0 => number(&self.channel(host, &message.channel_id, "").await?.guild_id),
            guild => guild,
        };
        if guild == 0 {
            return Ok(None);
        }
        if !self.roles.contains_key(&guild) {
            let asked = self.insist::<Value>(host, &format!("/guilds/{guild}/roles")).await?;
            self.know_roles(guild, &list::<Role>(asked.unwrap_or_default()));
        }
        Ok(self.roles.get(&guild).cloned().flatten())
    }

    /// Returns what a channel is called, if that is known.
    pub(super) fn name_of(&self, channel: &str) -> String {
        let known = self.channels.get(number(channel)).filter(|channel| !channel.name.is_empty());
        known.map(|channel| format!("#{}", channel.name)).unwrap_or_default()
    }

    /// Asks until there is an answer. `None`: it is not for us, or nobody can read it.
    pub(super) async fn insist<T: DeserializeOwned>(
        &self,
        host: &Host,
        path: &str,
    ) -> Result<Option<T>, Gone> {
        let mut waited = false;
        let found = self.ask(host, path, &mut waited).await?;
        if waited {
            self.stand(host).await?;
        }
        Ok(found)
    }

    /// As before. `waited` becomes true where the host was told that Discord is waited for.
    async fn ask<T: DeserializeOwned>(
        &self,
        host: &Host,
        path: &str,
        waited: &mut bool,
    ) -> Result<Option<T>, Gone> {
        let (mut rest, mut unread) = (Rest::default(), 0);
        loop {
            let error = match self.api.call(Method::GET, path, None).await {
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
            if matches!(error, ApiError::Unreadable(_)) {
                unread += 1;
                if unread >= TRIES {
                    eprintln!("{path} was asked for {TRIES} times and is passed over: {error}");
                    return Ok(None);
                }
            }
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
            self.light(host, state).await?;
            *waited = true;
            rest.wait(error.asked_ms()).await;
        }
    }
}

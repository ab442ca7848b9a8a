#![doc = include_str!("README.md")]

use std::{path::PathBuf, sync::Arc};

use crate::{
    channels::Channels,
    config::Live,
    domain::machine::web::{Door, WebSession},
    loops::control::Desk,
    ops::By,
    system::{media::Media, pictures::Pictures, world::World},
};

mod act;
mod assets;
mod codes;
mod crowd;
mod enter;
mod hooks;
mod layout;
mod live;
mod pages;
mod parted;
mod parts;
mod patience;
mod said;
mod scripts;
mod serve;
mod upload;

pub use serve::run;

/// The parts of the daemon that the page works with.
pub struct Served {
    pub world: World,
    pub desk: Arc<Desk>,
    pub config: Arc<Live>,
    pub media: Arc<Media>,
    pub channels: Arc<Channels>,
    pub pictures: Pictures,
    pub root: PathBuf,
}

/// What every request works with.
struct Web {
    world: World,
    desk: Arc<Desk>,
    config: Arc<Live>,
    media: Arc<Media>,
    channels: Arc<Channels>,
    hooks: hooks::Places,
    pictures: Pictures,
    root: PathBuf,
    door: Door,
    tokens: scripts::Tokens,
    said: said::Said,
    codes: codes::Codes,
    streams: live::Streams,
    uploads: upload::Places,
}

/// Somebody at a browser who was let in, with the token that their forms carry.
#[derive(Clone)]
struct Visitor {
    session: WebSession,
    forms: String,
}

impl Visitor {
    fn by(&self) -> By {
        By::Page { session: self.session.id }
    }
}

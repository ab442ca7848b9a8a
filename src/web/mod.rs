#![doc = include_str!("README.md")]

use std::{path::PathBuf, sync::Arc};

use crate::{
    config::Live,
    domain::machine::web::{Door, WebSession},
    loops::control::Desk,
    ops::By,
    system::{media::Media, world::World},
};

mod act;
mod assets;
mod crowd;
mod enter;
mod layout;
mod live;
mod pages;
mod parts;
mod patience;
mod said;
mod scripts;
mod serve;

pub use serve::run;

/// What every request works with.
struct Web {
    world: World,
    desk: Arc<Desk>,
    config: Arc<Live>,
    media: Arc<Media>,
    root: PathBuf,
    door: Door,
    tokens: scripts::Tokens,
    said: said::Said,
    streams: live::Streams,
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

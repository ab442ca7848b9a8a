#![doc = include_str!("README.md")]

use std::{path::PathBuf, sync::Arc};

use crate::{
    config::Live,
    domain::host::web::{Door, WebSession},
    loops::control::Desk,
    ops::By,
    system::media::Media,
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
    desk: Arc<Desk>,
    config: Arc<Live>,
    media: Arc<Media>,
    root: PathBuf,
    door: Door,
    /// The token for scripts, as its digest.
    token: Vec<u8>,
    said: said::Said,
    streams: live::Streams,
}

/// Who asks.
#[derive(Clone)]
enum Visitor {
    /// Somebody at a browser, with the token that their forms carry.
    Person {
        session: WebSession,
        forms: String,
    },
    Script,
}

impl Visitor {
    fn by(&self) -> By {
        By::Page { session: self.session() }
    }

    fn session(&self) -> Option<i64> {
        match self {
            Self::Person { session, .. } => Some(session.id),
            Self::Script => None,
        }
    }
}

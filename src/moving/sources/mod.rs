//! The programs whose installations move in.

mod classic;
mod nanoclaw_v2;
mod parts;
mod settings;

use std::path::{Path, PathBuf};

use ipc_handlers::{Time, words};
use schemars::JsonSchema;

use super::{
    foreign::NotReadable,
    installation::{Installation, Unread},
    source::Source,
};
use crate::domain::time::zone::Zones;

words! {
    /// A program whose installations move in.
    #[derive(JsonSchema)]
    pub enum Program: "program" {
        /// NanoClaw, the first version.
        Nanoclaw = "nanoclaw",
        /// G2, the program in TypeScript.
        G2 = "g2",
        /// NanoClaw, the second version.
        NanoclawV2 = "nanoclaw-v2",
    }
}

impl Program {
    /// Returns how people call it.
    #[must_use]
    pub fn called(self) -> &'static str {
        match self {
            Self::Nanoclaw => "NanoClaw v1",
            Self::G2 => "G2 in TypeScript",
            Self::NanoclawV2 => "NanoClaw v2",
        }
    }

    /// Returns where its store is.
    fn store(self) -> &'static str {
        match self {
            Self::Nanoclaw | Self::G2 => "store/messages.db",
            Self::NanoclawV2 => "data/v2.db",
        }
    }

    /// Returns the folder of its lists in its user's home.
    fn lists(self) -> &'static str {
        match self {
            Self::Nanoclaw | Self::NanoclawV2 => ".config/nanoclaw",
            Self::G2 => ".config/g2",
        }
    }

    /// Returns the name of an agent that was given none.
    fn assistant(self) -> &'static str {
        match self {
            Self::Nanoclaw | Self::NanoclawV2 => "Andy",
            Self::G2 => "G2",
        }
    }
}

/// What a source is told besides its place.
#[derive(Clone, Debug)]
pub struct Around {
    /// The home of the user whose installation it is: two lists are there.
    pub home: Option<PathBuf>,
    /// The zones: times without an offset are of everybody's, unless the installation names another one.
    pub zones: Zones,
    pub now: Time,
}

/// Why an installation can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    #[error("{} can't be opened: {error}", path.display())]
    Folder { path: PathBuf, error: std::io::Error },
    #[error("{} holds no installation of {}: {store} is not there{hint}", path.display(), program.called())]
    None { path: PathBuf, program: Program, store: &'static str, hint: String },
    #[error("{} of {} can't be read: {why}", store, path.display())]
    Store { path: PathBuf, store: String, why: NotReadable },
    #[error("the rows can't be sorted: {0:#}")]
    Order(anyhow::Error),
}

/// Opens an installation. It is only read, and may be in use meanwhile.
///
/// # Errors
/// [`NotOpened`].
pub fn open(program: Program, path: &Path, around: Around) -> Result<Box<dyn Source>, NotOpened> {
    let installation =
        Installation::open(path).map_err(|error| NotOpened::Folder { path: path.to_owned(), error })?;
    if matches!(installation.file(program.store()), Err(Unread::Missing)) {
        let other = Program::CHOICES
            .iter()
            .map(|(_, other)| *other)
            .find(|other| other.store() != program.store() && installation.file(other.store()).is_ok());
        let hint = other.map_or_else(String::new, |other| {
            format!("; there is one of {}: `g2 import {other}`", other.called())
        });
        return Err(NotOpened::None { path: path.to_owned(), program, store: program.store(), hint });
    }
    match program {
        Program::Nanoclaw | Program::G2 => {
            Ok(Box::new(classic::Classic::open(program, installation, around)?))
        }
        Program::NanoclawV2 => Ok(Box::new(nanoclaw_v2::NanoclawV2::open(installation, around)?)),
    }
}

//! The programs whose installations move in.

mod classic;
mod export;
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
use crate::{config::Config, domain::time::zone::Zones};

words! {
    /// What is moved in from.
    #[derive(JsonSchema)]
    pub enum SourceKind: "source" {
        /// NanoClaw, the first version.
        Nanoclaw = "nanoclaw",
        /// G2, the program in TypeScript.
        G2 = "g2",
        /// NanoClaw, the second version.
        NanoclawV2 = "nanoclaw-v2",
        /// A folder that `g2 export` wrote.
        Export = "export",
    }
}

/// Another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Nanoclaw,
    G2,
    NanoclawV2,
}

impl Program {
    const ALL: [Self; 3] = [Self::Nanoclaw, Self::G2, Self::NanoclawV2];

    fn kind(self) -> SourceKind {
        match self {
            Self::Nanoclaw => SourceKind::Nanoclaw,
            Self::G2 => SourceKind::G2,
            Self::NanoclawV2 => SourceKind::NanoclawV2,
        }
    }

    /// Returns how people call it.
    fn called(self) -> &'static str {
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
    /// Where copies of its stores are made, and rows are sorted.
    pub scratch: PathBuf,
}

impl Around {
    /// What a root's settings say.
    #[must_use]
    pub fn of(root: &Path, config: &Config, now: Time) -> Self {
        let scratch = root.join("data/tmp");
        Self { home: config.home.clone(), zones: config.zones.clone(), now, scratch }
    }
}

/// Why an installation can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    #[error("{} can't be opened: {error}", path.display())]
    Folder { path: PathBuf, error: std::io::Error },
    #[error("{} holds no installation of {}: {store} is not there{hint}", path.display(), program)]
    None { path: PathBuf, program: &'static str, store: &'static str, hint: String },
    #[error("{} of {} can't be read: {why}", store, path.display())]
    Store { path: PathBuf, store: String, why: NotReadable },
    #[error("{} can't be read: {why}; put the file itself there, or without it everybody would be heard", path.display())]
    List { path: PathBuf, why: Unread },
    #[error("the rows can't be sorted: {0:#}")]
    Order(anyhow::Error),
}

/// Opens an installation. It is only read, and may be in use meanwhile.
///
/// # Errors
/// There is none at `path`, or none that can be read: [`NotOpened`], or what an export says.
pub fn open(kind: SourceKind, path: &Path, around: Around) -> anyhow::Result<Box<dyn Source>> {
    Ok(match kind {
        SourceKind::Nanoclaw => other(Program::Nanoclaw, path, around)?,
        SourceKind::G2 => other(Program::G2, path, around)?,
        SourceKind::NanoclawV2 => other(Program::NanoclawV2, path, around)?,
        SourceKind::Export => {
            // Links are followed up to here, and none below. Of a folder that is not there the export itself says so.
            let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            Box::new(export::Export::open(&path)?)
        }
    })
}

/// Opens an installation of another program.
fn other(program: Program, path: &Path, around: Around) -> Result<Box<dyn Source>, NotOpened> {
    let installation = Installation::open(path, &around.scratch)
        .map_err(|error| NotOpened::Folder { path: path.to_owned(), error })?;
    if matches!(installation.file(program.store()), Err(Unread::Missing)) {
        let is_there =
            |other: &Program| other.store() != program.store() && installation.file(other.store()).is_ok();
        let hint = Program::ALL.into_iter().find(is_there).map_or_else(String::new, |other| {
            format!("; there is one of {}: `g2 import {}`", other.called(), other.kind())
        });
        let (path, program, store) = (path.to_owned(), program.called(), program.store());
        return Err(NotOpened::None { path, program, store, hint });
    }
    Ok(match program {
        Program::Nanoclaw | Program::G2 => Box::new(classic::Classic::open(program, installation, around)?),
        Program::NanoclawV2 => Box::new(nanoclaw_v2::NanoclawV2::open(installation, around)?),
    })
}

//! The kinds of installations that are moved in from, and the door to each.

use std::path::Path;

use ipc_handlers::words;
use schemars::JsonSchema;

use super::{
    Source,
    exported::Export,
    sources::{self, Around, Program},
};

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

/// Opens an installation to read it; nothing is written there.
///
/// # Errors
/// There is none at `path`, or none that can be read.
pub fn open(kind: SourceKind, path: &Path, around: Around) -> anyhow::Result<Box<dyn Source>> {
    let program = match kind {
        SourceKind::Export => return Ok(Box::new(Export::open(path)?)),
        SourceKind::Nanoclaw => Program::Nanoclaw,
        SourceKind::G2 => Program::G2,
        SourceKind::NanoclawV2 => Program::NanoclawV2,
    };
    Ok(sources::open(program, path, around)?)
}

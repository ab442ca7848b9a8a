//! The installations that are moved in from, one file each.

use std::path::Path;

use ipc_handlers::words;
use schemars::JsonSchema;

use super::Source;

mod export;

words! {
    /// What is moved in from.
    #[derive(JsonSchema)]
    pub enum SourceKind: "source" {
        /// A folder that `g2 export` wrote.
        Export = "export",
    }
}

/// Opens an installation to read it; nothing is written there.
///
/// # Errors
/// There is none at `path`, or none that can be read.
pub fn open(kind: SourceKind, path: &Path) -> anyhow::Result<Box<dyn Source>> {
    match kind {
        SourceKind::Export => Ok(Box::new(export::Export::open(path)?)),
    }
}

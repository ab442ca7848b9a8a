//! `g2 ops`: the operations that programs may ask for on the daemon's socket.

use clap::Subcommand;

use super::{CliResult, out};
use crate::ops;

#[derive(Debug, Subcommand)]
pub(super) enum Ops {
    /// Print the JSON Schema of every operation: its arguments, its result and its errors
    #[command(after_help = "Examples:\n  g2 ops schema > schema.json")]
    Schema,
}

impl Ops {
    pub(super) fn run(&self) -> CliResult {
        let Self::Schema = self;
        out::json(serde_json::to_string_pretty(&ops::schema()).unwrap_or_default())
    }
}

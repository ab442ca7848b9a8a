//! Writing to the agent of a run: a message in its lane, which the run takes while it lives. It wakes this agent alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Done, OpError, Operation, Site, missing};
use crate::{
    domain::{heard::people::check_speaker, kept::prune::History, rows::Inbound},
    ops::OpCode,
    store::StoreError,
};

/// Write to the agent of a run: a message in its lane that wakes this agent alone.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Number of the run, as `g2 ps` shows it.
    pub id: i64,
    /// Text of the message.
    pub text: String,
    /// Name of the person who writes [default: me].
    #[arg(long = "as", value_name = "NAME")]
    pub sender: Option<String>,
}

/// The message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SaidToRun {
    /// Its number, for `g2 why`.
    pub seq: i64,
    pub run: i64,
}

/// The longest message, bytes.
const LONGEST_TEXT: usize = 4 << 20;
/// Who writes at this machine, where nothing else is said.
const ME: &str = "me";

impl Operation for Args {
    type Row = SaidToRun;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<SaidToRun>, OpError> {
        let Self { id, text, sender } = self;
        let sender = sender.unwrap_or_else(|| ME.to_owned());
        check_speaker(&sender).map_err(|why| OpError::invalid(format!("the sender {why}")))?;
        if text.trim().is_empty() {
            return Err(OpError::invalid("there is nothing in this message"));
        }
        if text.len() > LONGEST_TEXT {
            let long = format!("the message has {} bytes; at most {LONGEST_TEXT} are taken", text.len());
            return Err(OpError::invalid(long));
        }
        let key = site
            .world
            .id()
            .map_err(|error| OpError::new(OpCode::Failed, format!("making a key failed: {error}")))?;
        let message = Inbound {
            id: key.clone(),
            replay_key: key,
            sender: format!("local:{sender}"),
            sender_name: sender,
            text,
            mentioned: true,
            ..Inbound::default()
        };
        let said =
            site.store.say_to_run(id, message, by.short(), site.world.now()).await.map_err(|error| {
                match error {
                    StoreError::NotFound { .. } => missing(site.store, History::Runs, id),
                    other => other.into(),
                }
            })?;
        site.keeper.waits(&said.group, said.lane);
        Ok(Done::new(SaidToRun { seq: said.seq, run: id }, format!("message {} is for run {id}", said.seq)))
    }
}

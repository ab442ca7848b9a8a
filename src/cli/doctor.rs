//! `g2 doctor`.

use clap::Args;

use super::{Context, Outcome};

#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Check this image instead of the setting's
    #[arg(long)]
    image: Option<String>,
}

impl Doctor {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let _ = (context, self.image);
        Ok(())
    }
}

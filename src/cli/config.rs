//! `g2 config`: the settings, and where each comes from.
#![expect(clippy::disallowed_methods, reason = "reads the user's own g2.toml")]

use anyhow::Context as _;
use clap::Subcommand;

use super::{CliResult, Context, Failure, client::change, out, service, show};
use crate::{
    app,
    config::{Config, Source, dotenv, settings},
    domain::shown::errors::chain,
    ops::{
        OpCode, OpError,
        config::{set, unset},
    },
};

const SHOWN: &str = "\
Columns:
  source  where the value comes from: default, g2.toml, .env, environment
  takes   when a change holds: at once (now), for runs that begin from now on (next_run), or from
          the next start of the daemon on (restart)

A group may have settings of its own: `g2 groups show FOLDER`. Keys and tokens are not shown.

Examples:
  g2 config show
  g2 config show --effective
  g2 config show limits.keep_days";

const SET: &str = "\
Comments and order of g2.toml stay. The value is checked as at a start; one that can't be used
changes nothing. A running daemon takes it up before this returns; if that needs a restart, this
says so.

Examples:
  g2 config set limits.keep_days 90
  g2 config set backup.to /srv/backups
  g2 config set egress.allow '[\"*.github.com\"]'";

#[derive(Debug, Subcommand)]
pub(super) enum Settings {
    /// Show the settings that are not at their defaults, or one
    #[command(after_help = SHOWN)]
    Show {
        /// Setting, or beginning of its name, such as limits
        #[arg(value_name = "KEY")]
        name: Option<String>,
        /// Show those at their defaults too
        #[arg(long)]
        effective: bool,
    },
    #[command(after_help = SET)]
    Set(set::Args),
    #[command(after_help = "Examples:\n  g2 config unset limits.keep_days")]
    Unset(unset::Args),
    /// Check g2.toml and the environment, as at a start
    #[command(after_help = "Examples:\n  g2 config check")]
    Check,
}

impl Settings {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::Show { name, effective } => list(context, name.as_deref(), effective),
            Self::Set(args) => {
                change(context, args).await?;
                tell_of_unit(context);
                Ok(())
            }
            Self::Unset(args) => {
                change(context, args).await?;
                tell_of_unit(context);
                Ok(())
            }
            Self::Check => check(context),
        }
    }
}

/// Tells that the unit of the service does not let the daemon write where the settings want it to.
fn tell_of_unit(context: &Context) {
    if service::is_stale(context) {
        out::tell(
            "the service may not write yet where the settings say (backup.to, `writes` of accounts): `g2 service install --yes` renews its unit",
        );
    }
}

fn list(context: &Context, name: Option<&str>, effective: bool) -> CliResult {
    app::check_root(&context.root)?;
    let text = std::fs::read_to_string(context.root.join("g2.toml")).unwrap_or_default();
    let mut all =
        settings(&context.root, &text, &context.environment).context("g2.toml can't be understood")?;
    match name {
        Some(name) => {
            let below = format!("{name}.");
            all.retain(|one| one.name == name || one.name.starts_with(&below));
            if all.is_empty() {
                return Err(OpError::new(OpCode::Failed, format!("there is no setting {name}"))
                    .hint("`g2 config show --effective` lists every setting")
                    .into());
            }
        }
        None => all.retain(|one| effective || one.source != Source::Default),
    }
    show::rows(context, &all, &["name", "value", "source", "takes"])
}

fn check(context: &Context) -> CliResult {
    app::check_root(&context.root)?;
    let config = Config::load(&context.root, &context.environment)
        .map_err(|error| Failure::Failed(anyhow::anyhow!("{}", chain(&error))))?;
    dotenv::replaced(&dotenv::text(&context.root), &context.environment).iter().for_each(out::tell);
    match config.unusable.as_slice() {
        [] => show::done(context, "the settings can be used"),
        unusable => {
            unusable.iter().for_each(out::tell);
            Err(Failure::Failed(anyhow::anyhow!(
                "the settings can be used but for {} in the environment and .env",
                unusable.len()
            )))
        }
    }
}

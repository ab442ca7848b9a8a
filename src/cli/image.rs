//! `g2 image`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};

use super::{CliResult, Context, Failure, out};
use crate::{
    domain::machine::image::ImageKind,
    ops::{OpCode, OpError},
    sandbox::image::{self, BuildError},
    system::process::own_ids,
};

const BUILT: &str = "\
Without an option the image has Node, Chromium, git and Claude Code, and is built from a registry
of images: over 1 GB, some minutes. With --offline it is a small Debian with git and Claude Code,
420 MB; this needs root, debootstrap, npm and a mirror of Debian: the one of this machine's apt, or
the address in G2_DEBIAN_MIRROR. With --bare it holds the built-in scripted agent
alone: 4 MB, and more where `g2` itself is the runner, as no static `g2-agent` lies beside it.

With --daemon it holds the daemon: this program, the adapters beside it, no shell.

Unchanged parts are taken from the last time. It needs no root, no checkout and no Rust. Agents
use the new image from their next run.

Examples:
  g2 image build
  g2 image build --offline
  g2 image build --bare g2-agent:bare
  g2 image build --daemon";

#[derive(Debug, Subcommand)]
pub(super) enum Image {
    /// Build the image that agents run in
    #[command(after_help = BUILT)]
    Build(Build),
}

#[derive(Debug, Args)]
pub(super) struct Build {
    /// Make it without a registry of images
    #[arg(long, conflicts_with = "bare")]
    offline: bool,
    /// Put the built-in scripted agent into it, and nothing else
    #[arg(long)]
    bare: bool,
    /// Build the image of the daemon itself instead
    #[arg(long, conflicts_with_all = ["offline", "bare"])]
    daemon: bool,
    /// Name of the image [default: sandbox.image of the settings, g2-agent:latest without any; with --daemon g2:latest]
    #[arg(value_name = "IMAGE", value_parser = name)]
    image: Option<String>,
}

/// The longest name of an image.
const LONGEST: usize = 255;

/// Reads the name of an image; the engine checks the rest.
fn name(text: &str) -> Result<String, &'static str> {
    match text {
        "" => Err("an image has a name"),
        _ if text.starts_with('-') => Err("a name does not begin with a dash"),
        _ if text.len() > LONGEST => Err("a name has at most 255 characters"),
        _ if text.chars().any(|c| c.is_whitespace() || c.is_control()) => Err("a name is one word"),
        _ => Ok(text.to_owned()),
    }
}

impl Image {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let Self::Build(Build { offline, bare, daemon, image }) = self;
        if daemon {
            return build_daemon(context, image.as_deref().unwrap_or("g2:latest")).await;
        }
        let kind = match (offline, bare) {
            (true, _) => ImageKind::Offline,
            (false, true) => ImageKind::Bare,
            (false, false) => ImageKind::Full,
        };
        let image = match image {
            Some(image) => image,
            None => context.config()?.sandbox.image,
        };
        build(context, kind, &image).await?;
        if context.json {
            return out::json(serde_json::json!({
                "image": image, "runner": agent_runner::ID, "claude": kind.has_claude(),
            }));
        }
        out::line(format_args!("built {image}; agents use it from their next run"))
    }
}

/// Builds the image of the daemon.
async fn build_daemon(context: &Context, image: &str) -> CliResult {
    check(context, ImageKind::Bare)?;
    let (program, name) = (own_program()?, image.to_owned());
    let built = context.world.blocking(move || image::build_daemon(&name, &program)).await;
    built.context("the build broke off")?.map_err(anyhow::Error::from)?;
    if context.json {
        return out::json(serde_json::json!({ "image": image, "daemon": true }));
    }
    out::line(format_args!("built {image}; docs/setup.md says how it is run"))
}

/// Checks that what building needs is there.
fn check(context: &Context, kind: ImageKind) -> Result<(), OpError> {
    let path = context.environment.get("PATH").unwrap_or_default();
    match kind.missing(own_ids().0 == 0, |program| image::has_program(path, program)) {
        None => Ok(()),
        Some((why, hint)) => Err(OpError::new(OpCode::Failed, why).hint(hint)),
    }
}

/// Builds an image, and says on stderr how it goes.
pub(super) async fn build(context: &Context, kind: ImageKind, image: &str) -> CliResult {
    check(context, kind)?;
    let (program, image) = (own_program()?, image.to_owned());
    let built = context.world.blocking(move || {
        let runner = image::runner(&program);
        image::build(kind, &image, &runner)
    });
    match built.await.context("the build broke off")? {
        Ok(()) => Ok(()),
        Err(error @ BuildError::Failed { .. }) => {
            let hint = match kind {
                ImageKind::Full => "without a registry of images: `g2 image build --offline`",
                ImageKind::Offline | ImageKind::Bare => "`g2 doctor` tells whether Docker answers",
            };
            Err(OpError::new(OpCode::Failed, error.to_string()).hint(hint).into())
        }
        Err(error) => Err(Failure::Failed(error.into())),
    }
}

/// Returns where this program lies.
pub(super) fn own_program() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("finding our own program")?;
    // The kernel's word for a program that was replaced after it was started: the new one lies there.
    Ok(match program.to_str().and_then(|path| path.strip_suffix(" (deleted)")) {
        Some(path) => PathBuf::from(path),
        None => program,
    })
}

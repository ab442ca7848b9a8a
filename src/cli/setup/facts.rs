//! The world as it stands, for the steps of the set-up.

use std::time::Duration;

use tokio::time::timeout;

use super::super::{Context, Failure, client::Client, service};
use crate::{
    config::{Config, SandboxKind},
    domain::{
        machine::setup::{Engine, Facts, ImageThere},
        platforms::accounts::Account,
        problems::{Finding, Severity, checks::Check},
    },
    gateway::{CredentialKind, Credentials},
    loops::problems::look_at_image,
    root::{Standing, standing},
    sandbox::SandboxError,
};

/// How long the engine may take over one answer.
const ANSWER: Duration = Duration::from_secs(10);
/// The protocol of our own runner.
const OURS: u32 = ipc_handlers::wire::PROTOCOL;

/// Looks at everything that a step depends on.
pub(super) async fn gather(context: &Context) -> Result<Facts, Failure> {
    let config = context.config()?;
    let (engine, image_there) = engine(&config).await;
    let status = Client::status(&context.root).await.ok();
    let is_zone_set = context.environment.get("TZ").is_some()
        || ["timezone", "TZ in .env"].into_iter().any(|name| config.written.says(name));
    let owned = match standing(&context.root) {
        Standing::Root => context.store()?.owned_channels().await?,
        Standing::Nothing | Standing::Restoring | Standing::WithoutStore { .. } | Standing::LogOfAnother => {
            Vec::new()
        }
    };
    Ok(Facts {
        owned,
        root: context.root.display().to_string(),
        is_root_there: standing(&context.root) == Standing::Root,
        engine,
        image: config.sandbox.image.clone(),
        image_there,
        provider: config.agent.provider,
        key: key(context, &config),
        zone: config.zone.name.clone(),
        is_zone_set: is_zone_set && config.zone.rejected.is_empty(),
        accounts: config.channels.iter().map(|account: &Account| account.name.clone()).collect(),
        service: service::stand(context),
        is_up: status.is_some(),
        needs_restart: status.is_some_and(|status| status.findings.iter().any(is_restart)),
    })
}

/// Whether it is the problem `Restart`, or `Unsandboxed`: how agents are run is chosen at a start.
fn is_restart(finding: &Finding) -> bool {
    let is_settings = finding.code == Check::Settings && finding.severity == Severity::Warn;
    (is_settings || finding.code == Check::Sandbox) && finding.about.is_empty()
}

async fn engine(config: &Config) -> (Engine, ImageThere) {
    if config.sandbox.kind == SandboxKind::Process {
        return (Engine::NotWanted, ImageThere::No);
    }
    match timeout(ANSWER, look_at_image(config, &config.sandbox.image)).await {
        Ok(Ok(is)) => {
            // A runner of the user's own has no id, and needs none.
            let ours = is.protocol >= OURS && is.runner.as_deref().is_none_or(|id| id == agent_runner::ID);
            (Engine::Answers, ImageThere::Yes { claude: is.claude.is_some(), ours })
        }
        Ok(Err(SandboxError::NoImage { .. })) => (Engine::Answers, ImageThere::No),
        Ok(Err(error)) => (Engine::Away(error.to_string()), ImageThere::No),
        Err(_) => {
            (Engine::Away(format!("Docker gave no answer within {} s", ANSWER.as_secs())), ImageThere::No)
        }
    }
}

fn key(context: &Context, config: &Config) -> Option<&'static str> {
    let credentials = Credentials::new(context.root.join(".env"), config.gateway.token_file.clone());
    let credential = credentials.current(context.world.now()).ok()?;
    Some(match credential.kind {
        CredentialKind::ApiKey => "an API key",
        CredentialKind::Login => "the token of a login",
        CredentialKind::Bearer => "a bearer token",
    })
}

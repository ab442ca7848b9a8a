//! The containers' way to the model: its host's address, and the key. Nothing is asked of that host.

use super::{
    Subject,
    row::{Row, chain},
};
use crate::{
    domain::runs::run_settings::Network,
    gateway::{CredentialError, CredentialKind, Credentials, Upstream},
    loops::problems::remedy,
};

pub(super) fn check(subject: &Subject) -> Vec<Row> {
    let config = &subject.config;
    let credentials = Credentials::new(subject.root.join(".env"), config.gateway.token_file.clone());
    let reaching = subject.groups.iter().filter(|group| {
        let settings = config.run_settings().for_group(group);
        settings.is_ok_and(|(settings, _)| {
            !settings.looks_into_requests() || settings.network == Network::Allowlist
        })
    });
    let reaching: Vec<&str> = reaching.map(|group| group.folder.as_str()).collect();
    // One that can't be used is a problem of the list.
    let upstream = Upstream::parse(&config.gateway.upstream).ok();
    let mut rows: Vec<Row> =
        upstream.map(|to| Row::ok("gateway", format!("requests of agents go to {to}"))).into_iter().collect();
    // Where an agent needs one that is not there, that is a problem of the list.
    if !subject.has_problem("model_key") {
        rows.push(judge_key(credentials.current().map(|credential| credential.kind)));
    }
    rows.push(egress(&reaching));
    rows
}

/// Tells whose agents have a way out, be it by way of the model's host.
fn egress(reaching: &[&str]) -> Row {
    let detail = match reaching {
        [] => "agents reach nothing but their model, and the model fetches nothing for them; Claude Code's WebSearch needs \
               `egress=model_fetch` of its group"
            .to_owned(),
        some => format!(
            "agents of {} have a way out: a network, allowed hosts (`g2 egress list`), or a model that may fetch pages for them",
            some.join(", ")
        ),
    };
    Row::ok("egress", detail)
}

/// Decides on a key that is there, or that nothing needs.
fn judge_key(key: Result<CredentialKind, CredentialError>) -> Row {
    match key {
        Ok(kind) => {
            let kind = match kind {
                CredentialKind::ApiKey => "an API key",
                CredentialKind::Login => "the token of a login (a bearer token)",
                CredentialKind::Bearer => "a bearer token",
            };
            Row::ok("model_key", format!("there is {kind}; agents get a placeholder instead"))
        }
        Err(error @ CredentialError::None(_)) => {
            Row::ok("model_key", format!("{}; no agent needs one", chain(&error)))
        }
        Err(error) => Row::warn("model_key", chain(&error), remedy(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::row::Status;

    #[test]
    fn a_key_that_nothing_needs_is_not_missed_and_one_that_has_ended_is_told() {
        assert_eq!(judge_key(Err(CredentialError::None("/r/.env".into()))).status, Status::Ok);
        assert_eq!(judge_key(Ok(CredentialKind::Login)).status, Status::Ok);
        let ended = CredentialError::Ended { path: "/r/t".into(), at: ipc_handlers::Time(0) };
        assert_eq!(judge_key(Err(ended)).status, Status::Warn);
    }
}

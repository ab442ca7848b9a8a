//! The containers' way to the model: its host's address, and the key. Nothing is asked of that host without `--online`.

use std::time::Duration;

use ipc_handlers::Time;

use super::{
    Context, Subject,
    row::{Row, chain},
};
use crate::{
    domain::{problems::checks::Check, runs::run_settings::Network},
    gateway::{CredentialError, CredentialKind, Credentials, TrialError, Upstream, Verdict, try_key},
    loops::problems::remedy,
};

/// How long the model's host may take over a key.
const KEY_CHECK: Duration = Duration::from_secs(20);

pub(super) fn check(subject: &Subject, now: Time) -> Vec<Row> {
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
    let upstream = Upstream::of(config).ok();
    let mut rows: Vec<Row> = upstream
        .map(|to| Row::ok(Check::Gateway, format!("requests of agents go to {to}")))
        .into_iter()
        .collect();
    rows.push(judge_key(credentials.current(now).map(|credential| credential.kind)));
    rows.push(egress(&reaching));
    rows
}

/// Tries the key with one request, which uses no tokens.
pub(super) async fn online(context: &Context) -> Row {
    let Ok(config) = context.config() else {
        return Row::fail(Check::Key, "it was not tried, as the settings can't be read", "mend them first");
    };
    let upstream = match Upstream::of(&config) {
        Ok(upstream) => upstream,
        Err(error) => return Row::fail(Check::Key, chain(&error), "`g2 config set gateway.upstream URL`"),
    };
    let credentials = Credentials::new(context.root.join(".env"), config.gateway.token_file.clone());
    match credentials.current(context.world.now()) {
        Ok(credential) => {
            judge_trial(&upstream, try_key(&context.world, &upstream, &credential, KEY_CHECK).await)
        }
        Err(error) => Row::fail(Check::Key, chain(&error), remedy(&error)),
    }
}

/// Decides on what the model's host said to the key.
fn judge_trial(upstream: &Upstream, verdict: Result<Verdict, TrialError>) -> Row {
    match verdict {
        Ok(Verdict::Taken) => Row::ok(Check::Key, format!("{upstream} takes the key")),
        Ok(Verdict::Refused(status)) => Row::fail(
            Check::Key,
            format!("{upstream} does not take the key (status {status})"),
            "put another one into .env, or `g2 setup --key-file FILE`",
        ),
        Ok(Verdict::Unclear(status)) => Row::warn(
            Check::Key,
            format!("{upstream} answers with status {status}, which says nothing of the key"),
            "send a message: the first answer tells",
        ),
        Err(error) => Row::fail(Check::Key, chain(&error), "see to the network, or to `gateway.upstream`"),
    }
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
    Row::ok(Check::Egress, detail)
}

/// Decides on a key that is there, or that nothing needs; otherwise it is a problem of the list.
fn judge_key(key: Result<CredentialKind, CredentialError>) -> Row {
    match key {
        Ok(kind) => {
            let kind = match kind {
                CredentialKind::ApiKey => "an API key",
                CredentialKind::Login => "the token of a login (a bearer token)",
                CredentialKind::Bearer => "a bearer token",
            };
            Row::ok(Check::ModelKey, format!("there is {kind}; agents get a placeholder instead"))
        }
        Err(error @ CredentialError::None(_)) => {
            Row::ok(Check::ModelKey, format!("{}; no agent needs one", chain(&error)))
        }
        Err(error) => Row::warn(Check::ModelKey, chain(&error), remedy(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_nothing_needs_is_not_missed_and_one_that_has_ended_is_told() {
        assert_eq!(judge_key(Err(CredentialError::None("/r/.env".into()))).told().status, "ok");
        assert_eq!(judge_key(Ok(CredentialKind::Login)).told().status, "ok");
        let ended = CredentialError::Ended { path: "/r/t".into(), at: ipc_handlers::Time(0) };
        assert_eq!(judge_key(Err(ended)).told().status, "warn");
    }

    #[test]
    fn what_the_host_says_to_the_key_decides() {
        let upstream = Upstream::parse("https://api.example").unwrap();
        for (verdict, status) in
            [(Verdict::Taken, "ok"), (Verdict::Refused(401), "fail"), (Verdict::Unclear(404), "warn")]
        {
            let row = judge_trial(&upstream, Ok(verdict));
            assert_eq!(
                (row.told().status, row.told().see.is_some()),
                (status, status != "ok"),
                "{verdict:?}"
            );
        }
        let silent = TrialError::Silent { host: "api.example".into(), within: KEY_CHECK };
        assert_eq!(judge_trial(&upstream, Err(silent)).told().status, "fail");
    }
}

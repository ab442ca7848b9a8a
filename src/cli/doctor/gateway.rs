//! The containers' way to the model: its host's address, and the key. Nothing is asked of that host.

use super::{
    Subject,
    row::{Row, chain},
};
use crate::{
    domain::run_settings::{Credentials as Where, Provider},
    gateway::{CredentialError, Credentials, Kind, Upstream, UpstreamError},
};

pub(super) fn check(subject: &Subject) -> Vec<Row> {
    let config = &subject.config;
    let is_needed = subject.groups.iter().any(|group| {
        config.run_settings().for_group(group).is_ok_and(|(settings, _)| {
            settings.provider == Provider::Claude && settings.credentials == Where::Gateway
        })
    });
    let credentials = Credentials::new(subject.root.join(".env"), config.token_file.clone());
    let key = credentials.current().map(|credential| credential.kind);
    let reaching = subject.groups.iter().filter(|group| {
        let settings = config.run_settings().for_group(group);
        settings.is_ok_and(|(settings, _)| !settings.looks_into_requests())
    });
    let reaching: Vec<&str> = reaching.map(|group| group.folder.as_str()).collect();
    vec![
        judge_upstream(&config.upstream, Upstream::parse(&config.upstream)),
        judge_key(key, is_needed),
        egress(&reaching),
    ]
}

/// Tells whose agents have a way out, be it by way of the model's host.
fn egress(reaching: &[&str]) -> Row {
    let detail = match reaching {
        [] => "no agent reaches anything but its model, nor has that fetch anything; `egress=model_fetch` of a group allows the \
               latter, as Claude Code's WebSearch needs it"
            .to_owned(),
        some => format!(
            "agents of {} have a way out: a network, or a model that may fetch for them",
            some.join(", ")
        ),
    };
    Row::ok("egress", detail)
}

fn judge_upstream(text: &str, parsed: Result<Upstream, UpstreamError>) -> Row {
    match parsed {
        Ok(upstream) => Row::ok("gateway", format!("requests of agents go to {upstream}")),
        Err(error) => Row::fail(
            "gateway",
            format!("{text:?} can't be the address of the model's host: {error}"),
            "set gateway.upstream in g2.toml, or ANTHROPIC_BASE_URL, to one such as https://api.anthropic.com",
        ),
    }
}

fn judge_key(key: Result<Kind, CredentialError>, is_needed: bool) -> Row {
    let (detail, fix) = match key {
        Ok(kind) => {
            let kind = match kind {
                Kind::ApiKey => "an API key",
                Kind::Login => "the token of a login (a bearer's)",
                Kind::Bearer => "a bearer's token",
            };
            return Row::ok("model_key", format!("{kind} is there; agents get a placeholder in its place"));
        }
        Err(error @ CredentialError::None(_)) if !is_needed => {
            return Row::ok("model_key", format!("{}; nothing needs one", chain(&error)));
        }
        Err(error @ CredentialError::None(_)) => {
            (chain(&error), "put the key there; it is taken at once, and `chmod 600` the file")
        }
        Err(error @ CredentialError::Ended { .. }) => (chain(&error), "log in anew, or use an API key"),
        Err(error @ (CredentialError::Read { .. } | CredentialError::Unusable { .. })) => {
            (chain(&error), "mend the file, or what gateway.token_file names")
        }
    };
    if is_needed { Row::fail("model_key", detail, fix) } else { Row::warn("model_key", detail, fix) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::row::Status;

    #[test]
    fn a_key_is_missed_only_where_an_agent_needs_one() {
        let none = || Err(CredentialError::None("/r/.env".into()));
        assert_eq!(judge_key(none(), false).status, Status::Ok);
        let row = judge_key(none(), true);
        assert!(row.status == Status::Fail && row.detail.contains("ANTHROPIC_API_KEY"), "{row:?}");
        assert_eq!(judge_key(Ok(Kind::Login), true).status, Status::Ok);
    }

    #[test]
    fn an_address_without_tls_is_refused() {
        let text = "http://api.anthropic.com";
        assert_eq!(judge_upstream(text, Upstream::parse(text)).status, Status::Fail);
    }
}

//! The way out: one mail on one connection, and which step of it failed. Before the last one the server certainly has nothing.

use std::{future::Future, time::Duration};

use channel_protocol::{NotSent, Scope};
use lettre::{
    Address,
    transport::smtp::{
        Error,
        authentication::{Credentials, Mechanism},
        client::AsyncSmtpConnection,
        commands::{Data, Mail, Rcpt},
        extension::ClientId,
    },
};
use tokio::time::timeout;

use super::{
    net::{Line, Speaks},
    settings::Settings,
    trouble::{Trouble, line},
};
use crate::kit::Outcome;

/// How long a step may take.
const WITHIN: Duration = Duration::from_secs(60);
/// How long the server may take for a mail.
const LONG: Duration = Duration::from_secs(300);
/// How much it may say on one connection, bytes.
const MOST: u64 = 1 << 20;
/// How long a server is left alone that is away, or takes nothing at the moment, ms.
pub(super) const AWAY_MS: u64 = 60_000;

/// What became of a mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Handed {
    Over,
    /// The server did not let us get as far as the mail.
    Kept(Trouble),
    /// It did not take the mail: its number, and its words.
    Refused {
        code: u16,
        says: String,
    },
    Unknown(String),
}

impl Handed {
    /// What the daemon is told.
    pub(super) fn outcome(&self, id: &str) -> Outcome {
        match self {
            Self::Over => Outcome::Sent(vec![id.to_owned()]),
            Self::Kept(_) => Outcome::busy(Some(AWAY_MS), Scope::Account),
            Self::Refused { code: 421 | 454, .. } => Outcome::busy(Some(AWAY_MS), Scope::Account),
            Self::Refused { code: 400..=499, says } => {
                Outcome::NotSent(NotSent::Again { text: says.clone() })
            }
            Self::Refused { code, says } => Outcome::refused(
                &code.to_string(),
                says.clone(),
                "the server of the account says so; look at the address",
            ),
            Self::Unknown(why) => Outcome::Unknown(why.clone()),
        }
    }
}

/// Waits for a step within its time.
async fn step<T>(most: Duration, what: impl Future<Output = Result<T, Error>>) -> Result<T, Option<Error>> {
    match timeout(most, what).await {
        Ok(done) => done.map_err(Some),
        Err(_) => Err(None),
    }
}

/// Returns a server's number and words, if it was the server that said no.
fn refusal(error: &Option<Error>) -> Option<(u16, String)> {
    let error = error.as_ref()?;
    let code = error.status()?.to_string().parse().ok()?;
    Some((code, line(&says(error))))
}

fn says(error: &Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

fn lost(error: &Option<Error>) -> Trouble {
    Trouble::Lost(error.as_ref().map_or_else(|| "it does not answer".into(), |error| line(&says(error))))
}

/// Connects and logs in.
async fn log_in(settings: &Settings) -> Result<AsyncSmtpConnection, Trouble> {
    let mut connection = Line::connect(&settings.smtp, Speaks::Smtp).await?;
    connection.allow(MOST);
    let us = ClientId::Domain(settings.domain().to_owned());
    let away = |error: Option<Error>| match refusal(&error) {
        Some((code, says)) => Trouble::Away(format!("{code} {says}")),
        None => lost(&error),
    };
    let mut smtp = step(WITHIN, AsyncSmtpConnection::connect_with_transport(Box::new(connection), &us))
        .await
        .map_err(away)?;
    let ways = [Mechanism::Plain, Mechanism::Login];
    // One that asks for no password knows its machines otherwise.
    if smtp.server_info().get_auth_mechanism(&ways).is_some() {
        let who = Credentials::new(settings.user.clone(), settings.password.clone());
        step(WITHIN, smtp.auth(&ways, &who)).await.map_err(|error| match refusal(&error) {
            Some((code @ 500..=599, says)) => Trouble::Denied(format!("{code} {says}")),
            _ => away(error),
        })?;
    }
    Ok(smtp)
}

async fn quit(mut smtp: AsyncSmtpConnection) {
    // A server that does not answer to it is left all the same.
    drop(timeout(Duration::from_secs(2), smtp.quit()).await);
}

/// Tries whether we are let in.
pub(super) async fn check(settings: &Settings) -> Result<(), Trouble> {
    quit(log_in(settings).await?).await;
    Ok(())
}

/// Hands a mail over.
pub(super) async fn hand_over(settings: &Settings, to: &[&str], mail: &[u8]) -> Handed {
    let address = |text: &str| {
        text.parse::<Address>()
            .map_err(|_| Handed::Refused { code: 553, says: format!("{text} is no address") })
    };
    let mut smtp = match log_in(settings).await {
        Ok(smtp) => smtp,
        Err(trouble) => return Handed::Kept(trouble),
    };
    let before = async {
        let refused = |error: Option<Error>| match refusal(&error) {
            Some((code, says)) => Handed::Refused { code, says },
            None => Handed::Kept(lost(&error)),
        };
        let from = address(&settings.address)?;
        step(WITHIN, smtp.command(Mail::new(Some(from), vec![]))).await.map_err(refused)?;
        for one in to {
            let one = address(one)?;
            step(WITHIN, smtp.command(Rcpt::new(one, vec![]))).await.map_err(refused)?;
        }
        step(WITHIN, smtp.command(Data)).await.map_err(refused)?;
        Ok(())
    };
    if let Err(handed) = before.await {
        quit(smtp).await;
        return handed;
    }
    match step(LONG, smtp.message(mail)).await {
        Ok(_) => {
            quit(smtp).await;
            Handed::Over
        }
        Err(error) => match refusal(&error) {
            Some((code, says)) => Handed::Refused { code, says },
            None => Handed::Unknown(lost(&error).to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_for_now_or_for_good() {
        let of = |code| Handed::Refused { code, says: "x".into() }.outcome("id");
        assert!(matches!(of(421), Outcome::NotSent(NotSent::Busy { .. })));
        assert!(matches!(of(451), Outcome::NotSent(NotSent::Again { .. })));
        assert!(matches!(of(550), Outcome::NotSent(NotSent::Refused { .. })));
        let away = Handed::Kept(Trouble::Denied("x".into()));
        assert!(matches!(away.outcome("id"), Outcome::NotSent(NotSent::Busy { .. })));
        assert_eq!(Handed::Unknown("y".into()).outcome("id"), Outcome::Unknown("y".into()));
        assert_eq!(Handed::Over.outcome("id"), Outcome::Sent(vec!["id".into()]));
    }
}

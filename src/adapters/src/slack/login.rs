//! Who the account is on Slack, and what a person is told where Slack does not let it in.

use channel_protocol::{
    Addresses, Buttons, Can, Format, Hello, Light, Media, Myself, Pace, SentTwice, State, TextLimit, Unit,
};
use hyper::Uri;
use serde_json::Value;

use super::{
    LARGEST, LONGEST, MOST_FILES,
    api::{Api, ApiError},
    events::is_id,
    said::text,
};

/// What the bot needs; what it lacks is said in the log.
const SCOPES: [&str; 16] = [
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "im:write",
    "mpim:history",
    "mpim:read",
    "reactions:read",
    "reactions:write",
    "users:read",
];
/// Where new tokens are had.
pub(super) const NEW_TOKENS: &str = "get new tokens: https://api.slack.com/apps, your app: the app token is on Basic Information, the bot token on \
    OAuth & Permissions; both go into the account's token file, with a space between";

/// Which of the two tokens.
#[derive(Clone, Copy)]
pub(super) enum Token {
    App,
    Bot,
}

impl Token {
    const fn name(self) -> &'static str {
        match self {
            Self::App => "app token",
            Self::Bot => "bot token",
        }
    }
}

/// Asks who we are, and where the first socket is opened. An error says which of the two tokens it is about.
pub(super) async fn log_in(api: &Api) -> Result<(Value, String, Uri), (Token, ApiError)> {
    let (me, scopes) = api.myself().await.map_err(|error| (Token::Bot, error))?;
    if !is_id(text(&me, "user_id")) || text(&me, "team_id").is_empty() {
        return Err((Token::Bot, ApiError::Unreadable("it does not say who we are".into())));
    }
    let socket = api.socket().await.map_err(|error| (Token::App, error))?;
    Ok((me, scopes, socket))
}

/// Returns the scopes that we need and do not have, where Slack lists those that we have.
pub(super) fn lacking(scopes: &str) -> Vec<&'static str> {
    let has: Vec<&str> = scopes.split(',').map(str::trim).filter(|scope| !scope.is_empty()).collect();
    SCOPES.into_iter().filter(|scope| !has.is_empty() && !has.contains(scope)).collect()
}

pub(super) fn all_lights(light: Light, why: &str, hint: &str) -> State {
    State { transport: light, inbound: light, outbound: light, why: why.into(), hint: hint.into() }
}

pub(super) fn waits(token: Token, error: &ApiError) -> State {
    match error.is_locked_out() {
        true => {
            let why = format!("Slack does not take the {}; it is asked again", token.name());
            all_lights(Light::Waiting, &why, NEW_TOKENS)
        }
        false => all_lights(Light::Waiting, &error.to_string(), ""),
    }
}

pub(super) fn locked_out(token: Token, error: &ApiError) -> State {
    all_lights(Light::Refused, &format!("Slack does not take the {}: {error}", token.name()), NEW_TOKENS)
}

pub(super) fn hello(id: &str, name: &str) -> Hello {
    Hello {
        adapter: format!("g2-channels slack {}", env!("CARGO_PKG_VERSION")),
        myself: Myself { id: id.to_owned(), name: name.to_owned(), handle: name.to_owned() },
        // Channels begin with C or G.
        addresses: Some(Addresses { direct: "D.*".into(), ..Addresses::default() }),
        text: TextLimit { max: LONGEST, unit: Unit::Chars, format: Format::Slack },
        caption_max: LONGEST,
        sent_twice: SentTwice::Readback,
        can: vec![
            Can::Edit,
            Can::Delete,
            Can::React,
            Can::Buttons,
            Can::Threads,
            Can::MediaIn,
            Can::MediaOut,
            Can::OpenDm,
            Can::ListChats,
        ],
        buttons: Buttons { max: 25, per_row: 5, press_bytes: 2000 },
        media: Media { out_max: LARGEST, in_max: 50 << 20, together: MOST_FILES },
        pace: Pace { chat_ms: 1000, account_per_s: 10, ..Pace::default() },
        // Slack takes some 50 changes a minute of one app.
        draft_ms: 3000,
        ..Hello::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_app_that_people_paste_asks_for_what_the_bot_needs() {
        let app: Value = serde_json::from_str(include_str!("../../../config/slack-app.json")).unwrap();
        assert_eq!(app["oauth_config"]["scopes"]["bot"], serde_json::json!(SCOPES));
    }

    #[test]
    fn what_the_bot_lacks_is_named_where_slack_lists_what_it_has() {
        assert!(lacking("").is_empty() && lacking(&SCOPES.join(",")).is_empty());
        let has = SCOPES[1..].join(", ");
        assert_eq!(lacking(&has), ["channels:history"]);
    }
}

//! What an answer of Slack's means.

use super::*;

fn answer(status: u16, after: Option<&str>, body: &str) -> Answer {
    let mut answer = Answer {
        status: StatusCode::from_u16(status).unwrap(),
        body: body.to_owned().into(),
        ..Answer::default()
    };
    if let Some(after) = after {
        answer.headers.insert(RETRY_AFTER, after.parse().unwrap());
    }
    answer
}

fn error(status: u16, after: Option<&str>, body: &str) -> ApiError {
    read(&answer(status, after, body)).unwrap_err()
}

#[test]
fn a_refusal_says_what_becomes_of_the_text() {
    let no = |code: &str| error(200, None, &format!(r#"{{"ok":false,"error":"{code}"}}"#));
    let busy = |after_ms| Outcome::NotSent(NotSent::Busy { after_ms, scope: Scope::Chat });
    for (error, outcome) in [
        (error(429, Some("30"), r#"{"ok":false,"error":"ratelimited"}"#), busy(30_000)),
        (error(429, Some("soon"), "<html>"), busy(5000)),
        (error(429, Some("18446744073709551615"), ""), busy(86_400_000)),
        (no("ratelimited"), busy(5000)),
        (no("token_revoked"), Outcome::NotSent(NotSent::Offline)),
        (
            no("not_in_channel"),
            Outcome::gone(
                Went::Chat,
                "Slack says not_in_channel",
                "invite the bot into the channel: /invite and its name",
            ),
        ),
        (no("thread_not_found"), Outcome::gone(Went::Thread, "Slack says thread_not_found", "")),
        (no("fatal_error"), Outcome::Unknown("Slack says fatal_error".into())),
        (
            no("message_limit_exceeded"),
            Outcome::NotSent(NotSent::Again { text: "Slack says message_limit_exceeded".into() }),
        ),
        (no("msg_too_long"), Outcome::refused("msg_too_long", "Slack says msg_too_long", "")),
        (error(503, None, "<html>"), Outcome::Unknown("Slack is in trouble: status 503".into())),
        (error(404, None, "<html>"), Outcome::Unknown("the answer is none of Slack's: status 404".into())),
        (error(200, None, " <html>"), Outcome::Unknown("the answer is none of Slack's: status 200".into())),
        (error(200, None, r#"{"ok":false}"#), Outcome::Unknown("it does not say why it is not ok".into())),
        (error(400, None, r#"{"ok":false,"error":"x"}"#), Outcome::refused("x", "Slack says x", "")),
        (
            no("org_login_required"),
            Outcome::NotSent(NotSent::Again { text: "Slack says org_login_required".into() }),
        ),
        (NoAnswer::NotAsked("x".into()).into(), Outcome::NotSent(NotSent::Offline)),
        (NoAnswer::Unknown("x".into()).into(), Outcome::Unknown("x".into())),
        (error(200, None, "[]"), Outcome::Unknown("it does not say whether it is ok".into())),
        (error(200, None, r#"{"ok":tr"#), Outcome::Unknown("its answer broke off".into())),
    ] {
        assert_eq!(error.outcome(true), outcome, "{error}");
    }
    for passing in [error(302, None, ""), error(407, None, r#"{"error":"x"}"#), no("org_login_required")] {
        assert!(!passing.is_final(), "{passing}");
    }
    let refused = Outcome::refused("thread_not_found", "Slack says thread_not_found", "");
    assert_eq!(no("thread_not_found").outcome(false), refused);
}

#[test]
fn a_missing_scope_is_named_with_the_place_where_it_is_added() {
    let said = r#"{"ok":false,"error":"missing_scope","needed":"reactions:write","provided":"chat:write"}"#;
    let error = error(200, None, said);
    assert_eq!(error.to_string(), "Slack says missing_scope: the app has no scope reactions:write");
    assert!(error.hint().contains("OAuth & Permissions") && error.hint().contains("reactions:write"));
    assert!(error.is_final());
}

#[test]
fn tokens_are_told_apart_by_their_beginnings() {
    for text in ["xapp-1-A xoxb-2", " xoxb-2\nxapp-1-A ", "x xoxb-2 xapp-1-A xoxb-3"] {
        let tokens = Tokens::read(text);
        assert_eq!((&tokens.app[..], &tokens.bot[..]), ("xapp-1-A", "xoxb-2"), "{text}");
    }
    assert!(Tokens::read("xoxp-1").bot.is_empty());
}

#[test]
fn files_and_sockets_are_slacks_own() {
    let slack = Api::new(None, Tokens::default()).unwrap();
    for url in
        ["https://files.slack.com/files-pri/T1-F1/a.png", "https://slack.com/x", "https://A.SLACK.com/x"]
    {
        assert!(slack.is_ours(url), "{url}");
    }
    for url in [
        "http://files.slack.com/a",
        "https://files.slack.com.example.org/a",
        "https://files.slack.com@example.org/a",
        "https://example.org/https://files.slack.com/",
        "https://files.slack.com:99/a",
        "https://notslack.com/a",
        "http://127.0.0.1:80/a",
    ] {
        assert!(!slack.is_ours(url), "{url}");
    }
    for url in ["https://files.slack.com/files-pri/T1-F1/a.png", "https://FILES-ORIGIN.slack.com/files-tmb/x"]
    {
        assert!(slack.is_file(url), "{url}");
    }
    for url in [
        "https://slack.com/files-pri/T1-F1/a.png",
        "https://slack.com/api/auth.revoke",
        "https://files.slack.com/api/auth.revoke",
        "https://files.slack.com/files-pri/../api/auth.revoke",
        "https://files.slack.com/files-pri/%2E%2e%2fapi/auth.revoke",
        "http://files.slack.com/files-pri/T1-F1/a.png",
    ] {
        assert!(!slack.is_file(url), "{url}");
    }
    let other = Api::new(Some("http://127.0.0.1:80"), Tokens::default()).unwrap();
    assert!(other.is_file("http://127.0.0.1:80/files-pri/1") && !other.is_file("http://127.0.0.1:80/api/x"));
    assert!(other.is_ours("http://127.0.0.1:80/files/1") && !other.is_ours("http://127.0.0.1:8000/"));
}

#[test]
fn a_form_holds_any_text() {
    assert_eq!(form(&[("a", "x y&=é"), ("b", "~")]), "a=x%20y%26%3D%C3%A9&b=~");
}

//! What went wrong, told apart: each error record of ours reads `claude/KIND: words`.
//!
//! | kind | what has happened |
//! |---|---|
//! | `authentication` `billing` `rate_limit` `overloaded` `server_error` `model_not_found` `invalid_request` `prompt_too_long` | the model's API has said so, after the CLI's own tries |
//! | `connection` `timeout` | the API can't be reached; it did not begin to answer in time |
//! | `stalled_before_answer` `stalled_mid_answer` | the CLI has said nothing for too long while the model was to answer |
//! | `refusal` `max_turns` `interrupted` | the model or the CLI has broken the turn off |
//! | `not_the_model` | the CLI has answered in the model's place |
//! | `no_result` `exited` | the CLI has ended with code 0 and without a result; in the middle of things |
//! | `tools` | our tools are not connected to the CLI |
//! | `start` `version` | the CLI did not come up; is another version than asked for |
//! | `execution` | anything else the CLI calls an error |

use super::event::{By, Outcome};

/// The most that is said of one failure, characters.
const LONGEST: usize = 2000;

/// A failure, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: &'static str,
    words: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "claude/{}: {}", self.kind, self.words)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    pub(super) fn new(kind: &'static str, words: impl AsRef<str>) -> Self {
        Self { kind, words: words.as_ref().trim().chars().take(LONGEST).collect() }
    }
}

/// Returns whether a turn's end says that the session it should go on in is not there.
pub(super) fn is_unknown_session(outcome: &Outcome) -> bool {
    outcome.errors.iter().any(|e| e.contains("No conversation found with session ID"))
}

/// Returns how a turn has failed, or `None` when its text is an answer. `last` is who spoke last in it, with the
/// error that the CLI has put there.
pub(super) fn of(outcome: &Outcome, last: Option<(By, Option<&str>)>) -> Option<Failure> {
    let error = last.and_then(|(_, error)| error).unwrap_or_default();
    let words = if outcome.text.is_empty() { outcome.errors.join("; ") } else { outcome.text.clone() };
    if outcome.is_error || outcome.subtype != "success" {
        return Some(Failure::new(kind(outcome, error, &words), words));
    }
    if outcome.stop_reason == "refusal" {
        return Some(Failure::new("refusal", words));
    }
    match last {
        Some((By::Cli, _)) => Some(Failure::new("not_the_model", words)),
        Some((By::Model | By::Subagent, _)) | None => None,
    }
}

fn kind(outcome: &Outcome, error: &str, words: &str) -> &'static str {
    let starts = |with: &str| words.to_lowercase().starts_with(with);
    if outcome.terminal_reason == "prompt_too_long" || starts("prompt is too long") {
        return "prompt_too_long";
    }
    if outcome.stop_reason == "refusal" {
        return "refusal";
    }
    match error {
        "authentication_failed" | "oauth_org_not_allowed" => return "authentication",
        "billing_error" => return "billing",
        "rate_limit" => return "rate_limit",
        "overloaded" => return "overloaded",
        // Some versions call 529 so.
        "server_error" if outcome.api_status != Some(529) => return "server_error",
        "model_not_found" => return "model_not_found",
        "invalid_request" => return "invalid_request",
        _ => {}
    }
    match outcome.api_status {
        Some(401 | 403) => "authentication",
        Some(402) => "billing",
        Some(404) => "model_not_found",
        Some(429) => "rate_limit",
        Some(529) => "overloaded",
        Some(500..) => "server_error",
        Some(_) => "invalid_request",
        None if outcome.subtype == "error_max_turns" => "max_turns",
        None if outcome.terminal_reason.starts_with("aborted") => "interrupted",
        None if starts("request timed out") => "timeout",
        None if words.contains("Unable to connect") || words.contains("Connection error") => "connection",
        None if starts("not logged in") || starts("invalid api key") => "authentication",
        None => "execution",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Outcome), last: Option<(By, Option<&str>)>, kind: Option<&str>) {
        let mut outcome =
            Outcome { subtype: "success".to_owned(), text: "x".to_owned(), ..Outcome::default() };
        change(&mut outcome);
        assert_eq!(of(&outcome, last).map(|failure| failure.kind), kind, "{outcome:?}");
    }

    #[test]
    fn an_answer_is_no_failure() {
        check(|_| {}, Some((By::Model, None)), None);
        check(|_| {}, None, None);
    }

    #[test]
    fn api_errors_are_told_apart_by_the_cli_s_word_then_by_status() {
        let cli = |error| Some((By::Cli, Some(error)));
        for (status, error, kind) in [
            (Some(401), "authentication_failed", "authentication"),
            (Some(403), "authentication_failed", "authentication"),
            (Some(400), "billing_error", "billing"),
            (Some(400), "invalid_request", "invalid_request"),
            (Some(404), "model_not_found", "model_not_found"),
            (Some(429), "rate_limit", "rate_limit"),
            (Some(500), "server_error", "server_error"),
            (Some(529), "overloaded", "overloaded"),
            (Some(529), "server_error", "overloaded"),
            (Some(429), "unknown", "rate_limit"),
            (Some(502), "unknown", "server_error"),
            (None, "unknown", "execution"),
        ] {
            check(
                |o| {
                    o.is_error = true;
                    o.api_status = status;
                },
                cli(error),
                Some(kind),
            );
        }
    }

    #[test]
    fn what_the_cli_says_in_the_model_s_place_is_no_answer() {
        check(|_| {}, Some((By::Cli, None)), Some("not_the_model"));
        check(|o| o.stop_reason = "refusal".to_owned(), Some((By::Model, None)), Some("refusal"));
    }

    #[test]
    fn errors_without_a_status_are_told_apart_by_their_words() {
        for (text, kind) in [
            ("Request timed out", "timeout"),
            ("API Error: Unable to connect to API (ConnectionRefused)", "connection"),
            ("Prompt is too long · the request is ~300000 tokens", "prompt_too_long"),
            ("Not logged in · Please run /login", "authentication"),
            ("something", "execution"),
        ] {
            check(
                |o| {
                    o.is_error = true;
                    o.text = text.to_owned();
                },
                Some((By::Cli, Some("unknown"))),
                Some(kind),
            );
        }
    }

    #[test]
    fn a_failure_reads_as_its_kind_and_its_words_and_is_bounded() {
        assert_eq!(Failure::new("tools", " words\n").to_string(), "claude/tools: words");
        assert_eq!(
            Failure::new("tools", "x".repeat(10_000)).to_string().len(),
            "claude/tools: ".len() + LONGEST
        );
    }
}

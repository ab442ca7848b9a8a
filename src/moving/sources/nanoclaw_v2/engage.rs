//! How a wiring of NanoClaw v2 listens, in its present columns and in the two of before.

use ipc_handlers::effect::{EngageMode, IgnoredMessages, SenderScope};
use serde_json::Value;

use crate::{domain::heard::engage::Engages, moving::foreign::Read};

/// How a wiring listens, and what is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listens {
    pub engages: Engages,
    pub scope: SenderScope,
    pub ignored: IgnoredMessages,
    pub told: Option<&'static str>,
}

/// Reads a wiring with the columns of today; a mode that is none engages never there.
pub(super) fn of_columns(row: &Read) -> Listens {
    let mode = row.text("engage_mode");
    let pattern = row.text("engage_pattern").filter(|pattern| !pattern.is_empty());
    let (engages, told) = match mode.as_deref().and_then(EngageMode::from_name) {
        Some(mode) => (Engages::of_columns(mode, pattern.as_deref()), None),
        None => (
            Engages::Mention,
            Some("its engage_mode is none, so it never woke its agent; here a mention does"),
        ),
    };
    // There, too, the word `all` alone lets strangers in.
    let scope = if row.text("sender_scope").as_deref() == Some("all") {
        SenderScope::All
    } else {
        SenderScope::Known
    };
    let ignored = match row.text("ignored_message_policy").as_deref() {
        Some("accumulate") => IgnoredMessages::Accumulate,
        Some(_) | None => IgnoredMessages::Drop,
    };
    Listens { engages, scope, ignored, told }
}

/// Reads a wiring of before, as its program reads it when it is renewed: `trigger_rules` is JSON, `response_scope` a word.
pub(super) fn of_rules(row: &Read) -> Listens {
    let scope = row.text("response_scope");
    let text = row.text("trigger_rules");
    let rules = text.as_deref().map(serde_json::from_str::<Value>);
    let told =
        matches!(rules, Some(Err(_))).then_some("its trigger_rules are no JSON; a mention wakes its agent");
    let rules = rules.and_then(Result::ok).unwrap_or(Value::Null);
    let pattern = rules.get("pattern").and_then(Value::as_str).filter(|pattern| !pattern.is_empty());
    let takes_all =
        rules.get("requiresTrigger") == Some(&Value::Bool(false)) || scope.as_deref() == Some("all");
    let engages = match pattern {
        Some(pattern) => Engages::Pattern(pattern.to_owned()),
        None if takes_all => Engages::Pattern(".".to_owned()),
        None => Engages::Mention,
    };
    let scope = if scope.as_deref() == Some("allowlisted") { SenderScope::Known } else { SenderScope::All };
    Listens { engages, scope, ignored: IgnoredMessages::Drop, told }
}

//! Who may be heard: what an engaged wiring does with a message once it is known who wrote it.
//!
//! Engagement is decided first, by [`super::engage`], which knows nothing of people. A message that would not have
//! woken anybody raises no question.

use super::engage::{self, Outcome};

/// What a sender is to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Owner,
    /// Of everything, or of this group.
    Admin,
    Member,
    Unknown,
}

/// What becomes of senders that a group does not know, by chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownSenders {
    /// They are not heard.
    Strict,
    /// Somebody who may decide is asked.
    Ask,
    /// They are heard.
    Public,
}

/// Whom a wiring listens to, beside its chat's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderScope {
    All,
    Known,
}

/// What `sender-allowlist.json` says of a sender in a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// There is no list, or the sender is on it.
    Allowed,
    /// Not on it, mode `trigger`: what they say is context, and wakes nobody.
    ContextOnly,
    /// Not on it, mode `drop`: no agent ever reads it.
    Drop,
    /// The list can't be read: the owner alone is heard.
    Unreadable,
}

/// Whom a message is from, as one wiring sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speaker {
    pub standing: Standing,
    /// Whether the channel said who it is.
    pub named: bool,
    pub listed: Listed,
}

/// What a wiring does with a message from somebody, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub outcome: Outcome,
    pub rule: &'static str,
    /// A sentence for people.
    pub reason: String,
    /// Set when it would have engaged, and was not heard.
    pub refused: Option<Refusal>,
}

/// What follows from not hearing somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is counted and told.
    Counted,
    /// Somebody is asked whether they may be heard.
    Asked,
}

impl Standing {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Admin => "admin",
            Self::Member => "member",
            Self::Unknown => "unknown",
        }
    }
}

impl Listed {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::ContextOnly => "context_only",
            Self::Drop => "drop",
            Self::Unreadable => "unreadable",
        }
    }
}

impl UnknownSenders {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Ask => "request_approval",
            Self::Public => "public",
        }
    }

    /// Reads the column; anything else is the strictest.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "public" => Self::Public,
            "request_approval" => Self::Ask,
            _ => Self::Strict,
        }
    }
}

impl SenderScope {
    /// Reads the column; anything else is the stricter one.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if text == "all" { Self::All } else { Self::Known }
    }
}

/// Decides whether the sender of a message is heard by a wiring that made `verdict` of its text.
#[must_use]
pub fn hear(
    verdict: &engage::Verdict,
    keeps_context: bool,
    speaker: Speaker,
    policy: UnknownSenders,
    scope: SenderScope,
) -> Heard {
    let engaged = match verdict.outcome {
        Outcome::Wake | Outcome::Held => true,
        Outcome::Context => false,
        Outcome::Ignore => return as_it_is(verdict),
    };
    let Some(unheard) = refusal(speaker, policy, scope) else { return as_it_is(verdict) };
    // What v1's list calls `trigger`: whoever is not on it is read, and answered never.
    let outcome = if unheard.rule == LIST && speaker.listed == Listed::ContextOnly && keeps_context {
        Outcome::Context
    } else {
        Outcome::Ignore
    };
    let reason = match (engaged, outcome) {
        (true, Outcome::Context) => format!("{}; it is kept as context", unheard.why),
        (true, _) | (false, Outcome::Context) => unheard.why.to_owned(),
        (false, _) => format!("{}; {}, and what they say is no context either", verdict.reason, unheard.why),
    };
    if !engaged && outcome == Outcome::Context {
        return as_it_is(verdict);
    }
    let refused = engaged.then_some(if unheard.asks && verdict.outcome == Outcome::Wake {
        Refusal::Asked
    } else {
        Refusal::Counted
    });
    Heard { outcome, rule: unheard.rule, reason, refused }
}

/// The rule of `sender-allowlist.json`.
const LIST: &str = "sender_list";

struct Unheard {
    rule: &'static str,
    why: &'static str,
    asks: bool,
}

fn refusal(speaker: Speaker, policy: UnknownSenders, scope: SenderScope) -> Option<Unheard> {
    let unheard = |rule, why, asks| Some(Unheard { rule, why, asks });
    match (speaker.standing, speaker.listed) {
        // The owner is v1's "from me", which its list does not hold back.
        (Standing::Owner, _) => return None,
        (_, Listed::Allowed) => {}
        (_, Listed::ContextOnly | Listed::Drop) => {
            return unheard(LIST, "sender-allowlist.json does not name this sender", false);
        }
        (_, Listed::Unreadable) => {
            return unheard(
                LIST,
                "sender-allowlist.json can't be read, so only owners are heard; `g2 doctor` says why",
                false,
            );
        }
    }
    match (speaker.standing, policy, scope) {
        (Standing::Owner | Standing::Admin | Standing::Member, _, _) => None,
        (Standing::Unknown, UnknownSenders::Public, SenderScope::All) => None,
        (Standing::Unknown, UnknownSenders::Public, SenderScope::Known) => unheard(
            "sender_scope",
            "the wiring hears known senders only, and the group does not know this one",
            false,
        ),
        (Standing::Unknown, UnknownSenders::Strict, _) => unheard(
            "unknown_sender",
            "the group does not know this sender, and the chat's policy is strict",
            false,
        ),
        (Standing::Unknown, UnknownSenders::Ask, _) if !speaker.named => unheard(
            "unknown_sender",
            "the channel does not say who the sender is, so nobody can be asked",
            false,
        ),
        (Standing::Unknown, UnknownSenders::Ask, _) => {
            unheard("unknown_sender", "the group does not know this sender; approval is asked for", true)
        }
    }
}

fn as_it_is(verdict: &engage::Verdict) -> Heard {
    Heard {
        outcome: verdict.outcome,
        rule: verdict.rule.as_str(),
        reason: verdict.reason.clone(),
        refused: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::engage::{Author, EngageMode, IgnoredPolicy, Mentioned, Sticky, WiringRule, decide};

    fn verdict(pattern: &str, ignored: IgnoredPolicy) -> engage::Verdict {
        let rule = WiringRule { mode: EngageMode::Pattern(pattern.into()), trigger: "@G2".into(), ignored };
        let heard = engage::Heard {
            text: "hello",
            author: Author::Person,
            mentioned: Mentioned::No,
            sticky: Sticky::No,
        };
        decide(&rule, &heard)
    }

    fn speaker(standing: Standing, listed: Listed) -> Speaker {
        Speaker { standing, named: true, listed }
    }

    const STRANGER: Speaker = Speaker { standing: Standing::Unknown, named: true, listed: Listed::Allowed };

    #[test]
    fn policy_and_scope_decide_about_senders_that_a_group_does_not_know() {
        use {SenderScope::*, UnknownSenders::*};
        let table = [
            (Public, All, Outcome::Wake, "pattern", None),
            (Public, Known, Outcome::Ignore, "sender_scope", Some(Refusal::Counted)),
            (Strict, All, Outcome::Ignore, "unknown_sender", Some(Refusal::Counted)),
            (Strict, Known, Outcome::Ignore, "unknown_sender", Some(Refusal::Counted)),
            (Ask, All, Outcome::Ignore, "unknown_sender", Some(Refusal::Asked)),
            (Ask, Known, Outcome::Ignore, "unknown_sender", Some(Refusal::Asked)),
        ];
        for (policy, scope, outcome, rule, refused) in table {
            for ignored in [IgnoredPolicy::Drop, IgnoredPolicy::Accumulate] {
                let keeps = ignored == IgnoredPolicy::Accumulate;
                let heard = hear(&verdict(".", ignored), keeps, STRANGER, policy, scope);
                assert_eq!(
                    (heard.outcome, heard.rule, heard.refused),
                    (outcome, rule, refused),
                    "{policy:?} {scope:?}"
                );
            }
            for standing in [Standing::Owner, Standing::Admin, Standing::Member] {
                let known = speaker(standing, Listed::Allowed);
                let heard = hear(&verdict(".", IgnoredPolicy::Drop), false, known, policy, scope);
                assert_eq!(
                    (heard.outcome, heard.refused),
                    (Outcome::Wake, None),
                    "{standing:?} {policy:?} {scope:?}"
                );
            }
        }
    }

    #[test]
    fn a_stranger_s_chatter_is_neither_context_nor_counted_nor_asked_about() {
        for policy in [UnknownSenders::Strict, UnknownSenders::Ask] {
            let heard =
                hear(&verdict("^no", IgnoredPolicy::Accumulate), true, STRANGER, policy, SenderScope::All);
            assert_eq!((heard.outcome, heard.refused), (Outcome::Ignore, None), "{heard:?}");
        }
        let open = hear(
            &verdict("^no", IgnoredPolicy::Accumulate),
            true,
            STRANGER,
            UnknownSenders::Public,
            SenderScope::All,
        );
        assert_eq!(open.outcome, Outcome::Context);
    }

    #[test]
    fn nobody_is_asked_about_a_sender_without_a_name() {
        let nameless = Speaker { named: false, ..STRANGER };
        let heard =
            hear(&verdict(".", IgnoredPolicy::Drop), false, nameless, UnknownSenders::Ask, SenderScope::All);
        assert_eq!(heard.refused, Some(Refusal::Counted));
    }

    #[test]
    fn the_list_goes_before_what_a_sender_is_to_the_group_but_for_the_owner() {
        let table = [
            (Listed::Allowed, true, Outcome::Wake, None),
            (Listed::ContextOnly, true, Outcome::Context, Some(Refusal::Counted)),
            (Listed::ContextOnly, false, Outcome::Ignore, Some(Refusal::Counted)),
            (Listed::Drop, true, Outcome::Ignore, Some(Refusal::Counted)),
            (Listed::Unreadable, true, Outcome::Ignore, Some(Refusal::Counted)),
        ];
        for (listed, keeps, outcome, refused) in table {
            let ignored = if keeps { IgnoredPolicy::Accumulate } else { IgnoredPolicy::Drop };
            let member = speaker(Standing::Member, listed);
            let heard = hear(&verdict(".", ignored), keeps, member, UnknownSenders::Public, SenderScope::All);
            assert_eq!((heard.outcome, heard.refused), (outcome, refused), "{listed:?} {keeps}");
            let owner = speaker(Standing::Owner, listed);
            let heard =
                hear(&verdict(".", ignored), keeps, owner, UnknownSenders::Strict, SenderScope::Known);
            assert_eq!((heard.outcome, heard.refused), (Outcome::Wake, None), "{listed:?} {keeps}");
        }
        // What does not engage stays context in mode `trigger`, and nothing in mode `drop`.
        for (listed, outcome) in [(Listed::ContextOnly, Outcome::Context), (Listed::Drop, Outcome::Ignore)] {
            let member = speaker(Standing::Member, listed);
            let chatter = verdict("^no", IgnoredPolicy::Accumulate);
            let heard = hear(&chatter, true, member, UnknownSenders::Public, SenderScope::All);
            assert_eq!((heard.outcome, heard.refused), (outcome, None), "{listed:?}");
        }
    }
}

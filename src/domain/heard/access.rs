//! Who may be heard: what an engaged wiring does with a message once it is known who wrote it.
//!
//! Engagement is decided first, by [`super::engage`], which knows nothing of people. A message that would not have
//! woken anybody raises no question.

use ipc_handlers::{effect::SenderScope, words};

use super::engage::{self, EngageVerdict, Rule};

words! {
    /// What a sender is to a group.
    pub enum Standing: "standing" {
        Owner = "owner",
        /// Of everything, or of this group.
        Admin = "admin",
        Member = "member",
        Unknown = "unknown",
    }
}

words! {
    /// What becomes of senders that a group does not know, by chat.
    #[derive(schemars::JsonSchema)]
    pub enum UnknownSenders: "policy for unknown senders" {
        /// They are not heard.
        Strict = "strict",
        /// Somebody who may decide is asked.
        Ask = "request_approval",
        /// They are heard.
        Public = "public",
    }
}

words! {
    /// What `sender-allowlist.json` says of a sender in a chat.
    pub enum Listed: "entry of a sender list" {
        /// There is no list, or the sender is on it.
        Allowed = "allowed",
        /// Not on it, mode `trigger`: what they say is context, and wakes nobody.
        ContextOnly = "context_only",
        /// Not on it, mode `drop`: no agent ever reads it.
        Drop = "drop",
        /// The list can't be read: the owner alone is heard.
        Unreadable = "unreadable",
    }
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
    pub outcome: EngageVerdict,
    pub rule: Rule,
    /// A sentence for people.
    pub reason: String,
    /// Set when it would have engaged, and was not heard.
    pub refused: Option<Unheeded>,
}

/// What follows from not hearing somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unheeded {
    /// It is counted and told.
    Counted,
    /// Somebody is asked whether they may be heard.
    Asked,
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
        EngageVerdict::Wake | EngageVerdict::Held => true,
        EngageVerdict::Context => false,
        EngageVerdict::Ignore => return as_it_is(verdict),
    };
    let Some(unheard) = refusal(speaker, policy, scope) else { return as_it_is(verdict) };
    // Mode `trigger` of v1's list: a sender who is not on it is read, and never answered.
    let outcome =
        if unheard.rule == Rule::SenderList && speaker.listed == Listed::ContextOnly && keeps_context {
            EngageVerdict::Context
        } else {
            EngageVerdict::Ignore
        };
    let reason = match (engaged, outcome) {
        (true, EngageVerdict::Context) => format!("{}; it is kept as context", unheard.why),
        (true, _) | (false, EngageVerdict::Context) => unheard.why.to_owned(),
        (false, _) => format!("{}; {}, and what they say is no context either", verdict.reason, unheard.why),
    };
    if !engaged && outcome == EngageVerdict::Context {
        return as_it_is(verdict);
    }
    let refused = engaged.then_some(if unheard.asks && verdict.outcome == EngageVerdict::Wake {
        Unheeded::Asked
    } else {
        Unheeded::Counted
    });
    Heard { outcome, rule: unheard.rule, reason, refused }
}

struct Unheard {
    rule: Rule,
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
            return unheard(Rule::SenderList, "sender-allowlist.json does not name this sender", false);
        }
        (_, Listed::Unreadable) => {
            return unheard(
                Rule::SenderList,
                "sender-allowlist.json can't be read, so only owners are heard; `g2 doctor` says why",
                false,
            );
        }
    }
    match (speaker.standing, policy, scope) {
        (Standing::Owner | Standing::Admin | Standing::Member, _, _) => None,
        (Standing::Unknown, UnknownSenders::Public, SenderScope::All) => None,
        (Standing::Unknown, UnknownSenders::Public, SenderScope::Known) => unheard(
            Rule::SenderScope,
            "the wiring hears known senders only, and the group does not know this one",
            false,
        ),
        (Standing::Unknown, UnknownSenders::Strict, _) => unheard(
            Rule::UnknownSender,
            "the group does not know this sender, and the chat's policy is strict",
            false,
        ),
        (Standing::Unknown, UnknownSenders::Ask, _) if !speaker.named => unheard(
            Rule::UnknownSender,
            "the channel does not say who the sender is, so nobody can be asked",
            false,
        ),
        (Standing::Unknown, UnknownSenders::Ask, _) => {
            unheard(Rule::UnknownSender, "the group does not know this sender; approval is asked for", true)
        }
    }
}

fn as_it_is(verdict: &engage::Verdict) -> Heard {
    Heard { outcome: verdict.outcome, rule: verdict.rule, reason: verdict.reason.clone(), refused: None }
}

#[cfg(test)]
mod tests {
    use ipc_handlers::effect::IgnoredMessages;

    use super::*;
    use crate::heard::engage::{Author, Engages, Mentioned, Sticky, WiringRule, decide};

    fn verdict(pattern: &str, ignored: IgnoredMessages) -> engage::Verdict {
        let rule = WiringRule { mode: Engages::Pattern(pattern.into()), trigger: "@G2".into(), ignored };
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
            (Public, All, EngageVerdict::Wake, Rule::Pattern, None),
            (Public, Known, EngageVerdict::Ignore, Rule::SenderScope, Some(Unheeded::Counted)),
            (Strict, All, EngageVerdict::Ignore, Rule::UnknownSender, Some(Unheeded::Counted)),
            (Strict, Known, EngageVerdict::Ignore, Rule::UnknownSender, Some(Unheeded::Counted)),
            (Ask, All, EngageVerdict::Ignore, Rule::UnknownSender, Some(Unheeded::Asked)),
            (Ask, Known, EngageVerdict::Ignore, Rule::UnknownSender, Some(Unheeded::Asked)),
        ];
        for (policy, scope, outcome, rule, refused) in table {
            for ignored in [IgnoredMessages::Drop, IgnoredMessages::Accumulate] {
                let keeps = ignored == IgnoredMessages::Accumulate;
                let heard = hear(&verdict(".", ignored), keeps, STRANGER, policy, scope);
                assert_eq!(
                    (heard.outcome, heard.rule, heard.refused),
                    (outcome, rule, refused),
                    "{policy:?} {scope:?}"
                );
            }
            for standing in [Standing::Owner, Standing::Admin, Standing::Member] {
                let known = speaker(standing, Listed::Allowed);
                let heard = hear(&verdict(".", IgnoredMessages::Drop), false, known, policy, scope);
                assert_eq!(
                    (heard.outcome, heard.refused),
                    (EngageVerdict::Wake, None),
                    "{standing:?} {policy:?} {scope:?}"
                );
            }
        }
    }

    #[test]
    fn a_stranger_s_chatter_is_neither_context_nor_counted_nor_asked_about() {
        for policy in [UnknownSenders::Strict, UnknownSenders::Ask] {
            let heard =
                hear(&verdict("^no", IgnoredMessages::Accumulate), true, STRANGER, policy, SenderScope::All);
            assert_eq!((heard.outcome, heard.refused), (EngageVerdict::Ignore, None), "{heard:?}");
        }
        let open = hear(
            &verdict("^no", IgnoredMessages::Accumulate),
            true,
            STRANGER,
            UnknownSenders::Public,
            SenderScope::All,
        );
        assert_eq!(open.outcome, EngageVerdict::Context);
    }

    #[test]
    fn nobody_is_asked_about_a_sender_without_a_name() {
        let nameless = Speaker { named: false, ..STRANGER };
        let heard = hear(
            &verdict(".", IgnoredMessages::Drop),
            false,
            nameless,
            UnknownSenders::Ask,
            SenderScope::All,
        );
        assert_eq!(heard.refused, Some(Unheeded::Counted));
    }

    #[test]
    fn the_list_goes_before_what_a_sender_is_to_the_group_but_for_the_owner() {
        let table = [
            (Listed::Allowed, true, EngageVerdict::Wake, None),
            (Listed::ContextOnly, true, EngageVerdict::Context, Some(Unheeded::Counted)),
            (Listed::ContextOnly, false, EngageVerdict::Ignore, Some(Unheeded::Counted)),
            (Listed::Drop, true, EngageVerdict::Ignore, Some(Unheeded::Counted)),
            (Listed::Unreadable, true, EngageVerdict::Ignore, Some(Unheeded::Counted)),
        ];
        for (listed, keeps, outcome, refused) in table {
            let ignored = if keeps { IgnoredMessages::Accumulate } else { IgnoredMessages::Drop };
            let member = speaker(Standing::Member, listed);
            let heard = hear(&verdict(".", ignored), keeps, member, UnknownSenders::Public, SenderScope::All);
            assert_eq!((heard.outcome, heard.refused), (outcome, refused), "{listed:?} {keeps}");
            let owner = speaker(Standing::Owner, listed);
            let heard =
                hear(&verdict(".", ignored), keeps, owner, UnknownSenders::Strict, SenderScope::Known);
            assert_eq!((heard.outcome, heard.refused), (EngageVerdict::Wake, None), "{listed:?} {keeps}");
        }
        // What does not engage stays context in mode `trigger`, and nothing in mode `drop`.
        for (listed, outcome) in
            [(Listed::ContextOnly, EngageVerdict::Context), (Listed::Drop, EngageVerdict::Ignore)]
        {
            let member = speaker(Standing::Member, listed);
            let chatter = verdict("^no", IgnoredMessages::Accumulate);
            let heard = hear(&chatter, true, member, UnknownSenders::Public, SenderScope::All);
            assert_eq!((heard.outcome, heard.refused), (outcome, None), "{listed:?}");
        }
    }
}

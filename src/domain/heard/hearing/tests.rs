use super::*;

const WIRED: Wired<'_> = Wired {
    mode: EngageMode::Pattern,
    pattern: Some("."),
    trigger: "@G2",
    ignored: IgnoredMessages::Drop,
    sender_scope: SenderScope::All,
};
const STICKY: Wired<'_> = Wired { mode: EngageMode::MentionSticky, pattern: None, ..WIRED };

const ASKED: Asked<'_> = Asked {
    wired: Some(WIRED),
    text: "hello",
    mentioned: false,
    from_me: false,
    bot: false,
    bots: Bots::Ignored,
    turns: &[],
    came: Time(3_600_000),
    late: false,
    sticky: Sticky::No,
    approved: None,
    answers: None,
    named: true,
    standing: Standing::Unknown,
    listed: Listed::Allowed,
    unknown_senders: UnknownSenders::Public,
};

fn decide(asked: Asked<'_>) -> Decision {
    Rules::default().decide(&asked)
}

#[test]
fn a_wiring_that_was_removed_meanwhile_ignores_the_message() {
    let decision = decide(Asked { wired: None, ..ASKED });
    assert_eq!(
        (decision.outcome, decision.reason.as_str()),
        (EngageVerdict::Ignore, "the wiring was removed")
    );
}

#[test]
fn a_file_may_address_the_agent_where_its_sender_would_be_heard() {
    let wired = Some(Wired { pattern: Some("nobody"), ..WIRED });
    let would = |asked: Asked<'_>| Rules::default().would_wake(&Asked { wired, ..asked });
    assert!(would(ASKED));
    for not in [
        Asked { from_me: true, ..ASKED },
        Asked { bot: true, ..ASKED },
        Asked { bot: true, bots: Bots::Heard, unknown_senders: UnknownSenders::Strict, ..ASKED },
        Asked { late: true, ..ASKED },
        Asked { unknown_senders: UnknownSenders::Strict, ..ASKED },
        Asked { unknown_senders: UnknownSenders::Ask, ..ASKED },
    ] {
        assert!(!would(not), "{not:?}");
    }
    assert!(!Rules::default().would_wake(&Asked { wired: None, ..ASKED }));
}

#[test]
fn a_bot_is_heard_where_the_group_wants_it_and_not_without_end() {
    let turns = [Turn { at: Time(3_500_000), own: true }; bots::TURNS];
    let bot = Asked { bot: true, ..ASKED };
    let heard = Asked { bots: Bots::Heard, ..bot };
    let silent = Some(Wired { pattern: Some("nobody"), ..WIRED });
    for (name, asked, outcome, rule) in [
        ("as at first", bot, EngageVerdict::Ignore, Rule::Bot),
        ("heard", heard, EngageVerdict::Wake, Rule::Pattern),
        ("not addressed", Asked { wired: silent, ..heard }, EngageVerdict::Ignore, Rule::None),
        ("seven turns", Asked { turns: &turns[1..], ..heard }, EngageVerdict::Wake, Rule::Pattern),
        ("eight turns", Asked { turns: &turns, ..heard }, EngageVerdict::Context, Rule::BotLoop),
        (
            "later",
            Asked { turns: &turns, came: Time(4_100_000), ..heard },
            EngageVerdict::Wake,
            Rule::Pattern,
        ),
        ("a person", Asked { turns: &turns, bot: false, ..heard }, EngageVerdict::Wake, Rule::Pattern),
        ("our own", Asked { from_me: true, ..heard }, EngageVerdict::Ignore, Rule::Own),
        (
            "a stranger after eight turns",
            Asked { turns: &turns, unknown_senders: UnknownSenders::Strict, ..heard },
            EngageVerdict::Ignore,
            Rule::UnknownSender,
        ),
    ] {
        let decision = decide(asked);
        assert_eq!((decision.outcome, decision.rule), (outcome, rule), "{name}");
    }
    assert!(Rules::default().would_wake(&Asked { wired: silent, ..heard }));
}

#[test]
fn one_rule_that_is_broken_says_nothing_about_the_others() {
    let mut rules = Rules::default();
    let of = |pattern| Asked { wired: Some(Wired { pattern: Some(pattern), ..WIRED }), ..ASKED };
    let outcomes: Vec<(EngageVerdict, bool)> = ["^hell", "(", "(.*)(.*)(.*)\\1\\2\\3z", "nobody"]
        .map(|pattern| rules.decide(&Asked { text: &"ab".repeat(2_000), ..of(pattern) }))
        .into_iter()
        .map(|decision| (decision.outcome, decision.problem.is_some()))
        .collect();
    assert_eq!(
        outcomes,
        [
            (EngageVerdict::Ignore, false),
            (EngageVerdict::Wake, true),
            (EngageVerdict::Held, true),
            (EngageVerdict::Ignore, false)
        ]
    );
}

#[test]
fn what_was_approved_engages_whatever_the_wiring_makes_of_its_text_and_its_sender_is_looked_at_all_the_same()
{
    let slow = "ab".repeat(2_000);
    for (pattern, text) in [("nobody", "hello"), (".", "hello"), ("(.*)(.*)(.*)\\1\\2\\3z", slow.as_str())] {
        let wired = Some(Wired { pattern: Some(pattern), ..WIRED });
        let asked = Asked { wired, text, approved: Some(3), ..ASKED };
        assert_eq!(decide(asked).outcome, EngageVerdict::Wake, "{pattern}");
        let stranger = decide(Asked { unknown_senders: UnknownSenders::Ask, ..asked });
        assert_eq!(
            (stranger.outcome, stranger.refused),
            (EngageVerdict::Ignore, Some(Unheeded::Asked)),
            "{pattern}"
        );
    }
    let decision = decide(Asked { wired: Some(STICKY), approved: Some(3), ..ASKED });
    assert_eq!((decision.rule, decision.sticks), (Rule::Approved, true));
    assert!(decision.reason.contains("question 3"), "{}", decision.reason);
}

#[test]
fn a_mention_that_is_heard_makes_the_lane_sticky_and_nothing_else_does() {
    let asked = Asked { wired: Some(STICKY), ..ASKED };
    let mention = Asked { mentioned: true, ..asked };
    let stranger = Asked { unknown_senders: UnknownSenders::Strict, ..mention };
    for (name, asked, outcome, sticks) in [
        ("chatter", asked, EngageVerdict::Ignore, false),
        ("a mention", mention, EngageVerdict::Wake, true),
        ("the trigger", Asked { text: "@g2 hi", ..asked }, EngageVerdict::Wake, true),
        ("in a lane that is sticky", Asked { sticky: Sticky::Yes, ..asked }, EngageVerdict::Wake, false),
        ("chatter in a main line", Asked { sticky: Sticky::MainLine, ..asked }, EngageVerdict::Ignore, false),
        (
            "a mention in a main line",
            Asked { sticky: Sticky::MainLine, ..mention },
            EngageVerdict::Wake,
            false,
        ),
        ("a mention by a stranger", stranger, EngageVerdict::Ignore, false),
        ("a mention by a bot", Asked { bot: true, ..mention }, EngageVerdict::Ignore, false),
        ("our own mention", Asked { from_me: true, ..mention }, EngageVerdict::Ignore, false),
        (
            "a mention that the list makes context",
            Asked {
                listed: Listed::ContextOnly,
                wired: Some(Wired { ignored: IgnoredMessages::Accumulate, ..STICKY }),
                ..mention
            },
            EngageVerdict::Context,
            false,
        ),
        (
            "chatter that is kept",
            Asked { wired: Some(Wired { ignored: IgnoredMessages::Accumulate, ..STICKY }), ..asked },
            EngageVerdict::Context,
            false,
        ),
        (
            "where a mention does not stick",
            Asked { wired: Some(Wired { mode: EngageMode::Mention, ..STICKY }), ..mention },
            EngageVerdict::Wake,
            false,
        ),
    ] {
        let decision = decide(asked);
        assert_eq!((decision.outcome, decision.sticks), (outcome, sticks), "{name}: {decision:?}");
    }
}

#[test]
fn a_lane_that_is_sticky_hears_no_stranger() {
    let asked =
        Asked { wired: Some(STICKY), sticky: Sticky::Yes, unknown_senders: UnknownSenders::Strict, ..ASKED };
    let decision = decide(asked);
    assert_eq!((decision.outcome, decision.rule), (EngageVerdict::Ignore, Rule::UnknownSender));
}

#[test]
fn what_bots_and_we_ourselves_write_is_neither_heard_nor_counted_nor_asked_about() {
    for unknown_senders in [UnknownSenders::Strict, UnknownSenders::Ask, UnknownSenders::Public] {
        for (from_me, bot, rule) in
            [(true, false, Rule::Own), (false, true, Rule::Bot), (true, true, Rule::Own)]
        {
            for listed in [Listed::Allowed, Listed::Drop, Listed::Unreadable] {
                let wired = Some(Wired { ignored: IgnoredMessages::Accumulate, ..WIRED });
                let decision = decide(Asked { from_me, bot, unknown_senders, listed, wired, ..ASKED });
                assert_eq!(
                    (decision.outcome, decision.rule, decision.refused),
                    (EngageVerdict::Ignore, rule, None),
                    "{unknown_senders:?} {listed:?}"
                );
            }
        }
    }
}

#[test]
fn a_late_message_that_would_wake_is_context_unless_somebody_said_yes_to_it() {
    assert_eq!(decide(ASKED).outcome, EngageVerdict::Wake);
    let late = decide(Asked { late: true, ..ASKED });
    assert_eq!((late.outcome, late.rule), (EngageVerdict::Context, Rule::Late));
    assert_eq!(decide(Asked { late: true, approved: Some(1), ..ASKED }).outcome, EngageVerdict::Wake);
}

#[test]
fn an_answer_to_the_agent_engages_if_its_author_is_heard_and_the_host_s_own_word_always_does() {
    let answer = Asked { wired: Some(STICKY), text: "2", answers: Some(3), ..ASKED };
    let heard = decide(Asked { standing: Standing::Member, ..answer });
    assert_eq!((heard.outcome, heard.rule), (EngageVerdict::Wake, Rule::Asked));
    assert_eq!(heard.reason, "it answers the agent's question #q3");
    let late = decide(Asked { standing: Standing::Member, late: true, ..answer });
    assert_eq!(late.outcome, EngageVerdict::Wake);
    let stranger = Asked { standing: Standing::Unknown, unknown_senders: UnknownSenders::Strict, ..answer };
    assert_eq!(decide(stranger).outcome, EngageVerdict::Ignore);
    let told = decide(Asked { from_me: true, named: false, ..stranger });
    assert_eq!((told.outcome, told.rule), (EngageVerdict::Wake, Rule::Asked));
    assert_eq!(told.reason, "it tells the agent what became of its question #q3");
    let gone = decide(Asked { wired: None, ..answer });
    assert_eq!(gone.outcome, EngageVerdict::Ignore, "nobody asks there any more");
}

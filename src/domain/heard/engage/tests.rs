use serde::Deserialize;

use super::*;

fn rule(mode: Engages, trigger: &str, ignored: IgnoredMessages) -> WiringRule {
    WiringRule { mode, trigger: trigger.to_owned(), ignored }
}

fn pattern(pattern: &str) -> WiringRule {
    rule(Engages::Pattern(pattern.to_owned()), "@Andy", IgnoredMessages::Drop)
}

fn says(text: &str) -> Heard<'_> {
    Heard { text, author: Author::Person, mentioned: Mentioned::No, sticky: Sticky::No }
}

#[track_caller]
fn check(rule: &WiringRule, heard: &Heard<'_>, outcome: EngageVerdict, by: Rule) {
    let verdict = decide(rule, heard);
    assert_eq!((verdict.outcome, verdict.rule), (outcome, by), "{rule:?} on {heard:?}: {}", verdict.reason);
    assert!(!verdict.reason.is_empty());
}

#[test]
fn a_trigger_is_found_where_v1_finds_it() {
    #[derive(Deserialize)]
    struct Fixture {
        triggers: Vec<String>,
        texts: Vec<String>,
        found: Vec<String>,
    }
    let fixture: Fixture =
        serde_json::from_str(include_str!("../../../../tests/fixtures/v1_triggers.json")).unwrap();
    for (trigger, answers) in fixture.triggers.iter().zip(&fixture.found) {
        let trigger = trigger::Trigger::new(trigger);
        for (text, answer) in fixture.texts.iter().zip(answers.chars()) {
            assert_eq!(trigger.begins(text), answer == '1', "{trigger} in {text:?}");
        }
    }
}

#[test]
fn the_default_trigger_is_matched_as_v1_tested_it() {
    for (text, found) in [
        ("@Andy hello", true),
        ("@andy hello", true),
        ("@ANDY hello", true),
        ("hello @Andy", false),
        ("@Andyextra hello", false),
        ("@Andy's thing", true),
        ("@Andy", true),
        ("  @Andy hey", true),
    ] {
        assert_eq!(trigger::Trigger::new("@Andy").begins(text), found, "{text}");
    }
}

#[test]
fn a_groups_own_trigger_is_literal_and_replaces_the_default() {
    for (trigger, text, found) in [
        ("@Claw", "@Claw hello", true),
        ("@Claw", "@Andy hello", false),
        (" @Claw ", "@claw hello", true),
        ("@C.L.A.U.D.E", "@C.L.A.U.D.E hi", true),
        ("@C.L.A.U.D.E", "@CXLXAUXDXE hi", false),
        ("", "hello", false),
        ("  ", "hello", false),
    ] {
        assert_eq!(trigger::Trigger::new(trigger).begins(text), found, "{trigger:?} {text}");
    }
}

#[test]
fn groups_registered_in_v1s_terms_process_what_v1_processed() {
    use V1Group::*;
    for (group, requires_trigger, trigger, text, processed) in [
        (Main, None, "@Andy", "hello", true),
        (Main, Some(true), "@Andy", "hello", true),
        (Other, None, "@Andy", "hello", false),
        (Other, Some(true), "@Andy", "hello", false),
        (Other, Some(true), "@Andy", "@Andy do something", true),
        (Other, Some(true), "@Claw", "@Claw do something", true),
        (Other, Some(true), "@Claw", "@Andy do something", false),
        (Other, Some(false), "@Andy", "hello", true),
    ] {
        let (mode, ignored) = from_v1(group, requires_trigger);
        let verdict = decide(&rule(mode, trigger, ignored), &says(text));
        let expected = if processed { EngageVerdict::Wake } else { EngageVerdict::Context };
        assert_eq!(verdict.outcome, expected, "{group:?} {requires_trigger:?} {trigger} {text}");
    }
}

#[test]
fn each_mode_engages_by_its_own_rules() {
    use {EngageVerdict::*, Engages::*, IgnoredMessages::*};
    let mentioned = Heard { mentioned: Mentioned::Yes, ..says("hello") };
    let sticky = Heard { sticky: Sticky::Yes, ..says("hello") };
    let in_main_line = Heard { sticky: Sticky::MainLine, ..says("hello") };
    for (mode, heard, outcome, by) in [
        (Mention, mentioned, Wake, Rule::Mention),
        (Mention, says("@andy hi"), Wake, Rule::Trigger),
        (Mention, sticky, Ignore, Rule::None),
        (Mention, says("hello"), Ignore, Rule::None),
        (MentionSticky, mentioned, Wake, Rule::Mention),
        (MentionSticky, says("@andy hi"), Wake, Rule::Trigger),
        (MentionSticky, sticky, Wake, Rule::Sticky),
        (MentionSticky, says("hello"), Ignore, Rule::None),
        (MentionSticky, in_main_line, Ignore, Rule::None),
        (MentionSticky, Heard { mentioned: Mentioned::Yes, ..in_main_line }, Wake, Rule::Mention),
        (Pattern(".".to_owned()), says(""), Wake, Rule::Pattern),
        (Pattern(".".to_owned()), says("\n"), Wake, Rule::Pattern),
        (Pattern("^deploy\\b".to_owned()), says("deploy it"), Wake, Rule::Pattern),
        (Pattern("^deploy\\b".to_owned()), says("Deploy it"), Ignore, Rule::None),
        (Pattern("^deploy\\b".to_owned()), says(" deploy it"), Ignore, Rule::None),
        (Pattern("^deploy\\b".to_owned()), mentioned, Ignore, Rule::None),
        (Pattern("^deploy\\b".to_owned()), says("@Andy deploy"), Ignore, Rule::None),
        (Pattern(String::new()), says("x"), Wake, Rule::Pattern),
    ] {
        check(&rule(mode.clone(), "@Andy", Drop), &heard, outcome, by);
        let kept = if outcome == Ignore { Context } else { outcome };
        check(&rule(mode, "@Andy", Accumulate), &heard, kept, by);
    }
}

#[test]
fn own_messages_and_other_bots_neither_engage_nor_become_context() {
    for (author, by) in [(Author::Me, Rule::Own), (Author::Bot, Rule::Bot)] {
        let heard = Heard { author, mentioned: Mentioned::Yes, sticky: Sticky::Yes, text: "@Andy hi" };
        for mode in
            [Engages::Pattern(".".to_owned()), Engages::Pattern("(".to_owned()), Engages::MentionSticky]
        {
            check(&rule(mode, "@Andy", IgnoredMessages::Accumulate), &heard, EngageVerdict::Ignore, by);
        }
    }
}

#[test]
fn a_pattern_that_cannot_be_used_engages_and_is_reported() {
    for bad in ["(", "a**", "(?i:a)", "((a{100}){100}){100}"] {
        let verdict = decide(&pattern(bad), &says("hello"));
        assert_eq!((verdict.outcome, verdict.rule), (EngageVerdict::Wake, Rule::Pattern), "{bad}");
        assert!(matches!(verdict.problem, Some(Problem::InvalidPattern { .. })), "{bad}: {verdict:?}");
    }
    assert_eq!(decide(&pattern("a"), &says("a")).problem, None);
}

#[test]
fn a_message_that_takes_a_pattern_too_long_is_held_and_reported() {
    let text = "ab".repeat(3_000);
    let verdict = decide(&pattern("(.*)(.*)(.*)\\1\\2\\3z"), &says(&text));
    assert_eq!((verdict.outcome, verdict.rule), (EngageVerdict::Held, Rule::Pattern));
    assert!(matches!(verdict.problem, Some(Problem::TooMuchWork { .. })), "{verdict:?}");
}

#[test]
fn a_chat_that_nobody_set_up_listens_as_its_kind_does() {
    for (chat, listens) in [
        (ChatKind::Direct, (Engages::Pattern(".".to_owned()), IgnoredMessages::Drop)),
        (ChatKind::ThreadedGroup, (Engages::MentionSticky, IgnoredMessages::Accumulate)),
        (ChatKind::Group, (Engages::Mention, IgnoredMessages::Accumulate)),
    ] {
        assert_eq!(default_for(chat), listens, "{chat:?}");
    }
}

#[test]
fn a_mark_counts_in_threads_and_with_one_person_and_in_no_main_line() {
    use chats::ChatKind::{Direct, Group};
    for (kind, main_thread, thread, of_marked, of_others) in [
        (Group, "", "", Sticky::MainLine, Sticky::MainLine),
        (Group, "", "9", Sticky::Yes, Sticky::No),
        (Group, "", "1", Sticky::Yes, Sticky::No),
        (Group, "1", "", Sticky::MainLine, Sticky::MainLine),
        (Group, "1", "1", Sticky::MainLine, Sticky::MainLine),
        (Group, "1", "42", Sticky::Yes, Sticky::No),
        (Direct, "", "", Sticky::Yes, Sticky::No),
        (Direct, "1", "", Sticky::Yes, Sticky::No),
    ] {
        let of = |is_marked| Sticky::of(kind, main_thread, thread, is_marked);
        assert_eq!((of(true), of(false)), (of_marked, of_others), "{main_thread:?} {thread:?}");
    }
}

#[test]
fn the_kind_of_a_chat_comes_from_its_row() {
    assert_eq!(ChatKind::of_columns(chats::ChatKind::Direct, false), ChatKind::Direct);
    assert_eq!(ChatKind::of_columns(chats::ChatKind::Direct, true), ChatKind::Direct);
    assert_eq!(ChatKind::of_columns(chats::ChatKind::Group, false), ChatKind::Group);
    assert_eq!(ChatKind::of_columns(chats::ChatKind::Group, true), ChatKind::ThreadedGroup);
}

#[test]
fn a_wiring_by_mention_wakes_unmentioned_only_in_a_thread_that_it_sticks_to() {
    for (mode, threaded, wakes) in [
        (EngageMode::Pattern, false, true),
        (EngageMode::Pattern, true, true),
        (EngageMode::Mention, false, false),
        (EngageMode::Mention, true, false),
        (EngageMode::MentionSticky, false, false),
        (EngageMode::MentionSticky, true, true),
    ] {
        assert_eq!(wakes_unmentioned(mode, threaded), wakes, "{mode} {threaded}");
    }
}

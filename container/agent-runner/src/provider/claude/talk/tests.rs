//! The machine against recorded conversations, and against what none of them has.

use proptest::prelude::*;

use super::*;
use crate::{
    provider::claude::{
        event::{Outcome, Retry},
        samples::{Spoken, VERSIONS, sample},
    },
    tools::{Place, Reach},
};

const STALL: Duration = Duration::from_secs(7);

fn talk() -> Talk {
    talk_that(Say::Final)
}

fn talk_that(say: Say) -> Talk {
    Talk::new(Rules {
        say,
        place: Place { chat_jid: "c".to_owned(), reach: Reach::Own, zone: "UTC".to_owned() },
        blocked: vec!["AskUserQuestion".to_owned()],
        stall: STALL,
    })
}

fn batch(id: &str) -> Turn {
    Turn { batch: Some(id.to_owned()), prompt: format!("prompt {id}") }
}

/// Returns an act in a few words; those that only keep the talk going are left out.
fn words(act: &Act) -> Option<String> {
    Some(match act {
        Act::Report(Report::Session(_) | Report::Alive) | Act::Write(_) | Act::Note(_) => return None,
        Act::Report(Report::TurnDone { say, batches }) => format!("done {say:?} {batches:?}"),
        Act::Report(Report::TurnDeferred { say, batches }) => format!("deferred {say:?} {batches:?}"),
        Act::Report(Report::Failed(error)) => format!("failed {}", error.split_once(':').unwrap().0),
        Act::Report(Report::Progress(text)) => format!("progress {}", text.as_deref().unwrap_or_default()),
        Act::Report(Report::ToolStarted { name, about, .. }) => format!("uses {name}: {about}"),
        Act::Report(Report::ToolEnded { failed, .. }) => format!("used, failed: {failed}"),
        Act::Report(Report::InTool { name, timeout_ms }) => format!("tool {name} {timeout_ms:?}"),
        Act::Report(Report::ToolFinished) => "tool over".to_owned(),
        Act::Report(other) => format!("{other:?}"),
        Act::Call(call) => format!("call {}", call.commands[0]["type"]),
        Act::Archive { session, .. } => format!("archive {session}"),
        Act::Fresh => "fresh".to_owned(),
        Act::Close => "close".to_owned(),
        Act::Fail => "fail".to_owned(),
    })
}

/// Plays a conversation; each message that was written is a batch, numbered from 1.
fn play(version: &str, name: &str) -> Vec<String> {
    let mut talk = talk();
    let mut acts = Vec::new();
    let mut batches = 0;
    // Recorded without our tools.
    let connected = |event| match event {
        Event::Init { session, .. } => {
            Event::Init { session, tools: Some("connected".to_owned()), away: Vec::new() }
        }
        other => other,
    };
    for spoken in sample(version, name) {
        match spoken {
            Spoken::In(line) if line["type"] == "user" => {
                batches += 1;
                let uuid = line["uuid"].as_str().unwrap_or_default().to_owned();
                acts.push(talk.turn_as(uuid, batch(&batches.to_string())));
            }
            Spoken::In(line) if line == "<EOF>" => acts.extend(talk.close()),
            Spoken::In(_) => {}
            Spoken::Out(event) => acts.extend(talk.on(connected(event))),
        }
    }
    acts.iter().filter_map(words).collect()
}

fn check(name: &str, expected: &[&str]) {
    for version in VERSIONS {
        assert_eq!(play(version, name), expected, "{version} {name}");
    }
}

#[test]
fn a_turn_is_handled_at_its_result_and_the_end_comes_when_idle() {
    check("01-plain-text", &["done Some(\"Hello.\") [\"1\"]", "close"]);
    check("02-partial-messages", &["done Some(\"Hello there, friend.\") [\"1\"]", "close"]);
}

#[test]
fn a_message_that_came_while_a_tool_ran_is_handled_with_the_turn_it_joined() {
    check("06-push-mid-tool", &["done Some(\"After.\") [\"1\", \"2\"]", "close"]);
}

#[test]
fn messages_that_came_while_the_model_spoke_are_handled_by_a_turn_of_their_own() {
    check(
        "07-push-mid-stream",
        &[
            "done Some(\"one two three four five six\") [\"1\"]",
            "done Some(\"Second.\") [\"2\", \"3\"]",
            "close",
        ],
    );
}

#[test]
fn an_interrupted_turn_has_failed() {
    for version in VERSIONS {
        assert_eq!(play(version, "08-interrupt")[..2], ["failed claude/interrupted", "fail"], "{version}");
    }
}

#[test]
fn an_unknown_session_is_begun_afresh_and_its_message_sent_again() {
    check("09-resume-unknown", &["fresh"]);
    let mut talk = talk();
    talk.turn_as("u".to_owned(), batch("1"));
    let again = talk.again();
    assert_eq!((again.len(), &again[0]["uuid"]), (1, &json!("u")));
}

#[test]
fn waits_for_the_api_are_progress_and_its_last_word_is_an_error_never_an_answer() {
    for version in VERSIONS {
        let said = play(version, "10-api-529");
        assert!(said[0].starts_with("progress waiting 0.") && said[0].contains("529 overloaded"), "{said:?}");
        assert_eq!(said[2..4], ["failed claude/overloaded", "fail"], "{said:?}");
        let said = play(version, "11-api-401");
        assert_eq!(said[1..3], ["failed claude/authentication", "fail"], "{said:?}");
    }
}

#[test]
fn what_the_cli_itself_answers_to_a_slash_is_no_answer() {
    assert_eq!(play("2.1.197", "15-slash-command-text")[..2], ["failed claude/not_the_model", "fail"]);
}

fn state(talk: &mut Talk, state: State) -> Vec<Act> {
    talk.on(Event::State(state))
}

fn result(text: &str) -> Event {
    let outcome = Outcome { subtype: "success".to_owned(), text: text.to_owned(), ..Outcome::default() };
    Event::Result(Box::new(outcome))
}

fn said(acts: &[Act]) -> Vec<String> {
    acts.iter().filter_map(words).collect()
}

/// Starts a turn that the CLI has taken.
fn taken(talk: &mut Talk, id: &str) {
    talk.turn_as(format!("u{id}"), batch(id));
    state(talk, State::Running);
    talk.on(Event::Taken { uuid: format!("u{id}") });
}

#[test]
fn background_work_defers_the_end_until_the_result_that_it_wakes() {
    let mut talk = talk();
    taken(&mut talk, "1");
    talk.on(Event::TaskStarted { id: "t".to_owned() });
    assert_eq!(said(&talk.on(result("Started."))), ["deferred Some(\"Started.\") [\"1\"]"]);
    state(&mut talk, State::Idle);
    assert_eq!(talk.patience(), None);
    talk.on(Event::TaskEnded { id: "t".to_owned() });
    assert_eq!(talk.patience(), Some(WAKING));
    state(&mut talk, State::Running);
    assert_eq!(said(&talk.on(result("It is done."))), ["Say(\"It is done.\")"]);
}

#[test]
fn background_work_that_wakes_nobody_ends_with_a_record_too() {
    let mut talk = talk();
    taken(&mut talk, "1");
    talk.on(Event::TaskStarted { id: "t".to_owned() });
    talk.on(result(""));
    state(&mut talk, State::Idle);
    talk.on(Event::Tasks(Vec::new()));
    assert_eq!(said(&talk.silent()), ["done None []"]);
    assert_eq!(talk.patience(), None);
}

#[test]
fn a_failed_turn_that_nobody_asked_for_does_not_end_the_run() {
    let mut talk = talk();
    let outcome = Outcome {
        subtype: "success".to_owned(),
        is_error: true,
        api_status: Some(529),
        ..Outcome::default()
    };
    assert_eq!(said(&talk.on(Event::Result(Box::new(outcome)))), ["failed claude/overloaded"]);
}

#[test]
fn silence_is_told_apart_by_what_was_waited_for() {
    let stalled = |event: Event| {
        let mut talk = talk();
        taken(&mut talk, "1");
        talk.on(event);
        (talk.patience(), said(&talk.silent()))
    };
    let fails = |kind: &str| vec![format!("failed claude/{kind}"), "fail".to_owned()];
    assert_eq!(stalled(Event::Requesting), (Some(STALL), fails("stalled_before_answer")));
    assert_eq!(stalled(Event::Stream { words: String::new() }), (Some(STALL), fails("stalled_mid_answer")));
    assert_eq!(stalled(Event::Compacting), (Some(STALL * 3), fails("stalled_before_answer")));
    let retry = Retry { attempt: 1, most: 2, delay_ms: 1000, status: None, error: "unknown".to_owned() };
    assert_eq!(stalled(Event::Retry(retry)).0, Some(STALL + Duration::from_secs(1)));
}

fn hook(name: &str, tool: &str, id: &str) -> Event {
    let input = json!({"hook_event_name": name, "tool_name": tool, "tool_use_id": id, "tool_input": {"timeout": 5000, "command": "ls"}});
    Event::Asked { request: format!("r-{id}"), what: Ask::Hook(input) }
}

#[test]
fn a_tool_has_all_the_time_it_has_declared() {
    let mut talk = talk();
    taken(&mut talk, "1");
    assert_eq!(said(&talk.on(hook("PreToolUse", "Bash", "t"))), ["tool Bash Some(5000)", "uses Bash: ls"]);
    assert_eq!(talk.patience(), None);
    let failed = said(&talk.on(hook("PostToolUseFailure", "Bash", "t")));
    assert_eq!(failed, ["used, failed: true", "tool over"]);
    assert_eq!(talk.patience(), Some(STALL));
    assert!(said(&talk.on(hook("PostToolUse", "Bash", "t"))).is_empty(), "it has ended once");
}

#[test]
fn each_of_several_tools_is_told_with_its_end() {
    let mut talk = talk();
    taken(&mut talk, "1");
    assert_eq!(said(&talk.on(hook("PreToolUse", "Bash", "a"))), ["tool Bash Some(5000)", "uses Bash: ls"]);
    assert_eq!(said(&talk.on(hook("PreToolUse", "Read", "b"))), ["uses Read: ls"]);
    assert_eq!(said(&talk.on(hook("PostToolUse", "Read", "b"))), ["used, failed: false"]);
    assert_eq!(said(&talk.on(hook("PostToolUse", "Bash", "a"))), ["used, failed: false", "tool over"]);
}

#[test]
fn a_blocked_tool_is_refused_and_reported_only_when_it_has_run_all_the_same() {
    let mut talk = talk();
    taken(&mut talk, "1");
    let call = |id: &str| Call { id: id.to_owned(), name: "AskUserQuestion".to_owned() };
    let calls = Event::Assistant {
        by: By::Model,
        error: None,
        text: String::new(),
        calls: vec![call("a"), call("b")],
    };
    assert!(said(&talk.on(calls)).is_empty());
    let refused = talk.on(hook("PreToolUse", "AskUserQuestion", "a"));
    assert!(format!("{refused:?}").contains("deny"), "{refused:?}");
    assert!(said(&refused).is_empty());
    assert!(said(&talk.on(Event::Answers(vec![("a".to_owned(), Ran::Badly)]))).is_empty());
    let ran = talk.on(Event::Answers(vec![("b".to_owned(), Ran::Well)]));
    assert_eq!(said(&ran), ["BlockedTool(\"AskUserQuestion\")"]);
}

#[test]
fn the_cli_s_own_question_is_asked_in_the_chat_and_never_runs() {
    let mut talk = talk();
    taken(&mut talk, "1");
    let ask = |input: Value| {
        let hook = json!({"hook_event_name": "PreToolUse", "tool_name": "AskUserQuestion", "tool_use_id": "t", "tool_input": input});
        Event::Asked { request: "r".to_owned(), what: Ask::Hook(hook) }
    };
    let acts = talk.on(ask(json!({"questions": [
        {"question": "Which hotel?", "options": [{"label": "Ibis", "description": "cheap"}, {"label": "Hilton"}]},
        {"question": "Which days?"}]})));
    let [Act::Call(call)] = acts.as_slice() else { panic!("{acts:?}") };
    let asked = |n: usize| (&call.commands[n]["question"], &call.commands[n]["options"]);
    assert_eq!(asked(0), (&json!("Which hotel?\n- Ibis: cheap"), &json!(["Ibis", "Hilton"])));
    assert_eq!(asked(1), (&json!("Which days?"), &json!([])));
    assert!(call.commands.iter().all(|command| command["type"] == "ask_user"), "{call:?}");
    for nothing in [json!({}), json!({"questions": [{"question": ""}]}), json!("x")] {
        let refused = talk.on(ask(nothing));
        assert!(format!("{refused:?}").contains("deny"), "{refused:?}");
    }
}

#[test]
fn tools_that_are_not_connected_end_the_run() {
    for tools in [None, Some("failed"), Some("pending")] {
        let mut talk = talk();
        taken(&mut talk, "1");
        let init = Event::Init { session: "s".to_owned(), tools: tools.map(str::to_owned), away: Vec::new() };
        assert_eq!(said(&talk.on(init)), ["failed claude/tools", "fail"], "{tools:?}");
    }
}

#[test]
fn an_end_without_a_result_is_told_from_one_in_the_middle() {
    let fails = |kind: &str| [format!("failed claude/{kind}"), "fail".to_owned()];
    let mut talk = talk();
    assert_eq!(said(&talk.ended(&Ended::Well(String::new()))), fails("no_result"));
    assert_eq!(said(&talk.ended(&Ended::Badly("signal 9".to_owned()))), fails("exited"));
    taken(&mut talk, "1");
    talk.on(result("x"));
    assert_eq!(said(&talk.ended(&Ended::Well(String::new()))), fails("exited"));
}

#[test]
fn a_line_that_is_not_known_is_noted_once() {
    let mut talk = talk();
    let unknown = || Event::Unknown("type \"x\"".to_owned());
    assert_eq!((talk.on(unknown()).len(), talk.on(unknown()).len()), (1, 0));
}

proptest! {
    /// A model: a batch is named once, only after it was taken, and only at a result.
    #[test]
    fn batches_are_handled_once_and_only_when_taken(steps in proptest::collection::vec((0_u8..4, 0_usize..6), 0..60)) {
        let mut talk = talk();
        let mut sent: Vec<(usize, bool)> = Vec::new();
        let mut handled = Vec::new();
        let mut next = 0;
        for (step, which) in steps {
            match step {
                0 => {
                    talk.turn_as(format!("u{next}"), batch(&next.to_string()));
                    sent.push((next, false));
                    next += 1;
                }
                1 => {
                    talk.on(Event::Taken { uuid: format!("u{which}") });
                    sent.iter_mut().filter(|(n, _)| *n == which).for_each(|(_, taken)| *taken = true);
                }
                2 => {
                    let expected: Vec<String> =
                        sent.iter().filter(|(_, taken)| *taken).map(|(n, _)| n.to_string()).collect();
                    sent.retain(|(_, taken)| !taken);
                    let named: Vec<String> = talk.on(result("x")).into_iter().flat_map(|act| match act {
                        Act::Report(Report::TurnDone { batches, .. }) => batches,
                        _ => Vec::new(),
                    }).collect();
                    prop_assert_eq!(&named, &expected);
                    handled.extend(named);
                }
                _ => drop(state(&mut talk, State::Idle)),
            }
        }
        let once: BTreeSet<_> = handled.iter().collect();
        prop_assert_eq!(once.len(), handled.len());
    }
}

#[test]
fn texts_before_tools_are_said_at_once_where_that_is_wanted_and_the_last_one_once() {
    let says = |text: &str, tools: &[&str]| Event::Assistant {
        by: By::Model,
        error: None,
        text: text.to_owned(),
        calls: tools.iter().map(|id| Call { id: (*id).to_owned(), name: "Bash".to_owned() }).collect(),
    };
    let piece = |words: &str| Event::Stream { words: words.to_owned() };
    let said = "Say(\"I look.\")";
    let both = "done Some(\"One.\\n\\nTwo.\") []";
    for (say, expected) in [
        (Say::Final, ["-", "-", "-", "-", "-", "-", "-", "done Some(\"Two.\") []"]),
        (Say::Texts, ["-", "-", said, "-", "-", "-", "-", both]),
        (
            Say::Growing,
            ["so far I ", "so far I look.", said, "so far One", "-", "so far One.\n\nTw", "-", both],
        ),
    ] {
        let mut talk = talk_that(say);
        let outcome = Outcome { subtype: "success".into(), text: "Two.".into(), ..Outcome::default() };
        let _ = talk.turn_as("u".into(), Turn { batch: None, prompt: String::new() });
        let _ = talk.on(Event::Taken { uuid: "u".into() });
        let mut all = Vec::new();
        for event in [
            piece("I "),
            piece("look."),
            says("I look.", &["t1"]),
            piece("One"),
            says("One.", &[]),
            piece("Tw"),
            says("Two.", &[]),
            Event::Result(Box::new(outcome)),
        ] {
            let mut acts: Vec<String> = talk.on(event).iter().filter_map(words).collect();
            acts.extend(talk.so_far().map(|text| format!("so far {text}")));
            all.push(if acts.is_empty() { "-".to_owned() } else { acts.join(" + ") });
        }
        assert_eq!(all, expected, "{say:?}");
    }
}

//! What Slack's own forms of events are for G2.

use std::collections::HashMap;

use channel_protocol::Kind;
use serde_json::json;

use super::*;
use crate::slack::marks::Names;

/// What everybody is called.
struct Town(HashMap<&'static str, &'static str>);

impl Names for Town {
    fn person(&self, id: &str) -> Option<String> {
        self.0.get(id).map(|name| (*name).to_owned())
    }

    fn channel(&self, id: &str) -> Option<String> {
        self.person(id)
    }
}

fn town() -> Town {
    Town(HashMap::from([("U900", "G2"), ("U100", "Ada"), ("C701", "random")]))
}

fn us() -> Us {
    Us { id: "U900".into(), bot: "B900".into(), team: "T1".into(), enterprise: "E1".into() }
}

fn told(message: &Value) -> Option<Event> {
    let town = town();
    let ada = Person { name: "Ada".into(), handle: "ada".into(), bot: false };
    event(message, &Reader { me: "U900", names: &town }, Some(&ada).filter(|_| message["user"] == "U100"))
}

fn envelope(event: Value) -> Value {
    json!({"envelope_id": "e", "type": "events_api", "retry_attempt": 0,
        "payload": {"team_id": "T1", "event_id": "Ev1", "type": "event_callback", "event": event}})
}

fn message(more: Value) -> Value {
    let mut message = json!({"type": "message", "channel": "C700", "user": "U100", "ts": "1793491200.000100",
        "text": "hello", "event_ts": "1793491200.000100", "channel_type": "channel"});
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    message
}

#[test]
fn a_message_is_told_with_its_time_its_author_and_whom_it_names() {
    let event = told(&message(json!({"text": "<@U900> hello"}))).unwrap();
    assert_eq!((&event.key[..], &event.id), ("1793491200.000100", &event.key));
    assert_eq!((&event.from.id[..], &event.from.name[..], &event.from.handle[..]), ("U100", "Ada", "ada"));
    assert_eq!((event.mention, &event.text[..], event.from.bot), (Mention::Me, "@G2 hello", false));
    assert_eq!(event.at.as_deref(), Some("2026-11-01T00:00:00.0001Z"));
    for (text, mention) in [
        ("<!channel> look", Mention::All),
        ("<@U101> look", Mention::None),
        ("@U900 &lt;@U900&gt;", Mention::None),
        ("<@U900|g2>", Mention::Me),
    ] {
        assert_eq!(told(&message(json!({"text": text}))).unwrap().mention, mention, "{text}");
    }
    assert_eq!(told(&message(json!({"text": "<@U900>: /stop"}))).unwrap().text, "/stop");
}

#[test]
fn bots_are_bots_and_our_own_are_ours() {
    let bot = json!({"user": null, "bot_id": "B7", "subtype": "bot_message", "username": "Deploys"});
    let event = told(&message(bot)).unwrap();
    assert_eq!((&event.from.id[..], &event.from.name[..], event.from.bot), ("B7", "Deploys", true));
    let app = json!({"user": "U7", "bot_id": "B7", "bot_profile": {"name": "Deploys"}});
    let event = told(&message(app)).unwrap();
    assert_eq!((&event.from.id[..], &event.from.name[..], event.from.bot), ("U7", "Deploys", true));
    for ours in [json!({"user": "U900"}), json!({"user": null, "bot_id": "B900"})] {
        assert!(is_own(&message(ours), &us()));
    }
    assert!(!is_own(&message(json!({})), &us()));
    assert!(!is_own(&message(json!({})), &Us::default()));
}

#[test]
fn what_stands_in_a_thread_below_our_message_answers_it() {
    let root = message(json!({"thread_ts": "1793491200.000100"}));
    assert_eq!((thread_of(&root), told(&root).unwrap().reply_to), ("", None));
    let below = message(json!({"thread_ts": "1793491100.000100", "parent_user_id": "U900"}));
    let to = told(&below).unwrap().reply_to.unwrap();
    assert_eq!((thread_of(&below), &to.id[..], to.myself), ("1793491100.000100", "1793491100.000100", true));
    let others = message(json!({"thread_ts": "1793491100.000100", "parent_user_id": "U100"}));
    assert_eq!(told(&others).unwrap().reply_to, None);
}

#[test]
fn each_kind_of_message_is_told_with_all_that_people_see_of_it() {
    let file = json!({"id": "F1", "name": "a.png", "mimetype": "image/png", "size": 7, "mode": "hosted"});
    let share = json!({"is_share": true, "is_msg_unfurl": true, "author_name": "Eve", "text": "Transfer 500 &amp; go",
        "from_url": "https://x.slack.com/archives/C1/p1", "fallback": "f"});
    for (more, text) in [
        (json!({"subtype": "me_message", "text": "waves"}), Some("waves")),
        (json!({"subtype": "thread_broadcast"}), Some("hello")),
        (
            json!({"subtype": "channel_topic", "topic": "<https://a.example|plans>"}),
            Some("[Topic of the channel: plans (https://a.example)]"),
        ),
        (json!({"subtype": "huddle_thread", "text": ""}), Some("[Huddle begins]")),
        (json!({"subtype": "channel_join"}), None),
        (json!({"subtype": "pinned_item"}), None),
        (
            json!({"subtype": "brand_new"}),
            Some("[message of a kind that G2 does not know: brand_new]\nhello"),
        ),
        (json!({"text": ""}), Some("[message of which Slack shows apps nothing]")),
        // A page's own words are nobody's, but where there are no others.
        (
            json!({"attachments": [{"from_url": "https://a.example", "title": "A page", "text": "words"}]}),
            Some("hello"),
        ),
        (
            json!({"text": "", "attachments": [{"from_url": "https://a.example", "title": "A page", "text": "words"}]}),
            Some("A page\nwords"),
        ),
        (
            json!({"text": "", "bot_id": "B7", "attachments": [{"pretext": "done", "title": "Build", "title_link": "https://a.example",
                "text": "<https://b.example|log>", "fields": [{"title": "branch", "value": "main"}], "footer": "ci"}]}),
            Some("done\nBuild (https://a.example)\nlog (https://b.example)\nbranch: main\nci"),
        ),
        (json!({"text": "", "attachments": [{"fallback": "all that there is"}]}), Some("all that there is")),
        (
            json!({"text": "fallback", "bot_id": "B7", "blocks": [
                {"type": "header", "text": {"type": "plain_text", "text": "Deploy"}},
                {"type": "section", "text": {"type": "mrkdwn", "text": "of <@U100>"}, "fields": [{"type": "mrkdwn", "text": "*ok*"}],
                    "accessory": {"type": "image", "alt_text": "a graph", "image_url": "https://a.example/x.png"}},
                {"type": "actions", "elements": [{"type": "button", "text": {"type": "plain_text", "text": "Open"}, "url": "https://a.example"},
                    {"type": "button", "text": {"type": "plain_text", "text": "No"}, "value": "n"}]},
                {"type": "context", "elements": [{"type": "plain_text", "text": "just now"}]}]}),
            Some("Deploy\nof @Ada\n[image: a graph]\n*ok*\nOpen (https://a.example)\njust now"),
        ),
        (
            json!({"text": "", "blocks": [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [
                {"type": "text", "text": "see "}, {"type": "user", "user_id": "U100"}, {"type": "emoji", "name": "eyes"},
                {"type": "link", "url": "https://a.example", "text": "it"}]},
                {"type": "rich_text_list", "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": "one"}]}]}]}]}),
            Some("see @Ada👀it (https://a.example)\n• one"),
        ),
        (
            json!({"files": [{"mode": "external", "name": "Plan", "url_private": "https://docs.example/1"}]}),
            Some("hello\n[file: Plan] https://docs.example/1"),
        ),
    ] {
        let event = told(&message(more.clone()));
        assert_eq!(event.as_ref().map(|event| &event.text[..]), text, "{more}");
        if let Some(event) = event {
            assert_eq!(event.attachments, [], "{more}");
        }
    }
    let event = told(&message(json!({"text": "look", "attachments": [share], "files": [file]}))).unwrap();
    assert_eq!((&event.text[..], &event.comment[..]), ("Transfer 500 & go", "look"));
    assert_eq!((event.forwarded_from.as_deref(), event.attachments.len()), (Some("Eve"), 1));
}

#[test]
fn files_say_what_they_are_and_why_they_can_not_be_had() {
    let files = json!([
        {"id": "F1", "name": "a.png", "mimetype": "image/png", "size": 7, "mode": "hosted"},
        {"id": "F2", "name": "v.webm", "mimetype": "audio/webm", "subtype": "slack_audio", "duration_ms": 1600},
        {"id": "F3", "mode": "tombstone"},
        {"id": "F4", "mode": "hidden_by_limit"},
        {"id": "F5", "file_access": "check_file_info"},
        7,
    ]);
    let event = told(&message(json!({"text": "", "subtype": "file_share", "files": files}))).unwrap();
    let all = &event.attachments;
    assert_eq!((all[0].kind, all[0].fetch.as_deref(), all[0].bytes), (Kind::Image, Some("F1"), Some(7)));
    assert_eq!((all[1].kind, all[1].seconds), (Kind::Voice, Some(2)));
    assert!(
        all[2].problem.is_some()
            && all[2].fetch.is_none()
            && all[3].problem.is_some()
            && all[5].problem.is_some()
    );
    assert_eq!((all[4].fetch.as_deref(), all[4].kind), (Some("F5"), Kind::Document));
    let many: Vec<Value> = (0..1000).map(|n| json!({"id": format!("F{n}")})).collect();
    assert_eq!(told(&message(json!({"files": many}))).unwrap().attachments.len(), 32);
}

#[test]
fn an_edit_with_the_same_words_is_none() {
    let town = town();
    let reader = Reader { me: "U900", names: &town };
    let before = message(json!({}));
    let edited = |more: Value| edit(&message(more), &before, "1793491300.000200", &reader, None);
    let event = edited(json!({"text": "bye"})).unwrap();
    assert_eq!(
        (&event.key[..], &event.of[..]),
        ("e1793491200.000100.1793491300.000200", "1793491200.000100")
    );
    assert_eq!((event.kind, event.at.as_deref()), (EventKind::Edit, Some("2026-11-01T00:01:40.0002Z")));
    for same in [
        json!({}),
        json!({"edited": {"user": "U100", "ts": "1793491300.000200"}}),
        json!({"attachments": [{"from_url": "https://a.example", "title": "A page"}]}),
        json!({"reply_count": 1, "subscribed": true}),
    ] {
        assert_eq!(edited(same.clone()), None, "{same}");
    }
    assert!(edited(json!({"files": [{"id": "F1"}]})).is_some());
    assert!(edit(&before, &Value::Null, "1793491300.000200", &reader, None).is_some());
}

#[test]
fn an_envelope_says_what_happened_and_where() {
    let read = |envelope: &Value| read(envelope, &us());
    let (channel, what) = read(&envelope(message(json!({}))));
    assert!(channel == "C700" && matches!(what, Told::Message(_)));
    let changed = json!({"type": "message", "subtype": "message_changed", "channel": "C700", "ts": "9.1", "event_ts": "9.1",
        "message": {"ts": "8.1", "text": "b", "edited": {"ts": "9.0"}}, "previous_message": {"ts": "8.1", "text": "a"}});
    assert!(matches!(read(&envelope(changed)).1, Told::Edited { at, .. } if at == "9.0"));
    let deleted = json!({"type": "message", "subtype": "message_deleted", "channel": "C700", "deleted_ts": "8.1", "event_ts": "9.1",
        "previous_message": {"ts": "8.1", "thread_ts": "7.1"}});
    assert_eq!(read(&envelope(deleted)).1, Told::Deleted { ts: "8.1".into(), thread: "7.1".into() });
    let stone = json!({"type": "message", "subtype": "message_changed", "channel": "C700", "event_ts": "9.1",
        "message": {"ts": "8.1", "subtype": "tombstone"}, "previous_message": {"ts": "8.1", "thread_ts": "8.1"}});
    assert_eq!(read(&envelope(stone)).1, Told::Deleted { ts: "8.1".into(), thread: String::new() });
    let sign = json!({"type": "reaction_added", "user": "U100", "reaction": "+1", "event_ts": "9.1",
        "item": {"type": "message", "channel": "C700", "ts": "8.1"}});
    let (channel, what) = read(&envelope(sign));
    let key = "r9.1.Ev1".to_owned();
    let is = Told::Reaction { user: "U100".into(), ts: "8.1".into(), name: "+1".into(), on: true, key };
    assert_eq!((&channel[..], what), ("C700", is));
    let ours = json!({"type": "reaction_added", "user": "U900", "reaction": "+1", "item": {"type": "message", "channel": "C700", "ts": "8.1"}});
    assert_eq!(read(&envelope(ours)).1, Told::Nothing);
    assert_eq!(read(&envelope(json!({"type": "team_join", "user": {"id": "U1"}}))).1, Told::Nothing);
}

#[test]
fn a_press_and_a_command_say_who_gave_them() {
    let press = json!({"type": "interactive", "envelope_id": "e", "payload": {"type": "block_actions", "team": {"id": "T1"},
        "user": {"id": "U101", "name": "eve"}, "channel": {"id": "C700"}, "container": {"type": "message", "message_ts": "8.1", "channel_id": "C700"},
        "message": {"ts": "8.1", "thread_ts": "7.1"}, "trigger_id": "1.2", "actions": [{"type": "button", "action_id": "b1", "value": "yes", "action_ts": "9.1"}]}});
    let (channel, what) = read(&press, &us());
    let Told::Press(press) = what else { panic!() };
    assert_eq!((&channel[..], &press.key[..], &press.value[..]), ("C700", "p9.1.U101.8.1", "yes"));
    assert_eq!((&press.user[..], &press.ts[..], &press.thread[..]), ("U101", "8.1", "7.1"));
    for (command, given, words) in [
        ("/g2", " stop ", "/stop"),
        ("/g2", "/model small", "/model small"),
        ("/g2", "", "/help"),
        ("/status", "", "/status"),
        ("/model", "x", "/model x"),
    ] {
        let envelope = json!({"type": "slash_commands", "envelope_id": "e", "payload": {"team_id": "T1", "command": command, "text": given,
            "user_id": "U101", "user_name": "eve", "channel_id": "D1", "trigger_id": "1.2"}});
        let (channel, what) = read(&envelope, &us());
        let Told::Command(told) = what else { panic!() };
        assert_eq!((&channel[..], &told.words[..], &told.key[..]), ("D1", words, "c1.2"));
    }
}

#[test]
fn what_is_of_another_workspace_or_can_not_be_read_is_told_apart() {
    let of = |change: &dyn Fn(&mut Value)| {
        let mut envelope = envelope(message(json!({})));
        change(&mut envelope);
        read(&envelope, &us()).1
    };
    assert_eq!(of(&|e| e["payload"]["team_id"] = "T2".into()), Told::Foreign);
    assert_eq!(of(&|e| e["payload"]["team_id"] = 7.into()), Told::Foreign);
    // A channel that two workspaces share names the other one first.
    let shared = of(&|e| {
        e["payload"]["team_id"] = "T2".into();
        e["payload"]["authorizations"] = json!([{"team_id": "T1", "user_id": "U900"}]);
    });
    assert!(matches!(shared, Told::Message(_)));
    let whole = of(&|e| {
        e["payload"]["team_id"] = "T2".into();
        e["payload"]["authorizations"] = json!([{"enterprise_id": "E1", "is_enterprise_install": true}]);
    });
    assert!(matches!(whole, Told::Message(_)));
    for change in [
        &|e: &mut Value| e["payload"] = json!([1]),
        &|e: &mut Value| e["payload"]["event"]["channel"] = json!({"id": "C1"}),
        &|e: &mut Value| e["payload"]["event"]["channel"] = "C1/../x".into(),
        &|e: &mut Value| e["payload"]["event"]["ts"] = "soon".into(),
        &|e: &mut Value| e["payload"]["event"]["ts"] = json!(null),
    ] as [&dyn Fn(&mut Value); 5]
    {
        assert!(matches!(of(change), Told::Unreadable(_)));
    }
    assert_eq!(of(&|e| e["payload"]["event"] = 7.into()), Told::Nothing);
    assert_eq!(of(&|e| e["type"] = "brand_new".into()), Told::Nothing);
}

#[test]
fn a_message_with_wrong_fields_is_told_as_far_as_it_goes() {
    let odd = json!({"attachments": [5, {"text": 7, "fields": "x"}], "files": {"x": 1}, "blocks": "none", "user": 9, "edited": [],
        "thread_ts": 5, "bot_profile": "x", "subtype": null, "text": "half"});
    let event = told(&message(odd)).unwrap();
    assert_eq!((&event.text[..], &event.from.id[..]), ("half", ""));
    let mut deep = json!({"type": "section", "text": {"type": "mrkdwn", "text": "bottom"}});
    for _ in 0..100 {
        deep = json!({"type": "section", "elements": [deep]});
    }
    let long = "é".repeat(1 << 20);
    let event = told(&message(json!({"text": long, "blocks": [deep]}))).unwrap();
    assert!(event.text.len() <= 40 << 10);
}

#[test]
fn a_time_is_read_exactly_and_written_back() {
    for (ts, is) in [("1793491200.000100", 1_793_491_200_000_100), ("1.5", 1_500_000), ("7", 7_000_000)] {
        assert_eq!(micros(ts), is);
    }
    for none in ["", ".", "1.", "x.1", "-1.0", "1.0000001", "99999999999999999999.0", "1.+5", "1 .5"] {
        assert_eq!(micros(none), u64::from(none == "1.") * 1_000_000, "{none}");
    }
    assert_eq!(time(1_793_491_200_000_100), "1793491200.000100");
    assert!(is_id("C0A") && !is_id("") && !is_id("c1") && !is_id("C1:2"));
}

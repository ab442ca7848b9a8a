use proptest::prelude::*;
use serde_json::json;

use super::*;

const KEY: Key = Key([7; 32]);

fn claims() -> Claims {
    Claims {
        agent_id: "family".into(),
        workspace_id: "root".into(),
        role: "group".into(),
        session_id: None,
        run_id: 3,
        iat: 1_000,
        exp: 2_000,
        jti: "3-a".into(),
    }
}

fn sealed(key: &Key, mut command: Value) -> Value {
    command["token"] = RunToken::sign(key, &claims()).seal(&command).unwrap().into();
    command
}

fn verified(command: &Value) -> Option<Result<Claims, Fault>> {
    verify(&KEY, command.to_string().as_bytes())
}

fn folder(name: &str) -> Folder {
    Folder::parse(name).unwrap()
}

#[test]
fn a_sealed_command_gives_its_claims_however_it_is_laid_out() {
    let command = sealed(&KEY, json!({"type": "x", "b": [1, 2.5, {"z": "é\n", "a": null}], "a": true}));
    assert_eq!(verified(&command), Some(Ok(claims())));
    let pretty = serde_json::to_vec_pretty(&command).unwrap();
    assert_eq!(verify(&KEY, &pretty), Some(Ok(claims())));
    let token = command["token"].as_str().unwrap();
    let turned =
        format!(r#"{{"token":"{token}","type":"x","a":true,"b":[1,2.5,{{"a":null,"z":"\u00e9\n"}}]}}"#);
    assert_eq!(verify(&KEY, turned.as_bytes()), Some(Ok(claims())));
    let spelt = turned.replace("token", r"\u0074\u006F\u006b\u0065\u006E");
    assert_eq!(verify(&KEY, spelt.as_bytes()), Some(Ok(claims())));
}

#[test]
fn a_command_without_a_token_is_told_from_one_with_a_bad_token() {
    let cases = [
        (json!({"type": "x"}), None),
        (json!({"type": "x", "token": null}), None),
        (json!({"type": "x", "token": 5}), Some(Err(Fault::Unreadable))),
        (json!({"type": "x", "token": ""}), Some(Err(Fault::Unreadable))),
        (json!({"type": "x", "token": "a.b.c"}), Some(Err(Fault::Unreadable))),
        (json!({"type": "x", "token": "e30.AAAA"}), Some(Err(Fault::NotOfThisCommand))),
        (json!({"type": "x", "token": "x".repeat(5_000)}), Some(Err(Fault::Unreadable))),
        // The run token itself is no command's token.
        (json!({"type": "x", "token": RunToken::sign(&KEY, &claims())}), Some(Err(Fault::NotOfThisCommand))),
        (sealed(&Key([8; 32]), json!({"type": "x"})), Some(Err(Fault::NotOfThisCommand))),
    ];
    for (command, outcome) in cases {
        assert_eq!(verified(&command), outcome, "{command}");
    }
    let one = sealed(&KEY, json!({"type": "x", "text": "one"}));
    let other = json!({"type": "x", "text": "other", "token": one["token"]});
    assert_eq!(verified(&other), Some(Err(Fault::NotOfThisCommand)));
}

#[test]
fn a_token_counts_for_its_group_while_its_run_lives_and_for_what_was_written_before_it_ended() {
    let family = folder("family");
    let seen = |run: Option<(&str, Option<i64>)>, written: Option<i64>| Seen {
        group: &family,
        workspace: "root",
        run: run.map(|(group, ended)| (folder(group), ended.map(Time))),
        written: written.map(Time),
        vouched: false,
    };
    let live = seen(Some(("family", None)), Some(1_500_000));
    let over = |written| seen(Some(("family", Some(1_600_000))), written);
    let main = folder("main");
    for (what, seen, now, ok) in [
        ("live", live.clone(), 1_600_000, true),
        ("the last instant", live.clone(), 1_999_999, true),
        ("expired", live.clone(), 2_000_000, false),
        ("expired, put back by a person", Seen { vouched: true, ..live.clone() }, 2_000_000, true),
        ("another group's box", Seen { group: &main, ..live.clone() }, 1_600_000, false),
        ("the same, put back", Seen { group: &main, vouched: true, ..live.clone() }, 1_600_000, false),
        ("another root", Seen { workspace: "copy", ..live.clone() }, 1_600_000, false),
        ("no such run", seen(None, Some(1_500_000)), 1_600_000, false),
        ("another group's run", seen(Some(("main", None)), Some(1_500_000)), 1_600_000, false),
        ("written before the end", over(Some(1_600_000)), 1_700_000, true),
        ("written after the end", over(Some(1_600_001)), 1_700_000, false),
        ("nobody knows when", over(None), 1_700_000, false),
        ("the same, put back", Seen { vouched: true, ..over(None) }, 1_700_000, true),
    ] {
        let judged = judge(&claims(), &seen, Time(now));
        assert_eq!(judged.is_ok(), ok, "{what}: {judged:?}");
        assert!(judged.is_ok() || judged.unwrap_err().code == Code::NotAuthorized, "{what}");
    }
}

#[test]
fn neither_key_nor_token_is_ever_shown() {
    let token = RunToken::sign(&KEY, &claims());
    assert_eq!(format!("{KEY:?} {token:?} {:?}", RunToken::default()), "Key(…) RunToken(…) RunToken(none)");
}

proptest! {
    #[test]
    fn no_flipped_bit_of_a_token_ever_verifies(text in "[ -~]{0,40}", at in any::<prop::sample::Index>(), bit in 0..7_u8) {
        let mut command = sealed(&KEY, json!({"type": "send_message", "text": text}));
        let mut token = command["token"].as_str().unwrap().as_bytes().to_vec();
        let at = at.index(token.len());
        token[at] ^= 1 << bit;
        command["token"] = String::from_utf8(token).unwrap().into();
        prop_assert!(matches!(verified(&command), Some(Err(_))));
    }

    #[test]
    fn no_changed_command_ever_verifies(text in "[ -~]{1,40}", at in any::<prop::sample::Index>(), bit in 0..7_u8) {
        let command = sealed(&KEY, json!({"type": "send_message", "text": text, "n": 12}));
        let mut changed = text.into_bytes();
        let at = at.index(changed.len());
        changed[at] ^= 1 << bit;
        let mut other = command.clone();
        other["text"] = String::from_utf8(changed).unwrap().into();
        prop_assert_eq!(verified(&other), Some(Err(Fault::NotOfThisCommand)));
        prop_assert_eq!(verified(&command), Some(Ok(claims())));
    }

    #[test]
    fn nothing_that_a_container_writes_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), token in ".{0,80}") {
        let _ = verify(&KEY, &bytes);
        let _ = verified(&json!({"type": "x", "token": token}));
    }
}

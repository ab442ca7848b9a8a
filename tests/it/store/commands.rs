//! Command files and their receipts.

use super::*;
use g2::domain::states::CommandOutcome;
use ipc_handlers::Code;

#[tokio::test]
async fn a_file_that_comes_back_after_its_receipt_is_not_decided_again() {
    let world = world().await;
    let bytes = br#"{"type":"send_message","requestId":"r","chatJid":"local:main","text":"once"}"#;
    let first = world.store.settle(command("main", 7, bytes), Zones::utc(), NOW).await.unwrap();
    let same_claim = world.store.settle(command("main", 7, bytes), Zones::utc(), NOW).await.unwrap();
    let same_file = CommandFile { claim: 8, ..command("main", 7, bytes) };
    let same_file = world.store.settle(same_file, Zones::utc(), NOW).await.unwrap();
    assert!(first.fresh && !same_claim.fresh && !same_file.fresh);
    assert_eq!(first.receipt.reply, same_file.receipt.reply);
    assert_eq!(world.texts("local:main").await, ["once"]);
}

#[tokio::test]
async fn a_file_that_was_rewritten_in_place_is_another_command() {
    let world = world().await;
    let ask = |text: &str| format!(r#"{{"type":"send_message","chatJid":"local:main","text":"{text}"}}"#);
    let linked = |claim, text: &str| CommandFile {
        origin: b"one inode".to_vec(),
        ..command("main", claim, ask(text).as_bytes())
    };
    for (claim, text) in [(1, "a"), (2, "b"), (3, "b")] {
        world.store.settle(linked(claim, text), Zones::utc(), NOW).await.unwrap();
    }
    assert_eq!(world.texts("local:main").await, ["a", "b"]);
}

#[tokio::test]
async fn a_request_id_is_answered_once_and_other_bytes_are_a_conflict() {
    let world = world().await;
    let ask = |text: &str| {
        format!(r#"{{"type":"send_message","requestId":"r","chatJid":"local:main","text":"{text}"}}"#)
    };
    let first = world.store.settle(command("main", 1, ask("a").as_bytes()), Zones::utc(), NOW).await.unwrap();
    let again = world.store.settle(command("main", 2, ask("a").as_bytes()), Zones::utc(), NOW).await.unwrap();
    let other = world.store.settle(command("main", 3, ask("b").as_bytes()), Zones::utc(), NOW).await.unwrap();
    assert_eq!(first.receipt.reply, again.receipt.reply);
    assert_eq!(other.receipt.code, Some(Code::Conflict));
    let elsewhere = br#"{"type":"send_message","requestId":"r","chatJid":"local:family","text":"c"}"#;
    let elsewhere = world.store.settle(command("family", 4, elsewhere), Zones::utc(), NOW).await.unwrap();
    assert_eq!(elsewhere.receipt.outcome, CommandOutcome::Applied, "ids are each group's own");
    let later = NOW.plus_ms(8 * 24 * 3_600_000);
    let forgotten =
        world.store.settle(command("main", 5, ask("b").as_bytes()), Zones::utc(), later).await.unwrap();
    assert_eq!(forgotten.receipt.outcome, CommandOutcome::Applied, "remembered for seven days");
    assert_eq!(world.texts("local:main").await, ["a", "b"]);
}

#[tokio::test]
async fn what_a_search_found_is_the_answer_of_a_command_that_is_obeyed_and_is_written_down_with_it() {
    let world = world().await;
    let found = Some(std::sync::Arc::new(br#"{"ok":true}"#.to_vec()));
    let search = |group: &str, claim, of: &str| {
        let json = format!(
            r#"{{"type":"search_sessions","requestId":"r{claim}","query":"x","targetFolder":"{of}"}}"#
        );
        command(group, claim, json.as_bytes())
    };
    let at_once = CommandFile { found: found.clone(), ..search("family", 1, "family") };
    let settled = world.store.settle(at_once.clone(), Zones::utc(), NOW).await.unwrap();
    assert_eq!(settled.receipt.reply, found.as_deref().cloned());
    assert_eq!(world.store.settle(at_once, Zones::utc(), NOW).await.unwrap().receipt, settled.receipt);
    // Refused: it is not shown.
    let elsewhere = CommandFile { found: found.clone(), ..search("family", 2, "main") };
    let refused = world.store.settle(elsewhere, Zones::utc(), NOW).await.unwrap().receipt;
    assert_eq!(refused.code, Some(Code::NotAuthorized));
    assert_ne!(refused.reply, found.as_deref().cloned());
    // Settled before without an answer: what is found now would be seen before it is written down.
    let behind = search("family", 3, "family");
    assert_eq!(world.store.settle(behind.clone(), Zones::utc(), NOW).await.unwrap().receipt.reply, None);
    let again = CommandFile { found, ..behind };
    assert_eq!(world.store.settle(again, Zones::utc(), NOW).await.unwrap().receipt.reply, None);
}

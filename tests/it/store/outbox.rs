//! What is said in parts.

use g2::{
    domain::platforms::channels::Then,
    store::{NextDelivery, OutboxPart},
};
use g2_text::Rendered;

use super::*;

const CHAT: &str = "local:family";

async fn begin(store: &Store) -> i64 {
    let NextDelivery::Now(row) = store.begin_delivery(CHAT, NOW).await.unwrap() else {
        panic!("nothing is to be said")
    };
    row.id
}

/// Each part's text, as far as it is kept, and what the platform calls it.
async fn parts(store: &Store, id: i64) -> Vec<(Option<String>, Option<String>)> {
    let parts = store.parts_of(id).await.unwrap();
    parts.into_iter().map(|part| (part.text.map(|part| part.text), part.platform_id)).collect()
}

#[tokio::test]
async fn of_a_part_that_the_platform_has_its_name_is_kept_and_the_text_is_the_rows() {
    let world = world().await;
    let store = &world.store;
    store.tell(CHAT.into(), "one two three".into(), "test".into(), NOW).await.unwrap();
    let id = begin(store).await;
    let part = |text: &str| OutboxPart {
        text: Some(Rendered { text: text.to_owned(), ..Rendered::default() }),
        files: None,
        platform_id: None,
    };
    store.lay_parts(id, ["one", "two", "three"].map(part).to_vec()).await.unwrap();
    store.part_sent(id, 1, "p1".into(), NOW).await.unwrap();
    let has = |name: &str| (None, Some(name.to_owned()));
    let waits = |text: &str| (Some(text.to_owned()), None);
    assert_eq!(parts(store, id).await, [has("p1"), waits("two"), waits("three")]);
    // The next try goes on where it was, and cuts it the same.
    store.delivery_failed(id, "away", Then::GiveUp, None, NOW).await.unwrap();
    store.retry_outbox(id).await.unwrap();
    assert_eq!(begin(store).await, id);
    assert_eq!(parts(store, id).await, [has("p1"), waits("two"), waits("three")]);
    store.part_sent(id, 2, "p2".into(), NOW).await.unwrap();
    store.delivered(id, 3, "p3".into(), NOW).await.unwrap();
    assert_eq!(parts(store, id).await, ["p1", "p2", "p3"].map(has));
    // A part that is several messages on its platform is known by each of them.
    store.more_ids(id, vec!["p4".into(), "p5".into()]).await.unwrap();
    for name in ["p1", "p3", "p4", "p5"] {
        assert_eq!(store.said_as(CHAT, name).await.unwrap(), Some(id), "{name}");
    }
    assert_eq!(store.said_as(CHAT, "p6").await.unwrap(), None);
    assert_eq!(store.outbox_row(id).await.unwrap().unwrap().text, "one two three");
}

#[tokio::test]
async fn a_platform_that_calls_a_text_by_its_row_is_known_by_that_and_one_by_another_number_is_not() {
    let world = world().await;
    let store = &world.store;
    for _ in 0..3 {
        store.tell(CHAT.into(), "hi".into(), "test".into(), NOW).await.unwrap();
    }
    // `local` calls the first one 1; a platform calls the second one 3, and has the third one not yet.
    let first = begin(store).await;
    store.delivered(first, 1, first.to_string(), NOW).await.unwrap();
    let second = begin(store).await;
    store.delivered(second, 1, "3".into(), NOW).await.unwrap();
    let said = async |name: &str| store.said_as(CHAT, name).await.unwrap();
    assert_eq!((first, second), (1, 2));
    assert_eq!((said("1").await, said("2").await, said("3").await), (Some(1), None, Some(2)));
    assert_eq!((said("01").await, said("+1").await, said("x").await), (None, None, None));
    assert_eq!(store.said_as("local:main", "1").await.unwrap(), None, "another chat's");
    assert_eq!(parts(store, first).await, [(None, Some("1".into()))]);
    let third = begin(store).await;
    assert_eq!(parts(store, third).await, [], "not sent yet");
}

#[tokio::test]
async fn a_row_that_was_looked_at_is_marked_once_it_is_certain_that_nobody_gave_it_up() {
    use g2::domain::states::DeliveryStatus::{Failed, Pending, Sending, Sent};
    let world = world().await;
    let store = &world.store;
    let stands = async |id| {
        let row = store.outbox_row(id).await.unwrap().unwrap();
        (row.status, row.attempts)
    };
    let next = async || match store.next_delivery(CHAT, NOW).await.unwrap() {
        NextDelivery::Now(row) => row.id,
        other => panic!("{other:?}"),
    };
    store.tell(CHAT.into(), "one".into(), "test".into(), NOW).await.unwrap();
    let id = next().await;
    assert_eq!(stands(id).await, (Pending, 0), "looked at, not marked");
    assert!(!store.mark_delivery(id, "local:main", NOW).await.unwrap(), "it is another chat's");
    assert!(store.mark_delivery(id, CHAT, NOW).await.unwrap());
    // The drop is written behind the mark.
    assert!(store.drop_outbox(id, "given up", NOW).await.is_err());
    assert_eq!(stands(id).await, (Sending, 1));
    store.delivered(id, 1, "p1".into(), NOW).await.unwrap();
    assert_eq!(stands(id).await, (Sent, 1));
    assert!(!store.mark_delivery(id, CHAT, NOW).await.unwrap(), "it is said");
    store.tell(CHAT.into(), "two".into(), "test".into(), NOW).await.unwrap();
    let id = next().await;
    store.drop_outbox(id, "given up", NOW).await.unwrap();
    assert!(!store.mark_delivery(id, CHAT, NOW).await.unwrap());
    assert_eq!(stands(id).await, (Failed, 0));
}

#[tokio::test]
async fn a_row_whose_mark_was_lost_is_said_and_its_tries_are_counted() {
    use g2::domain::states::DeliveryStatus::{Failed, Pending, Sent};
    let world = world().await;
    let store = &world.store;
    let stands = async |id| {
        let row = store.outbox_row(id).await.unwrap().unwrap();
        (row.status, row.attempts)
    };
    let again = |counts| Then::Again { after_ms: 0, counts };
    store.tell(CHAT.into(), "one".into(), "test".into(), NOW).await.unwrap();
    let NextDelivery::Now(row) = store.next_delivery(CHAT, NOW).await.unwrap() else { panic!() };
    let id = row.id;
    store.delivery_failed(id, "busy", again(false), None, NOW).await.unwrap();
    assert_eq!(stands(id).await, (Pending, 0));
    store.delivery_failed(id, "away", again(true), None, NOW).await.unwrap();
    store.delivery_failed(id, "busy", again(false), None, NOW).await.unwrap();
    assert_eq!(stands(id).await, (Pending, 1));
    store.delivered(id, 1, "p1".into(), NOW).await.unwrap();
    assert_eq!(stands(id).await, (Sent, 2));
    assert_eq!(store.next_delivery(CHAT, NOW).await.unwrap(), NextDelivery::Nothing);
    // A person gave it up meanwhile.
    store.tell(CHAT.into(), "two".into(), "test".into(), NOW).await.unwrap();
    let NextDelivery::Now(row) = store.next_delivery(CHAT, NOW).await.unwrap() else { panic!() };
    let id = row.id;
    store.drop_outbox(id, "given up", NOW).await.unwrap();
    store.delivery_failed(id, "away", again(true), None, NOW).await.unwrap();
    assert_eq!(stands(id).await, (Failed, 0), "it is not sent again");
    store.delivered(id, 1, "p2".into(), NOW).await.unwrap();
    assert_eq!(stands(id).await, (Sent, 1), "it had arrived all the same");
}

#[tokio::test]
async fn what_was_said_is_read_in_pieces_of_bounded_rows_and_bytes() {
    let world = world().await;
    let store = &world.store;
    for n in 0..10 {
        store.tell(CHAT.into(), format!("{n}{}", "x".repeat(99)), "test".into(), NOW).await.unwrap();
        let id = begin(store).await;
        store.delivered(id, 1, format!("p{n}"), NOW).await.unwrap();
    }
    let piece = async |after, rows, bytes| -> Vec<i64> {
        let said = store.said_since(CHAT, after, rows, bytes).await.unwrap();
        said.into_iter().map(|delivery| delivery.id).collect()
    };
    assert_eq!(piece(0, 3, usize::MAX).await, [1, 2, 3]);
    assert_eq!(piece(3, 100, 150).await, [4, 5], "the one that goes over the bound is the last");
    assert_eq!(piece(5, 100, 1).await, [6], "one that is larger than a piece is a piece");
    assert_eq!(piece(6, 100, 1000).await, [7, 8, 9, 10]);
    assert!(piece(10, 100, 1000).await.is_empty());
}

#[tokio::test]
async fn nothing_is_read_behind_a_text_that_is_still_to_be_said() {
    let world = world().await;
    let store = &world.store;
    for text in ["one", "two", "three"] {
        store.tell(CHAT.into(), text.into(), "test".into(), NOW).await.unwrap();
    }
    let sql = |sql: &str| rusqlite::Connection::open(store.path()).unwrap().execute_batch(sql).unwrap();
    // The third one grows already.
    sql("UPDATE outbox SET growth = 'growing' WHERE id = 3");
    let said = async |after| -> Vec<i64> {
        let said = store.said_since(CHAT, after, 10, usize::MAX).await.unwrap();
        said.into_iter().map(|delivery| delivery.id).collect()
    };
    assert!(said(0).await.is_empty(), "the first one is to be told first");
    let first = begin(store).await;
    assert!(said(0).await.is_empty());
    store.delivered(first, 1, "p1".into(), NOW).await.unwrap();
    assert_eq!(said(0).await, [1]);
    assert!(said(1).await.is_empty(), "the second one is told next");
    store.drop_outbox(2, "test", NOW).await.unwrap();
    assert_eq!(said(1).await, [3]);
}

#[tokio::test]
async fn a_chat_is_told_a_bounded_number_of_answers_to_words_in_a_minute() {
    use g2::store::{Spoken, Wish};
    let world = world().await;
    let store = &world.store;
    world.message(CHAT, "k", "hello", EngageVerdict::Wake).await;
    let lane = world.lane();
    let word = async |seq, at| {
        let spoken = Spoken { lane, seq, by: "local:me".into(), word: "status" };
        store.heard_word(spoken, Wish::Tell(format!("answer {seq}")), at).await.unwrap().note
    };
    for seq in 1..=20 {
        assert_eq!(word(seq, NOW).await, "it asked for status");
    }
    let much = "it asked for status, which is not told: the chat was told enough within a minute";
    assert_eq!(word(21, NOW.plus_ms(59_999)).await, much);
    assert_eq!(world.texts(CHAT).await.len(), 20);
    assert_eq!(word(22, NOW.plus_ms(60_000)).await, "it asked for status");
    assert_eq!(world.texts(CHAT).await.len(), 21);
}

#[tokio::test]
async fn a_chat_is_told_once_that_texts_waited_for_a_connection() {
    use g2::domain::platforms::channels::{Connection, OLD_MS};
    let world = world().await;
    let store = &world.store;
    let later = |ms: i64| NOW.plus_ms(ms);
    let stands = async |state, at| store.set_connection("local".into(), state, None, at).await.unwrap();
    stands(Connection::Connected, NOW).await;
    store.tell(CHAT.into(), "hi".into(), "test".into(), NOW).await.unwrap();
    let texts = async || -> Vec<String> {
        store.outbox(Some(CHAT), None).await.unwrap().into_iter().map(|row| row.text).collect()
    };
    // A short one is not worth a word, nor is a long wait for another reason.
    stands(Connection::Offline, later(1)).await;
    stands(Connection::Connected, later(OLD_MS - 1)).await;
    stands(Connection::Connected, later(2 * OLD_MS)).await;
    assert_eq!(texts().await, ["hi"]);
    for _ in 0..2 {
        stands(Connection::Offline, later(2 * OLD_MS)).await;
        stands(Connection::Connecting, later(2 * OLD_MS)).await;
        stands(Connection::Connected, later(8 * OLD_MS)).await;
        let notice = "I could not reach this chat for a while. The oldest text above waited for 2 hours.";
        assert_eq!(texts().await, ["hi", notice]);
    }
}

#[tokio::test]
async fn a_place_of_an_adapter_that_has_no_value_any_more_is_forgotten() {
    use std::collections::BTreeMap;
    let world = world().await;
    let at = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    for (told, kept) in [
        (at(&[("a", "1"), ("b", "2")]), at(&[("a", "1"), ("b", "2")])),
        (at(&[("a", ""), ("c", "3")]), at(&[("b", "2"), ("c", "3")])),
        (at(&[("a", "")]), at(&[("b", "2"), ("c", "3")])),
    ] {
        world.store.arrive("local", told, g2::store::Arrival::Nothing, NOW).await.unwrap();
        assert_eq!(world.store.cursor_of("local").await.unwrap(), kept);
    }
}

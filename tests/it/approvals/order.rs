//! Any order of messages, answers, time and restarts: each message that was approved is answered once and in order, none
//! that was denied ever is, and none is lost.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;

use g2::store::{How, Pick};
use proptest::prelude::*;

use super::world::{CHAT, DESK, OWNER, World};

const SENDERS: [&str; 3] = ["tg:a", "tg:b", "tg:c"];

#[derive(Clone, Debug)]
enum Step {
    /// Somebody says something.
    Say(usize),
    /// The owner types, names, presses or sends an answer to the n-th question that ever was.
    Answer {
        which: usize,
        yes: bool,
        how: usize,
    },
    /// Everything that is to be said is.
    Deliver,
    /// A card can't be said.
    Fail,
    Days(i64),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..SENDERS.len()).prop_map(Step::Say),
        3 => (0..6_usize, any::<bool>(), 0..4_usize)
            .prop_map(|(which, yes, how)| Step::Answer { which, yes, how }),
        2 => Just(Step::Deliver),
        1 => Just(Step::Fail),
        1 => (1..9_i64).prop_map(Step::Days),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn an_approved_message_is_answered_once_and_a_denied_one_never(steps in prop::collection::vec(step(), 1..40)) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run(steps));
    }
}

/// What the model knows of a sender.
#[derive(Default)]
struct Sender {
    member: bool,
    waiting: Vec<String>,
    heard: Vec<String>,
    unheard: usize,
}

async fn run(steps: Vec<Step>) {
    let mut world = World::new().await;
    let mut senders: BTreeMap<&str, Sender> = SENDERS.iter().map(|s| (*s, Sender::default())).collect();
    for (n, step) in steps.into_iter().enumerate() {
        match step {
            Step::Say(who) => {
                let text = n.to_string() + "!";
                world.hear(CHAT, SENDERS[who], &text).await;
                let sender = senders.get_mut(SENDERS[who]).unwrap();
                if sender.member { &mut sender.heard } else { &mut sender.waiting }.push(text);
            }
            Step::Answer { which, yes, how } => {
                let all = world.store.approvals(true).await.unwrap();
                let Some(question) = all.get(which).cloned() else { continue };
                let answered = answer(&world, question.id, yes, how).await;
                let sender = senders.get_mut(question.sender.as_str()).unwrap();
                match (answered, yes) {
                    (false, _) => {}
                    (true, true) => {
                        sender.member = true;
                        sender.heard.append(&mut sender.waiting);
                    }
                    (true, false) => sender.unheard += std::mem::take(&mut sender.waiting).len(),
                }
            }
            Step::Deliver => drop(world.say_all(DESK).await),
            Step::Fail => {
                let next = world.store.begin_delivery(DESK, world.now).await.unwrap();
                if let g2::store::NextDelivery::Now(card) = next {
                    world
                        .store
                        .delivery_failed(
                            card.id,
                            "away",
                            g2::domain::platforms::channels::Then::GiveUp,
                            None,
                            world.now,
                        )
                        .await
                        .unwrap();
                }
            }
            Step::Days(days) => {
                world.later(days * 24 * 3_600_000);
                let open = world.store.approvals(false).await.unwrap();
                world.store.expire_approvals(world.now).await.unwrap();
                for question in open.iter().filter(|question| question.expires_at <= world.now) {
                    let sender = senders.get_mut(question.sender.as_str()).unwrap();
                    sender.unheard += std::mem::take(&mut sender.waiting).len();
                }
            }
            Step::Restart => {
                world.restart();
                world.judge().await;
            }
        }
    }
    for (id, sender) in &senders {
        let heard: Vec<String> = world.column(&format!(
            "SELECT m.text FROM inbox i JOIN messages m ON m.seq = i.seq WHERE m.chat_jid = '{CHAT}' AND m.sender = '{id}' AND i.verdict = 'wake' ORDER BY i.n"
        ));
        assert_eq!(heard, sender.heard, "{id}");
        let dropped: i64 =
            world.dropped().await.iter().filter(|(who, _)| who == id).map(|(_, count)| *count).sum();
        assert_eq!(dropped, i64::try_from(sender.unheard).unwrap(), "{id}: counted");
        let mut waiting: Vec<String> = world.column(&format!(
            "SELECT m.text FROM approval_messages w JOIN approvals a ON a.id = w.approval_id JOIN messages m ON m.seq = w.seq
             WHERE a.state IN ('pending', 'undeliverable') AND a.sender = '{id}' ORDER BY w.seq"
        ));
        waiting.dedup();
        assert_eq!(waiting, sender.waiting, "{id}: none is lost");
    }
    assert!(world.woken("main", DESK).iter().all(|text| text.starts_with('#')), "no answer was a prompt");
}

/// Answers a question in one of the four ways; returns whether that decided it.
async fn answer(world: &World, id: i64, yes: bool, how: usize) -> bool {
    let before = world.question(id).await.state;
    let number = if yes { 1 } else { 2 };
    match how {
        0 => {
            let pick = if yes { Pick::Yes } else { Pick::No };
            let decided = world.pick(id, pick, OWNER).await;
            assert_eq!(decided.how == How::Done, ["pending", "undeliverable"].contains(&before.as_str()));
        }
        1 => {
            world.store.click(&format!("{id}:{number}"), OWNER, world.now).await.unwrap();
            world.judge().await;
        }
        2 => drop(world.hear(DESK, OWNER, &format!("#{id} {number}")).await),
        // Somebody without the right tries.
        _ => {
            world.store.click(&format!("{id}:{number}"), "tg:a", world.now).await.unwrap();
            world.hear(DESK, "local:guest", &format!("#{id} {number}")).await;
        }
    }
    world.question(id).await.state != before
}

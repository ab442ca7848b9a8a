//! Questions on the page, those of agents too; runs at work and idle ones.

use serde_json::json;

use super::Paged;
use crate::support::wait_for;

#[test]
fn a_card_has_the_words_of_the_stranger_and_the_chat_s_name_and_stands_once() {
    let paged = Paged::new("");
    paged.root.g2(&["chats", "set", "local:main", "policy=request_approval"]);
    paged.root.g2(&["chats", "set", "local:main", "name=Chess club"]);
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    let words = format!("may I <b>play</b> \u{202e}with you? {}", "x".repeat(5_000));
    paged.root.g2(&["send", "--as", "bob", &words]);
    wait_for("the question", || (paged.root.rows(&["approvals", "list"]).len() == 1).then_some(()));
    for path in ["/", "/people"] {
        let page = paged.get(path, &[("Cookie", &cookie)]).text();
        assert!(page.contains("may I &lt;b&gt;play&lt;/b&gt; with you? xxx"), "{path}: {page}");
        assert!(page.contains("<strong>Chess club</strong>"), "{path}: {page}");
        assert!(!page.contains(&"x".repeat(400)) && !page.contains('\u{202e}'), "{path}");
        assert_eq!(page.matches("action=\"/do/approvals.deny\"").count(), 1, "{path}");
    }
    // In a chat in which the question stands as a text, only its answers stand below.
    let page = paged.get("/chats/main?chat=local:me", &[("Cookie", &cookie)]).text();
    let cards = page.matches("action=\"/do/approvals.deny\"").count();
    assert!(cards <= 1 && !page.contains("<blockquote class=\"heard\">"), "{page}");
}

#[test]
fn a_message_of_which_nothing_can_be_seen_is_not_gone() {
    let paged = Paged::new("");
    paged.root.g2(&["chats", "set", "local:main", "policy=request_approval"]);
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    paged.root.g2(&["send", "--as", "bob", &format!("{}let me in", "\u{200b}".repeat(500))]);
    wait_for("the question", || (paged.root.rows(&["approvals", "list"]).len() == 1).then_some(()));
    let page = || paged.get("/people", &[("Cookie", &cookie)]).text();
    assert!(page().contains("Nothing can be seen in the beginning of the message."), "{}", page());
    assert!(!page().contains("The message is gone."), "{}", page());
}

#[test]
fn a_question_of_an_agent_stands_on_now_and_people_until_it_is_over() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    let question = json!({"type": "ask_user", "question": "Which <i>hotel</i>?", "options": ["Ibis", "Hilton & Co"],
        "chatJid": "local:main", "requestId": "q1"});
    paged.root.put_command("main", "messages", "q1.json", &question);
    assert_eq!(paged.root.reply("main", "q1")["ok"], true);
    for path in ["/", "/people"] {
        let page = paged.get(path, &[("Cookie", &cookie)]).text();
        assert!(page.contains("Which &lt;i&gt;hotel&lt;/i&gt;?"), "{path}: {page}");
        assert!(page.contains("<ol><li>Ibis</li><li>Hilton &amp; Co</li></ol>"), "{path}: {page}");
        assert!(page.contains("href=\"/chats/main?chat=local%3Amain\""), "{path}: {page}");
        assert!(page.contains("Question #q1, asked ") && page.contains("open until "), "{path}: {page}");
    }
    paged.root.send("local:main", "#q1 1");
    wait_for("the question to go", || {
        let page = paged.get("/", &[("Cookie", &cookie)]).text();
        (!page.contains("Question #q1")).then_some(())
    });
}

#[test]
fn a_run_at_work_is_stopped_beside_it_and_idle_ones_stand_apart() {
    let paged = Paged::new("");
    paged.root.script(
        None,
        &json!([{"when": {"contains": "long"}, "do": [{"hang": true}]}, {"do": [{"say": "done"}]}]),
    );
    let _daemon = paged.serve();
    let (cookie, token) = paged.enter();
    let page = |path: &str| paged.get(path, &[("Cookie", &cookie)]).text();
    paged.root.ask("local:main", "short");
    let idle = wait_for("it to be idle", || Some(page("/")).filter(|page| page.contains("Awake, and idle")));
    assert!(idle.contains("No agent is at work."), "{idle}");
    paged.root.send("local:main", "a long one");
    let work = wait_for("it to be at work", || {
        Some(page("/")).filter(|page| !page.contains("No agent is at work."))
    });
    assert!(!work.contains("Awake, and idle") && work.contains("action=\"/do/runs.stop\""), "{work}");
    let chat = page("/chats/main?chat=local:main");
    assert!(chat.contains("At work…") && chat.contains("action=\"/do/runs.stop\""), "{chat}");
    let run = paged.root.rows(&["runs", "list"]).last().unwrap()["id"].to_string();
    let answer = paged.post("/do/runs.stop", &cookie, &format!("arg-id={run}&token={token}&back=%2F"));
    let told = paged.get(answer.header("location"), &[("Cookie", &cookie)]).text();
    assert!(told.contains(&format!("g2 runs stop {run}")), "{told}");
    wait_for("the run to end", || paged.root.rows(&["ps"]).is_empty().then_some(()));
}

//! Chats, and threads of them, that go while an agent works for them, and come back. Messages that a platform keeps from its bot.

use super::*;

/// Discord's numbers of threads: one that all of its channel read, and one for a few.
const OPEN: u64 = 11;
const CLOSED: u64 = 12;

impl Town {
    /// The bot is put out of Ada's chat.
    fn goes(&self) {
        self.let_in(false);
    }

    /// It is let in again.
    fn comes_back(&self) {
        self.let_in(true);
    }

    fn let_in(&self, is_in: bool) {
        match self {
            Self::Telegram(fake) => {
                let id = telegram::GROUP;
                fake.ask(
                    "chat",
                    &json!({"id": id, "type": "supergroup", "title": "Chess", "is_closed": !is_in}),
                );
            }
            Self::Discord(fake) => fake.world().places.get_mut(&GENERAL).unwrap().closed = !is_in,
            Self::Slack(fake) => fake.world().places.get_mut(LOUNGE).unwrap().closed = !is_in,
            Self::Matrix { ada, bot, room, .. } if is_in => {
                ada.invite(room, &bot.id);
                ada.wait_for_member(room, &bot.id);
            }
            Self::Matrix { ada, bot, room, .. } => ada.kick(room, &bot.id),
        }
    }

    /// A thread of the chat that has threads is deleted.
    fn loses(&self, thread: &str) {
        match self {
            Self::Telegram(fake) => {
                let club =
                    json!({"id": telegram::FORUM, "type": "supergroup", "title": "Club", "is_forum": true});
                fake.ask("chat", &club);
            }
            Self::Discord(fake) => drop(fake.world().places.remove(&thread.parse().unwrap())),
            Self::Slack(fake) => fake.world().delete(LOUNGE, thread),
            Self::Matrix { .. } => panic!("a thread of Matrix is deleted by nobody"),
        }
    }
}

impl Home {
    /// What an owner was told at the terminal of this machine.
    fn told(&self) -> Vec<String> {
        self.column("SELECT text FROM outbox WHERE chat_jid = 'local:main' AND cause LIKE 'notice: outbox % could not be delivered' ORDER BY id")
    }

    /// What the agent of main was told, with the lanes in which it reads that.
    fn agent_told(&self) -> Vec<String> {
        self.column(
            "SELECT l.chat_jid || ' ' || l.thread || ' ' || i.verdict || ' ' || i.rule || ' ' || m.text FROM messages m JOIN inbox i ON i.seq = m.seq
             JOIN lanes l ON l.id = i.lane_id WHERE m.sender_name = 'G2' ORDER BY m.seq",
        )
    }

    /// Has the agent of main wait for its command in the midst of an answer.
    fn waiting_agent(&self) {
        let wait =
            json!({"command": {"box": "tasks", "json": {"type": "list_tasks", "requestId": "w{{text}}"}}});
        let script = json!([{"when": {"contains": "plan"}, "do": [wait, {"say": "the plan"}]}, {"do": [{"say": "echo: {{text}}"}]}]);
        self.root.script(Some("main"), &script);
        self.root.g2(&["ipc", "hold", "main"]);
    }

    fn until_it_waits(&self) {
        wait_for("the agent's command", || {
            let rows = self.root.rows(&["ipc", "list"]);
            rows.iter().any(|row| row["state"] == "waiting" || row["state"] == "held").then_some(())
        });
    }

    fn go_on(&self) {
        self.root.g2(&["ipc", "release", "main"]);
    }

    fn task(&self) -> Value {
        self.root.json(&["tasks", "show", "water"])
    }
}

#[test]
fn of_a_chat_that_went_an_owner_and_the_agent_are_told_and_its_tasks_are_paused_until_a_person_resumes_them()
{
    for town in Town::all("went") {
        let (home, chat) = (Home::new(&town, ""), town.chat());
        let _daemon = home.serve(&town);
        town.says("hello");
        town.until_said(&["echo: hello"]);
        town.goes();
        home.root.g2(&[
            "tasks",
            "add",
            "--group",
            "main",
            "--chat",
            &chat,
            "--every",
            "999h",
            "--id",
            "water",
            "--output",
            "chat",
            "water the plants",
        ]);
        home.root.g2(&["tasks", "run", "water"]);
        let paused =
            wait_for("the task to be paused", || Some(home.task()).filter(|task| task["status"] == "paused"));
        let why = paused["paused_for"].as_str().unwrap().to_owned();
        assert!(why.starts_with("its chat ") && why.contains("can't be written to: "), "{why}");
        // The snapshot follows the store.
        let shown = wait_for("the agent to be shown why", || {
            let shown = home.root.data_json("ipc/main/current_tasks.json");
            shown[0]["pausedFor"].as_str().map(str::to_owned)
        });
        assert!(why.starts_with(&shown), "{shown}");
        let failed = home.root.rows(&["outbox", "list", "--chat", &chat, "--state", "failed"]);
        assert_eq!(failed.len(), 1);
        let error = failed[0]["error"].as_str().unwrap();
        assert!(why.ends_with(error), "{why} {error}");
        let told = home.told();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains(&chat) && told[0].contains("agent main") && told[0].contains("water of main"),
            "{told:?}"
        );
        // Another text there tells no owner again, and pauses again what a person has resumed.
        home.root.g2(&["tasks", "resume", "water"]);
        home.root.g2(&["tasks", "run", "water"]);
        wait_for("the task to be paused again", || (home.task()["status"] == "paused").then_some(()));
        assert_eq!(home.told().len(), 1);
        let agent = home.agent_told();
        assert_eq!(agent.len(), 2, "once a run: {agent:?}");
        assert!(
            agent[0].starts_with(&format!("{chat}  context undelivered [not delivered] Your text for ")),
            "{agent:?}"
        );
        assert!(agent[0].contains("water the plants") && agent[0].contains(error), "{agent:?}");
        // The chat is there again: the agent reads what became of its texts, and the task runs.
        town.comes_back();
        town.says("are you there?");
        town.until_said(&["echo: hello", "echo: are you there?"]);
        let sql = "SELECT CAST(run_id AS TEXT) FROM outbox WHERE text = 'echo: are you there?'";
        let run = home.column(sql).pop().unwrap();
        let prompt = std::fs::read_to_string(home.root.data(&format!("runs/{run}/prompt.txt"))).unwrap();
        assert!(
            prompt.contains("[not delivered] Your text for ") && prompt.contains("are you there?"),
            "{prompt}"
        );
        home.root.g2(&["tasks", "resume", "water"]);
        home.root.g2(&["tasks", "run", "water"]);
        wait_for("the task's text", || (town.texts().len() == 3).then_some(()));
        assert_eq!((&home.task()["status"], &home.task()["paused_for"]), (&json!("active"), &Value::Null));
    }
}

#[test]
fn an_owner_on_the_same_platform_is_told_there() {
    let town = Town::telegram(0);
    let home = Home::new(&town, "");
    home.root.g2(&["users", "add", &town.ada(), "--dm", &town.ada()]);
    home.root.g2(&["users", "role", &town.ada(), "owner"]);
    let _daemon = home.serve(&town);
    town.says("hello");
    town.until_said(&["echo: hello"]);
    town.goes();
    home.root.g2(&["send", "--chat", "local:main", "x"]);
    home.root.g2(&[
        "tasks",
        "add",
        "--group",
        "main",
        "--chat",
        &town.chat(),
        "--every",
        "999h",
        "--id",
        "water",
        "--output",
        "chat",
        "w",
    ]);
    home.root.g2(&["tasks", "run", "water"]);
    let Town::Telegram(fake) = &town else { panic!() };
    let said = wait_for("Ada to be told", || {
        fake.said().into_iter().find(|said| said["chat"]["id"] == telegram::ADA)
    });
    let text = said["text"].as_str().unwrap();
    assert!(
        text.contains("I can't write in Chess (tg:-55) any more")
            && text.contains("add the bot to the chat again"),
        "{text}"
    );
    assert_eq!(home.told(), [""; 0]);
}

#[test]
fn an_answer_for_a_thread_that_went_is_said_once_in_the_chat_where_its_readers_are_the_same() {
    for town in [Town::telegram(0), Town::discord(30)] {
        let (home, chat) = (Home::new(&town, ""), town.threaded());
        if chat != town.chat() {
            home.wire(&chat, "pattern");
        }
        home.waiting_agent();
        let _daemon = home.serve(&town);
        let thread = town.says_in_thread("plan");
        home.until_it_waits();
        town.loses(&thread);
        home.go_on();
        town.until_said(&["the plan"]);
        assert_eq!(town.said()[0].thread, "", "{}", town.channel());
        let row = wait_for("the row", || {
            home.root
                .rows(&["outbox", "list", "--chat", &chat])
                .into_iter()
                .find(|row| row["status"] == "sent")
        });
        assert_eq!(
            (&row["thread"], &row["attempts"], &row["error"]),
            (&json!(thread), &json!(1), &Value::Null)
        );
        assert!(!row["thread_gone"].as_str().unwrap().is_empty());
        let why = home.root.g2(&["why", "--chat", &chat]);
        assert!(why.starts_with("answered; the answer is sent, without its topic, which is gone: "), "{why}");
        assert_eq!((home.told(), home.agent_told()), (Vec::new(), Vec::new()));
    }
}

#[test]
fn what_was_for_a_few_is_not_said_to_all_and_an_owner_and_the_agent_are_told() {
    let town = Town::discord(30);
    let Town::Discord(fake) = &town else { panic!() };
    let home = Home::new(&town, "");
    home.waiting_agent();
    let _daemon = home.serve(&town);
    for (kind, said) in [(CLOSED, 0), (OPEN, 1)] {
        let thread = fake.thread_of(GENERAL, "plans", kind);
        let name = thread.to_string();
        home.root.g2(&["ipc", "hold", "main"]);
        fake.say(thread, ADA, "plan");
        home.until_it_waits();
        town.loses(&name);
        home.go_on();
        wait_for("the answer's end", || {
            let rows = home.root.rows(&["outbox", "list", "--chat", "dc:700"]);
            rows.iter()
                .find(|row| row["thread"] == name && row["status"] != "pending" && row["status"] != "sending")
                .cloned()
        });
        assert_eq!(fake.said(GENERAL).len(), said, "{kind}");
        let told = home.told();
        assert_eq!(told.len(), 1, "{told:?}");
        let place = format!("I can't write in topic {name} of #general (Home) (dc:700)");
        assert_eq!(told[0].contains(&place), kind == CLOSED, "{told:?}");
        // Its own lane hears nothing more, so the channel's has it.
        let agent = home.agent_told();
        assert!(
            agent.len() == 1 && agent[0].starts_with("dc:700  context undelivered [not delivered]"),
            "{agent:?}"
        );
    }
}

#[test]
fn an_answer_that_leaves_its_thread_is_said_once_although_the_daemon_is_killed_at_each_step() {
    for step in ["deliver.sent:1", "deliver.sending:2", "deliver.sent:2"] {
        let town = Town::discord(30);
        let Town::Discord(fake) = &town else { panic!() };
        let home = Home::new(&town, "");
        home.waiting_agent();
        let daemon = home.root.serve_with(&[("G2_FAILPOINT", step)]);
        home.until_connected(town.channel());
        let thread = fake.thread(GENERAL, "plans");
        fake.say(thread, ADA, "plan");
        home.until_it_waits();
        town.loses(&thread.to_string());
        home.go_on();
        daemon.wait();
        let _daemon = home.serve(&town);
        let row = wait_for("the answer's end", || {
            let rows = home.root.rows(&["outbox", "list", "--chat", "dc:700"]);
            rows.into_iter().find(|row| {
                row["text"] == "the plan" && ["sent", "failed"].contains(&row["status"].as_str().unwrap())
            })
        });
        // Where it may have arrived in the thread, it is not said to others as well: people are told.
        let may_have_arrived = step == "deliver.sent:1";
        assert_eq!(row["status"], if may_have_arrived { "failed" } else { "sent" }, "{step}: {row}");
        let plans = fake.said(GENERAL).iter().filter(|said| said["content"] == "the plan").count();
        assert_eq!(plans, usize::from(!may_have_arrived), "{step}");
        assert_eq!(home.told().len(), usize::from(may_have_arrived), "{step}");
    }
}

#[test]
fn a_bot_that_is_told_a_part_of_a_group_that_is_to_wake_its_agent_is_a_problem_until_it_is_an_admin() {
    let town = Town::telegram(0);
    let Town::Telegram(fake) = &town else { panic!() };
    fake.ask("privacy", &json!({"on": true}));
    let home = Home::engaged(&town, "", "pattern");
    let _daemon = home.serve(&town);
    let found = || {
        let rows = home.root.json(&["doctor"]);
        let mut rows = rows.as_array().unwrap().iter();
        rows.find(|row| row["check"] == "privacy" && row["status"] == "warn").cloned()
    };
    let row = wait_for("the finding", found);
    assert!(row["detail"].as_str().unwrap().contains("privacy mode"), "{row}");
    assert!(row["fix"].as_str().unwrap().contains("/setprivacy"), "{row}");
    let status = home.root.json(&["status"]);
    assert!(status["findings"].as_array().unwrap().iter().any(|row| row["code"] == "privacy"), "{status}");
    let member = json!({"my_chat_member": {"chat": {"id": telegram::GROUP}, "from": {"id": telegram::ADA}, "date": 1,
        "old_chat_member": {"status": "member"}, "new_chat_member": {"status": "administrator"}}});
    fake.ask("update", &member);
    wait_for("nothing to be found", || found().is_none().then_some(()));
    // A wiring that mentions alone wake needs no more than it is told.
    let again = json!({"my_chat_member": {"chat": {"id": telegram::GROUP}, "from": {"id": telegram::ADA}, "date": 2,
        "old_chat_member": {"status": "administrator"}, "new_chat_member": {"status": "member"}}});
    fake.ask("update", &again);
    wait_for("the finding", found);
    home.root.g2(&["wirings", "set", "--group", "main", "--chat", &town.chat(), "engage=mention"]);
    wait_for("nothing to be found", || found().is_none().then_some(()));
}

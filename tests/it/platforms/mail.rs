//! Mail: whom the daemon hears, where answers go, and kills of the daemon and the adapter while mails come and go.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use g2_fakes::mail::{Fake, PASSWORD, SERVER, USER, answer, mail};

use super::{kills::adapters_of, *};

const ADA_THERE: &str = "ada@example.org";
const CHAT: &str = "mail:ada@example.org";

/// A root with an account of mail.
fn home(fake: &Fake, more: &str) -> Home {
    adapters();
    let (imap, smtp) = fake.places();
    let table = format!(
        "[channels.mail]\ntoken_file = \"mail.token\"\nuser = {USER:?}\nimap = {imap:?}\nsmtp = {smtp:?}\nauthserv = {SERVER:?}\n{more}"
    );
    let home = Home { root: Root::new(&table) };
    std::fs::write(home.root.path().join("mail.token"), PASSWORD).unwrap();
    home
}

/// The first words of each mail that was handed over.
fn said(fake: &Fake) -> Vec<String> {
    let handed = fake.world().handed.clone();
    let words = |text: &str| {
        let (_, plain) = text.split_once("text/plain").unwrap();
        let (_, body) = plain.split_once("\r\n\r\n").unwrap();
        body.lines().next().unwrap().trim_end_matches('=').to_owned()
    };
    handed.iter().map(|mail| words(&mail.text)).collect()
}

fn until_said(fake: &Fake, texts: &[&str]) {
    wait_for(&format!("{texts:?}; there is {:?}", said(fake)), || (said(fake) == texts).then_some(()));
}

#[test]
fn a_person_is_asked_about_once_and_is_answered_in_each_of_their_threads() {
    let fake = Fake::start();
    let home = home(&fake, "");
    let _daemon = home.root.serve();
    home.until_connected("mail");
    fake.deliver(&mail(ADA_THERE, "1@example.org", "plans", "hello"));
    wait_for("a question", || (home.root.rows(&["approvals", "list"]).len() == 1).then_some(()));
    home.root.g2(&["approvals", "approve", "1", "--group", "main"]);
    until_said(&fake, &["echo: hello"]);
    let first = fake.world().handed[0].clone();
    assert!(first.to == [ADA_THERE] && first.text.contains("In-Reply-To: <1@example.org>"), "{first:?}");
    fake.deliver(&mail(ADA_THERE, "2@example.org", "cats", "another"));
    until_said(&fake, &["echo: hello", "echo: another"]);
    let second = fake.world().handed[1].clone();
    assert!(second.text.contains("Subject: Re: cats"), "{second:?}");
    let threads = home.column("SELECT DISTINCT thread FROM messages WHERE from_me = 0 AND thread != ''");
    assert_eq!(threads.len(), 2, "{threads:?}");
    // The same name without a proof is somebody else, who is asked about, too.
    let forged = mail(ADA_THERE, "3@example.org", "plans", "obey").replace("dkim=pass", "dkim=fail");
    fake.deliver(&forged);
    wait_for("a question", || (home.root.rows(&["approvals", "list"]).len() == 1).then_some(()));
    assert_eq!(said(&fake).len(), 2);
    // Programs are heard by nobody.
    fake.deliver(&mail(ADA_THERE, "4@example.org", "away", "I am away").replacen(
        "From:",
        "Auto-Submitted: auto-replied\nFrom:",
        1,
    ));
    fake.deliver(&answer(ADA_THERE, "5@example.org", "1@example.org", "back"));
    until_said(&fake, &["echo: hello", "echo: another", "echo: back"]);
    let texts = home.column("SELECT text FROM messages WHERE from_me = 0");
    assert!(!texts.iter().any(|text| text.contains("away")), "{texts:?}");
}

#[test]
fn a_code_in_a_mail_without_a_proof_makes_nobody_an_owner() {
    let fake = Fake::start();
    let home = home(&fake, "");
    let _daemon = home.root.serve();
    home.until_connected("mail");
    let made = home.root.json(&["users", "claim"]);
    let code = made["code"].as_str().unwrap();
    let owners = || home.column("SELECT user_id FROM roles WHERE user_id LIKE 'mail:%'");
    fake.deliver(&mail(ADA_THERE, "1@example.org", "code", code).replace("dkim=pass", "dkim=fail"));
    wait_for("an answer", || (!said(&fake).is_empty()).then_some(()));
    assert_eq!(owners(), [""; 0]);
    fake.deliver(&mail(ADA_THERE, "2@example.org", "code", code));
    wait_for("the welcome", || {
        said(&fake).iter().any(|text| text.starts_with("You are an owner from now on.")).then_some(())
    });
    assert_eq!(owners(), [CHAT]);
}

/// `G2_KILLS` says how often (12): the long run is `G2_KILLS=1000 cargo test --test it platforms::mail::kills`.
#[test]
fn kills_of_the_daemon_and_the_adapter_lose_no_mail_and_answer_none_twice() {
    let kills: usize = std::env::var("G2_KILLS").map_or(12, |text| text.parse().unwrap());
    let fake = Fake::start();
    let home = home(&fake, "[outbox]\non_unknown = \"leave\"\n");
    home.wire(CHAT, "pattern");
    let mut daemon = home.root.serve();
    home.until_connected("mail");
    let mut asked = Vec::new();
    for n in 0..kills {
        for part in 0..2 {
            let text = format!("m{n}.{part}");
            // All stand in one thread, so that they stay in order.
            let one = answer(ADA_THERE, &format!("{text}@example.org"), "root@example.org", &text);
            fake.deliver(&one);
            asked.push(text);
        }
        // Each time at another step of what it does with them.
        let steps = fake.world().asked.len() + 1 + 2 * (n % 9);
        let handed = fake.world().handed.len();
        let until = Instant::now() + Duration::from_secs(2);
        let is_there = || {
            let world = fake.world();
            if n % 9 == 8 { world.handed.len() > handed } else { world.asked.len() >= steps }
        };
        // A run that died with its daemon answers nothing: then there are fewer steps.
        while !is_there() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        if n % 2 == 0 {
            daemon.kill();
            daemon = home.root.serve();
            for group in home.column("SELECT group_folder FROM holds") {
                home.root.g2(&["ipc", "release", &group]);
            }
        } else if let [(pid, _)] = &adapters_of(daemon.pid())[..] {
            let pid = rustix::process::Pid::from_raw(i32::try_from(*pid).unwrap()).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            home.root.g2(&["channels", "restart", "mail"]);
        }
    }
    let last = "the last";
    fake.deliver(&answer(ADA_THERE, "last@example.org", "root@example.org", last));
    asked.push(last.into());
    let stored = || {
        home.column(&format!(
            "SELECT text FROM messages WHERE from_me = 0 AND chat_jid = '{CHAT}' ORDER BY seq"
        ))
    };
    wait_for("all mails", || (stored().last().is_some_and(|text| text == last)).then_some(()));
    assert_eq!(stored(), asked, "each came once, in order");
    wait_for("nothing to be left to say", || {
        home.column("SELECT id || '' FROM outbox WHERE status IN ('pending', 'sending', 'unknown')")
            .is_empty()
            .then_some(())
    });
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    for handed in fake.world().handed.iter() {
        let id = handed.text.lines().find(|line| line.starts_with("Message-ID:")).unwrap();
        *ids.entry(id.to_owned()).or_default() += 1;
    }
    assert!(ids.values().all(|count| *count == 1), "{ids:?}");
}

//! What the page shows and changes of the machine: budgets, hosts outside, the audit, backups, accounts.

use std::{fs, os::unix::fs::PermissionsExt as _};

use regex::Regex;

use super::Paged;
use crate::support::wait_for;

impl Paged {
    /// Posts a form, and returns the page that is shown after it.
    pub(super) fn changed(&self, path: &str, (cookie, token): (&str, &str), form: &str) -> String {
        let answer = self.post(path, cookie, &format!("token={token}&back=/audit&{form}"));
        assert_eq!(answer.status, 303, "{}", answer.text());
        self.seen(answer.header("location"), cookie)
    }

    /// Returns a page as text.
    pub(super) fn seen(&self, path: &str, cookie: &str) -> String {
        let answer = self.get(path, &[("Cookie", cookie)]);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    }
}

#[test]
fn a_budget_is_set_for_a_group_and_for_all_and_its_use_is_shown_beside_it() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, token) = paged.enter();
    let me = (cookie.as_str(), token.as_str());
    let seen = paged.changed("/budgets/set", me, "folder=main&part=minutes&amount=90");
    assert!(seen.contains("g2 groups set main budget.minutes=90"), "{seen}");
    let seen = paged.seen("/budgets", &cookie);
    assert!(
        seen.contains("Minutes: 0 of 90</span><span>90</span>") && seen.contains("90 minutes left"),
        "{seen}"
    );
    let seen = paged.changed("/do/config.set", me, "arg-name=budget.tokens&arg-value=5000");
    assert!(seen.contains("g2 config set budget.tokens 5000"), "{seen}");
    assert!(paged.seen("/budgets", &cookie).contains("Tokens: 0 of 5000"));
    // As all groups, which have no bound of minutes.
    let seen = paged.changed("/budgets/set", me, "folder=main&part=minutes&amount=&as=all");
    assert!(seen.contains("g2 groups set main budget.minutes="), "{seen}");
    assert!(!paged.seen("/budgets", &cookie).contains("Minutes: 0 of"));
    for (form, why) in [
        ("folder=main&part=minutes&amount=many", "data-failed"),
        ("folder=main&part=minutes&amount=", "no amount is given"),
        ("folder=main&part=hours&amount=1", "no part of a budget is chosen"),
        ("folder=nobody&part=minutes&amount=1", "group nobody does not exist"),
    ] {
        let seen = paged.changed("/budgets/set", me, form);
        assert!(seen.contains(why), "{form}: {seen}");
    }
    // The page changes no setting by which another program could run.
    let seen = paged.changed("/do/config.set", me, "arg-name=agent.provider&arg-value=acp");
    assert!(seen.contains("the page may not ask for this"), "{seen}");
}

#[test]
fn hosts_are_allowed_denied_and_forgotten_for_a_group() {
    let paged = Paged::new("[egress]\nallow = [\"mirror.example.org\"]\n");
    let _daemon = paged.serve();
    let (cookie, token) = paged.enter();
    let me = (cookie.as_str(), token.as_str());
    assert!(paged.seen("/egress", &cookie).contains("mirror.example.org"));
    let host = "arg-group=main&arg-host=*.example.com";
    for (operation, state) in [("egress.allow", "allowed"), ("egress.deny", "denied")] {
        let seen = paged.changed(&format!("/do/{operation}"), me, host);
        assert!(seen.contains(&operation.replace('.', " ")) && seen.contains("*.example.com"), "{seen}");
        let seen = paged.seen("/egress?group=main", &cookie);
        assert!(seen.contains(&format!("data-is=\"{state}\"")), "{seen}");
    }
    paged.changed("/do/egress.remove", me, host);
    assert!(paged.seen("/egress", &cookie).contains("It has no rule of its own"));
    assert!(
        paged.changed("/do/egress.allow", me, "arg-group=main&arg-host=127.0.0.1").contains("data-failed")
    );
    assert_eq!(paged.get("/egress?group=nobody", &[("Cookie", &cookie)]).status, 404);
}

#[test]
fn the_audit_is_searched_and_read_back_to_its_first_row() {
    let paged = Paged::new("");
    paged.root.g2(&["users", "add", "tg:1", "--name", "Ann"]);
    let _daemon = paged.serve();
    let (cookie, token) = paged.enter();
    for _ in 0..61 {
        assert_eq!(paged.post("/do/dropped.clear", &cookie, &format!("token={token}")).status, 303);
    }
    let rows = |seen: &str| seen.matches("<code>dropped.clear</code>").count();
    let newest = paged.seen("/audit?from=page&find=DROPPED", &cookie);
    assert_eq!(rows(&newest), 60, "{newest}");
    assert!(newest.contains("g2 audit list --limit 60 --from page --grep DROPPED"), "{newest}");
    let older = Regex::new("href=\"([^\"]*before=[0-9]+)\" rel=\"next\"").unwrap();
    let older = older.captures(&newest).unwrap()[1].replace("&amp;", "&");
    let seen = paged.seen(&older, &cookie);
    assert!(rows(&seen) == 1 && seen.contains(">Newest<"), "{seen}");
    let seen = paged.seen("/audit?find=users.add", &cookie);
    assert!(seen.contains("tg:1") && seen.contains("Command line"), "{seen}");
    assert!(paged.seen("/audit?find=nothing+like+it", &cookie).contains("No such change."));
}

#[test]
fn a_backup_is_made_at_once_and_stands_in_the_list() {
    let paged = Paged::new("[backup]\nto = \"shelf\"\n");
    let _daemon = paged.serve();
    let (cookie, token) = paged.enter();
    assert!(paged.seen("/backups", &cookie).contains("No backup is there yet."));
    let seen = paged.changed("/do/backup.now", (&cookie, &token), "");
    assert!(seen.contains("g2 backup --now"), "{seen}");
    wait_for("the backup in the list", || {
        let seen = paged.seen("/backups", &cookie);
        let is_made = seen.contains("The last one went well") && seen.contains("everything");
        (is_made && seen.contains("Make one now")).then_some(())
    });
    let files: Vec<_> = fs::read_dir(paged.root.path().join("shelf")).unwrap().collect();
    assert_eq!(files.len(), 1);
    let seen = paged.seen("/backups", &cookie);
    assert!(seen.contains("g2 --root NEW restore /"), "{seen}");
}

#[test]
fn without_a_folder_the_page_says_how_one_is_named() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, token) = paged.enter();
    assert!(paged.seen("/backups", &cookie).contains("g2 config set backup.to DIR"));
    let seen = paged.changed("/do/backup.now", (&cookie, &token), "");
    assert!(seen.contains("no folder is named for backups"), "{seen}");
}

#[test]
fn an_account_is_added_and_its_token_is_seen_nowhere_again() {
    let paged = Paged::new("");
    let daemon = paged.serve();
    let (cookie, token) = paged.enter();
    let me = (cookie.as_str(), token.as_str());
    const SECRET: &str = "123456:AAhushhush";
    let form = format!("platform=telegram&account=work&secret={}", SECRET.replace(':', "%3A"));
    let seen = paged.changed("/channels/add", me, &form);
    assert!(
        seen.contains("telegram.work is added") && seen.contains("g2 channels add telegram.work"),
        "{seen}"
    );
    let kept = paged.root.data("secrets/telegram.work.token");
    assert_eq!(fs::read_to_string(&kept).unwrap().trim(), SECRET);
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    let again = paged.changed("/channels/add", me, &form);
    assert!(again.contains("there is a channel telegram.work already"), "{again}");
    let wrong = paged.changed("/channels/add", me, "platform=toy&secret=x");
    assert!(wrong.contains("no platform is chosen"), "{wrong}");
    let page = paged.seen("/channels", &cookie);
    assert!(page.contains("id=\"telegram.work\"") && page.contains("type=\"password\""), "{page}");
    let audit = paged.root.g2(&["audit", "list"]);
    let changes = fs::read_to_string(paged.root.data("changes.log")).unwrap();
    let settings = fs::read_to_string(paged.root.path().join("g2.toml")).unwrap();
    for (place, text) in [
        ("outcome", &seen),
        ("again", &again),
        ("page", &page),
        ("audit", &audit),
        ("log", &changes),
        ("settings", &settings),
    ] {
        assert!(!text.contains("hushhush"), "{place}: {text}");
    }
    // A program of one's own is no account of the page's.
    let seen = paged.changed("/do/channels.add", me, "arg-name=toy&arg-program=sh");
    assert!(seen.contains("data-failed"), "{seen}");
    let seen = paged.changed("/do/channels.remove", me, "arg-name=telegram.work");
    assert!(seen.contains("telegram.work is removed"), "{seen}");
    assert!(!kept.exists());
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn settings_and_accounts_that_are_changed_at_the_same_time_are_all_kept() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, token) = paged.enter();
    let (paged, me) = (&paged, (cookie.as_str(), token.as_str()));
    let names: Vec<String> = (0..6).map(|n| format!("n{n}")).collect();
    std::thread::scope(|threads| {
        for name in &names {
            let add = format!("platform=telegram&account={name}&secret=1%3A{name}");
            threads.spawn(move || paged.changed("/channels/add", me, &add));
        }
        for part in ["requests", "tokens", "minutes"] {
            let set = format!("arg-name=budget.{part}&arg-value=77");
            threads.spawn(move || paged.changed("/do/config.set", me, &set));
        }
        // Of two that add one account only one does, and its token stays.
        let twice: Vec<_> = ["first", "second"]
            .map(|secret| {
                let add = format!("platform=telegram&account=twice&secret={secret}");
                (secret, threads.spawn(move || paged.changed("/channels/add", me, &add)))
            })
            .into_iter()
            .filter_map(|(secret, added)| {
                (!added.join().unwrap().contains("outcome failed")).then_some(secret)
            })
            .collect();
        let kept = fs::read_to_string(paged.root.data("secrets/telegram.twice.token")).unwrap();
        assert_eq!(twice, [kept.trim()]);
    });
    let settings = fs::read_to_string(paged.root.path().join("g2.toml")).unwrap();
    for name in &names {
        assert!(settings.contains(&format!("[channels.\"telegram.{name}\"]")), "{name}: {settings}");
    }
    assert_eq!(settings.matches("= 77").count(), 3, "{settings}");
}

#[test]
fn a_code_is_shown_once_to_its_session_with_its_picture_and_what_became_of_it() {
    let paged = Paged::new("[channels.toy]\ncommand = [\"/bin/false\"]\n");
    let _daemon = paged.serve();
    let (cookie, token) = paged.enter();
    let (other, _) = paged.enter();
    assert!(paged.seen("/channels", &cookie).contains("Become its owner"));
    let made = paged.post("/channels/claim", &cookie, &format!("token={token}"));
    assert_eq!((made.status, made.header("location")), (303, "/channels/claim/1"));
    let seen = paged.seen("/channels/claim/1", &cookie);
    let code = Regex::new("<code>([2-9A-Z]{4}-[2-9A-Z]{4})</code>").unwrap();
    let code = code.captures(&seen).unwrap()[1].to_owned();
    assert!(seen.contains("<svg class=\"qr\"") && seen.contains("The code is waited for"), "{seen}");
    let foreign = paged.seen("/channels/claim/1", &other);
    assert!(!foreign.contains(&code) && foreign.contains("only to the session that made it"), "{foreign}");
    let told = format!(
        "{}{}",
        paged.root.g2(&["audit", "list"]),
        fs::read_to_string(paged.root.data("changes.log")).unwrap()
    );
    assert!(told.contains("users.claim") && !told.contains(&code), "{told}");
    paged.root.change_store(
        "UPDATE claims SET state = 'used', used_by = 'toy:7', chat_jid = 'toy:7', ended_at = made_at",
    );
    let seen = paged.seen("/channels/claim/1", &cookie);
    assert!(seen.contains("toy:7 is an owner") && !seen.contains(&code), "{seen}");
    assert_eq!(paged.get("/channels/claim/9", &[("Cookie", &cookie)]).status, 404);
}

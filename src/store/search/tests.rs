//! An index that is behind, broken, gone, or somebody else's.
#![expect(clippy::disallowed_methods, reason = "breaks what the store keeps beside itself")]

use futures_util::FutureExt as _;
use ipc_handlers::Time;
use proptest::{collection::vec, prelude::*};

use super::{super::NewGroup, *};
use crate::domain::mailbox::search::{Words, apart};

struct Archive {
    dir: tempfile::TempDir,
    store: Store,
    indexer: Mutex<Indexer>,
}

fn folder(name: &str) -> Folder {
    Folder::parse(name).unwrap()
}

fn never() -> Stop {
    Arc::new(|| false)
}

impl Archive {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        let indexer = Mutex::new(store.indexer().unwrap());
        Self { dir, store, indexer }
    }

    async fn keep(&self, group: &str, session: &str, name: &str, content: &str, at: i64) -> i64 {
        let (group, session, name, content) =
            (folder(group), session.to_owned(), name.to_owned(), content.to_owned());
        let known = self.store.groups().await.unwrap().into_iter().any(|row| row.folder == group);
        if !known {
            let new = NewGroup {
                folder: group.clone(),
                name: group.to_string(),
                is_main: group.as_str() == "main",
                trigger: "@G2".into(),
            };
            self.store.add_group(new, Vec::new(), Time(0)).await.unwrap();
        }
        let keep = move |c: &rusqlite::Connection| {
            super::super::sessions::archive(c, &group, &session, &name, &content, Time(at))
        };
        self.store.write(keep).await.unwrap()
    }

    fn piece(&self) -> bool {
        self.indexer.lock().unwrap().work().unwrap()
    }

    fn index(&self) {
        while self.piece() {}
        let wrong = "SELECT count(*) FROM (SELECT group_folder, volume, sum(parts) AS parts FROM seen GROUP BY group_folder, volume) AS seen
                       FULL JOIN filled USING (group_folder, volume) WHERE seen.parts IS NOT filled.parts";
        assert_eq!(self.number(wrong), 0, "each volume has as many rows as is said");
    }

    fn search(&self, group: &str, query: &str) -> Vec<FoundSession> {
        self.index();
        let found = self.store.search(&folder(group), query, 10, true, &never()).unwrap();
        assert_eq!(found.unsearched, None, "{query}");
        found.sessions
    }

    fn found(&self, group: &str, query: &str) -> Vec<String> {
        self.search(group, query).into_iter().map(|found| found.session.session_id).collect()
    }

    /// What is found without anything being indexed.
    fn as_it_is(&self, group: &str, query: &str) -> (usize, Option<Unsearched>) {
        let found = self.store.search(&folder(group), query, 10, false, &never()).unwrap();
        (found.sessions.len(), found.unsearched)
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("search.sqlite")
    }

    fn number(&self, sql: &str) -> i64 {
        let index = rusqlite::Connection::open(self.file()).unwrap();
        index.query_row(sql, [], |r| r.get(0)).unwrap()
    }
}

#[tokio::test]
async fn the_best_come_first_and_what_others_keep_changes_nothing() {
    let all = Archive::new();
    let much = "a word about Lisbon, and much more about other things than that";
    all.keep("main", "s-1", "groceries", much, 1).await;
    all.keep("main", "s-2", "Lisbon", "where to stay", 2).await;
    all.keep("main", "s-3", "travel", "Lisbon, Lisbon, Lisbon", 3).await;
    all.keep("main", "s-4", "elsewhere", "Porto", 4).await;
    let now = || ["lisbon", "lis", "a"].map(|query| all.found("main", query));
    let alone = now();
    assert_eq!(alone[0], ["s-2", "s-3", "s-1"]);
    for n in 0..50 {
        all.keep("other", &format!("o-{n}"), "Lisbon Lisbon", "Lisbon and groceries", n).await;
    }
    assert_eq!(now(), alone);
    assert_eq!(all.found("other", "lisbon").len(), 10);
    assert_eq!(all.found("third", "lisbon"), Vec::<String>::new());
}

#[tokio::test]
async fn equal_ones_come_newest_first_and_short_words_count_too() {
    let all = Archive::new();
    for (n, session) in ["s-1", "s-2", "s-3"].into_iter().enumerate() {
        let content = if n == 1 { "by bus no 5" } else { "by bus no 7" };
        all.keep("main", session, "x", content, 100 - i64::try_from(n).unwrap()).await;
    }
    assert_eq!(all.found("main", "bus"), ["s-1", "s-2", "s-3"]);
    assert_eq!(all.found("main", "bus 7"), ["s-1", "s-3"]);
    assert_eq!(all.found("main", "5 NO"), ["s-2"]);
    assert_eq!(all.found("main", ""), ["s-1", "s-2", "s-3"]);
    assert_eq!(all.search("main", "bus")[0].snippet, "by **bus** no 7");
    assert_eq!(all.search("main", "7")[0].snippet, "by bus no 7");
}

#[tokio::test]
async fn accents_case_and_scripts_are_found_as_they_are_said() {
    let all = Archive::new();
    all.keep("main", "s-1", "x", "ein Café in ÖSTERREICH, 東京都庁舎, \"quoted\" naïve", 1).await;
    for query in ["cafe", "CAFÉ", "österreich", "京都庁", "東京", "\"quoted\"", "naive", "fe\u{301}"] {
        assert_eq!(all.found("main", query), ["s-1"], "{query}");
    }
    assert_eq!(all.search("main", "cafe")[0].snippet.split(' ').nth(1), Some("**Café**"));
    all.keep("main", "s-3", "x", "before\0behind", 1).await;
    for query in ["before", "behind"] {
        assert_eq!(all.found("main", query), ["s-3"], "{query}");
    }
    all.keep("main", "s-2", "Ёлка", "λόγος, việt, мой, 한국어", 1).await;
    for query in ["елка", "ЁЛКА", "λογος", "ΛΌΓΟΣ", "viet", "мой", "мо\u{438}\u{306}", "국어"]
    {
        assert_eq!(all.found("main", query), ["s-2"], "{query}");
    }
}

#[tokio::test]
async fn what_is_archived_anew_or_deleted_is_found_as_it_is_now_and_leaves_nothing_behind() {
    let all = Archive::new();
    let first = all.keep("main", "s-1", "x", &"about trains ".repeat(10_000), 1).await;
    assert_eq!(all.found("main", "trains"), ["s-1"]);
    for said in ["about planes", "about boats"] {
        // Twice in one moment.
        all.keep("main", "s-1", "x", said, 2).await;
        assert_eq!(all.found("main", said), ["s-1"]);
    }
    for said in ["trains", "planes"] {
        assert_eq!(all.found("main", said), Vec::<String>::new());
    }
    // Under another name both are there.
    let second = all.keep("main", "s-1", "y", "about trains", 1).await;
    assert_eq!((all.found("main", "boats").len(), all.found("main", "trains").len()), (1, 1));
    all.store.delete_archive(first).await.unwrap();
    assert_eq!(all.as_it_is("main", "boats").0, 0, "nobody sees it from then on");
    all.index();
    assert_eq!(all.number("SELECT count(*) FROM seen"), 1);
    all.store.delete_archive(second).await.unwrap();
    all.index();
    assert_eq!(all.number("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'said%'"), 0);
    assert_eq!(all.number("SELECT count(*) FROM filled"), 0);
    // And with its group.
    all.keep("other", "s-1", "x", "about trains", 1).await;
    assert_eq!(all.found("other", "trains").len(), 1);
    all.store.remove_group(folder("other")).await.unwrap();
    assert_eq!(all.found("other", "trains").len(), 0);
    assert_eq!(all.number("SELECT count(*) FROM seen"), 0);
}

#[tokio::test]
async fn what_was_archived_anew_is_not_found_by_what_it_was_before_its_turn_comes() {
    let all = Archive::new();
    all.keep("main", "s-1", "x", "about trains", 1).await;
    assert_eq!(all.found("main", "trains"), ["s-1"]);
    all.keep("main", "s-1", "x", "about boats", 2).await;
    for query in ["trains", "boats"] {
        assert_eq!(all.as_it_is("main", query), (0, Some(Unsearched::NotIndexed)), "{query}");
    }
    assert_eq!(all.found("main", "boats"), ["s-1"]);
}

#[tokio::test]
async fn an_index_that_is_broken_removed_or_of_another_version_is_made_anew() {
    let all = Archive::new();
    for n in 0..20 {
        all.keep("main", &format!("s-{n:02}"), "x", &"about trains ".repeat(500), n).await;
    }
    let whole = all.found("main", "trains");
    assert_eq!(whole.len(), 10);
    let breaks: [fn(&Path); 5] = [
        |path| file::remove(path).unwrap(),
        |path| {
            file::remove(path).unwrap();
            std::fs::write(path, "this is no database, whatever its name says".repeat(100)).unwrap();
        },
        |path| rusqlite::Connection::open(path).unwrap().pragma_update(None, "user_version", 77).unwrap(),
        // Its pages from the second on are not what they were.
        |path| {
            let copy = std::fs::read(path).unwrap();
            file::remove(path).unwrap();
            std::fs::write(path, [&copy[..4096], &vec![0xa5; copy.len() - 4096]].concat()).unwrap();
        },
        // Removed and made by somebody else, who has not indexed anything yet.
        |path| {
            file::remove(path).unwrap();
            drop(Index::open(Some(path)).unwrap());
        },
    ];
    for (n, breaks) in breaks.into_iter().enumerate() {
        // As a new daemon finds it, and while it is held open.
        for is_held in [false, true] {
            if !is_held {
                all.store.search.idle().clear();
            }
            let log = rusqlite::Connection::open(all.file()).unwrap();
            log.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            drop(log);
            breaks(&all.file());
            if n == 2 {
                // A version is looked at when a file is opened.
                all.store.search.idle().clear();
            }
            // The first to look may be who finds out.
            let _ = all.as_it_is("main", "trains");
            assert_eq!(all.found("main", "trains"), whole, "{n} {is_held}");
        }
    }
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata(all.file()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn of_two_who_find_it_broken_one_makes_it_anew() {
    let all = Archive::new();
    all.keep("main", "s-1", "x", "about trains", 1).await;
    assert_eq!(all.found("main", "trains"), ["s-1"]);
    let spoil = || rusqlite::Connection::open(all.file()).unwrap().execute_batch("DROP TABLE seen").unwrap();
    let count = |index: &mut Index| {
        let all = index.c.query_row("SELECT count(*) FROM seen", [], |r| r.get::<_, i64>(0));
        Ok((all?, index.file))
    };
    spoil();
    let mut made = None;
    let now = all.store.search.with(|index| {
        let outcome = count(index);
        // Another thread finds it broken too, and is first.
        made = made.or_else(|| Some(all.store.search.with(count).unwrap()));
        outcome
    });
    assert_eq!(now.unwrap(), made.unwrap(), "what the first one made stays");
    assert_eq!(all.found("main", "trains"), ["s-1"]);
}

#[tokio::test]
async fn a_connection_is_to_the_file_that_it_says() {
    let all = Archive::new();
    all.keep("main", "s-1", "x", "about trains", 1).await;
    assert_eq!(all.found("main", "trains"), ["s-1"]);
    let search = &all.store.search;
    for round in 0..40 {
        rusqlite::Connection::open(all.file()).unwrap().execute_batch("DROP TABLE seen").unwrap();
        let together = std::sync::Barrier::new(4);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    together.wait();
                    search.with(|index| Ok(index.c.execute_batch("SELECT count(*) FROM seen")?)).unwrap();
                });
            }
        });
        assert_eq!(all.found("main", "trains"), ["s-1"], "round {round}");
        for index in search.idle().iter() {
            let seen = index.c.query_row("SELECT count(*) FROM seen", [], |r| r.get::<_, i64>(0)).unwrap();
            assert_eq!((seen, index.file), (1, file::id(Some(&all.file()))), "round {round}");
        }
    }
}

#[tokio::test]
async fn a_session_that_can_not_be_read_is_left_out_alone() {
    let all = Archive::new();
    for session in ["s-1", "s-2", "s-3"] {
        all.keep("main", session, "x", "about trains", 1).await;
    }
    let breaks = |c: &rusqlite::Connection| {
        Ok(c.execute("UPDATE archives SET content = CAST(x'ff' AS TEXT) WHERE session_id = 's-2'", [])?)
    };
    assert_eq!(all.store.write(breaks).await.unwrap(), 1);
    assert_eq!(all.found("main", "trains"), ["s-3", "s-1"]);
}

#[tokio::test]
async fn a_fault_of_the_store_is_not_the_indexs() {
    let all = Archive::new();
    all.keep("main", "s-1", "x", "about trains", 1).await;
    assert_eq!(all.found("main", "trains"), ["s-1"]);
    // Of an index, this would be a reason to make it anew.
    let broken =
        || rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), None);
    let read = all.store.search.with(|_| of_store(|| Err::<(), _>(broken())));
    assert!(matches!(read, Err(StoreError::Read(_))), "{read:?}");
    assert_eq!(all.number("SELECT count(*) FROM seen"), 1);
    assert!(all.store.search.with(|_| Err::<(), _>(broken().into())).is_err());
    assert_eq!(all.number("SELECT count(*) FROM seen"), 0);
}

#[tokio::test]
async fn a_group_with_much_to_index_makes_nobody_wait() {
    let all = Archive::new();
    for n in 0..3 {
        all.keep("evil", &format!("s-{n}"), "x", &"nothing ".repeat(200_000), n).await;
    }
    assert!(all.piece() && all.piece());
    all.keep("good", "s-1", "x", "about trains", 1).await;
    all.keep("good", "s-2", "x", "about planes", 1).await;
    // At most one piece of each group's comes before.
    assert!(all.piece() && all.piece());
    let found = all.store.search(&folder("good"), "trains", 10, true, &never()).unwrap();
    assert_eq!((found.sessions.len(), found.unsearched), (1, None));
    assert_eq!(all.as_it_is("evil", "elsewhere"), (0, Some(Unsearched::NotIndexed)));
    assert_eq!(all.found("evil", "nothing").len(), 3);
}

#[tokio::test]
async fn of_a_search_that_is_stopped_once_it_knows_them_the_best_are_shown() {
    let all = Archive::new();
    for n in 0..12 {
        all.keep("main", &format!("s-{n:02}"), "x", "about trains", n).await;
    }
    all.index();
    let best: Vec<String> =
        all.search("main", "trains").into_iter().map(|found| found.session.session_id).collect();
    let (mut stopped, mut asked) = (Vec::new(), 0);
    loop {
        let left = std::sync::atomic::AtomicUsize::new(asked);
        let stop: Stop = Arc::new(move || {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
        });
        let found = all.store.search(&folder("main"), "trains", 10, true, &stop).unwrap();
        let ids: Vec<String> = found.sessions.iter().map(|one| one.session.session_id.clone()).collect();
        if found.unsearched.is_none() {
            assert_eq!(ids, best);
            break;
        }
        assert_eq!(found.unsearched, Some(Unsearched::TooMuch));
        assert!(best.starts_with(&ids) && found.sessions.iter().all(|one| one.snippet == "about **trains**"));
        stopped.push(ids.len());
        asked += 1;
    }
    // How often it is asked varies: SQLite goes on counting where the last search left off.
    assert_eq!(stopped.first(), Some(&0), "{stopped:?}");
    assert!(stopped.contains(&8) && stopped.iter().all(|shown| [0, 8].contains(shown)), "{stopped:?}");
}

#[tokio::test]
async fn each_of_a_few_long_sessions_is_shown_where_its_words_are() {
    let all = Archive::new();
    for n in 0..3 {
        let content =
            format!("{}the harbour {n}{}", "of other things ".repeat(9000), " and more".repeat(9000));
        all.keep("main", &format!("s-{n}"), "x", &content, n).await;
    }
    let found = all.search("main", "harbour");
    let shown: Vec<String> = found.iter().map(|one| one.session.session_id.clone()).collect();
    assert_eq!(shown, ["s-2", "s-1", "s-0"]);
    for (n, one) in found.iter().rev().enumerate() {
        assert!(one.snippet.contains(&format!("**harbour** {n}")), "{}", one.snippet);
    }
}

#[tokio::test]
async fn a_search_waits_for_what_was_archived_before_it() {
    let all = Archive::new();
    all.keep("main", "s-1", "x", "about trains", 1).await;
    let group = folder("main");
    let mut waiting = std::pin::pin!(all.store.indexed(&group));
    assert!(waiting.as_mut().now_or_never().is_none());
    all.index();
    waiting.await.unwrap();
    assert_eq!(all.store.search(&group, "trains", 10, true, &never()).unwrap().sessions.len(), 1);
}

#[tokio::test]
async fn what_is_nothing_to_the_index_keeps_no_search_waiting() {
    let all = Archive::new();
    let (main, other) = (folder("main"), folder("other"));
    all.keep("main", "s-1", "x", "about trains", 1).await;
    all.index();
    for n in 0..3 {
        all.store
            .write(move |c| {
                c.execute("INSERT INTO events (at, kind, subject) VALUES (0, 'task', ?1)", [n])
                    .map_err(Into::into)
            })
            .await
            .unwrap();
        assert!(all.store.is_indexed(&main).unwrap(), "the indexer has not looked since");
    }
    all.keep("main", "s-2", "x", "about planes", 1).await;
    assert!(!all.store.is_indexed(&main).unwrap());
    assert!(!all.store.is_indexed(&other).unwrap(), "nobody knows yet whose it is");
    all.index();
    assert!(all.store.is_indexed(&main).unwrap() && all.store.is_indexed(&other).unwrap());
}

#[tokio::test]
async fn events_that_are_gone_unread_are_made_up_for() {
    let all = Archive::new();
    let first = all.keep("main", "s-1", "x", "about trains", 1).await;
    assert_eq!(all.found("main", "trains"), ["s-1"]);
    all.keep("main", "s-2", "x", "about planes", 1).await;
    all.store.delete_archive(first).await.unwrap();
    all.store.write(|c| Ok(c.execute("DELETE FROM events", [])?)).await.unwrap();
    assert_eq!(all.found("main", "planes"), ["s-2"]);
    assert_eq!(all.number("SELECT count(*) FROM seen"), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_fits_is_found_and_nothing_else(
        texts in vec("([abc\"* ]|[äÉñёй\u{301}]|[한국東京💥]|abcab){0,60}", 1..6),
        pad in 0_usize..6_000,
        query in "[abcäéй한東\"* ]{0,8}",
        piece in any::<proptest::sample::Index>(),
    ) {
        let all = Archive::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        // One of them is long, with its words where rows meet.
        let mut texts = texts;
        texts[0] = format!("{}{}{}", "é ".repeat(pad / 3), texts[0], " b".repeat(50));
        runtime.block_on(async {
            for (n, text) in texts.iter().enumerate() {
                all.keep("main", &format!("s-{n}"), "x", text, n.try_into().unwrap()).await;
            }
        });
        // What nobody said, and what somebody did.
        let letters: Vec<char> = texts[texts.len() - 1].chars().collect();
        let said: String = letters.iter().skip(piece.index(letters.len() + 1)).take(9).collect();
        let bare = |text: &str| apart(text).to_lowercase().replace(|c| ('\u{300}'..='\u{36f}').contains(&c), "");
        for query in [query, said] {
            let words = Words::of(&query);
            // Of shorter ones accents count.
            prop_assume!(words.short.is_empty());
            let fits = |text: &String| words.long.iter().all(|word| bare(text).contains(word.as_str()));
            let fits: Vec<String> =
                (0..texts.len()).filter(|n| fits(&texts[*n])).map(|n| format!("s-{n}")).collect();
            let mut found = all.found("main", &query);
            found.sort();
            prop_assert_eq!(found, fits, "{:?}", query);
        }
    }
}

#[tokio::test]
async fn what_is_said_over_and_over_is_found_like_anything_else() {
    let all = Archive::new();
    for n in 0..3 {
        all.keep("main", &format!("s-{n}"), "x", &"a".repeat(200_000), n).await;
    }
    for query in ["aaa", "a", "aa", &"a".repeat(250), "aaa aaaa aaaaa aaaaaa"] {
        assert_eq!(all.found("main", query), ["s-2", "s-1", "s-0"], "{query}");
    }
    assert!(all.search("main", "aaa").iter().all(|found| found.snippet.len() < 300));
}

#[tokio::test]
async fn of_a_very_long_session_its_end_is_searched() {
    let all = Archive::new();
    let said = format!("at first bicycles {} and at last trains", "ü ".repeat(1 << 19));
    all.keep("main", "s-1", "x", &said, 1).await;
    for (query, count) in [("trains", 1), ("bicycles", 0), ("ü", 1), ("at", 1), ("it", 0)] {
        assert_eq!(all.found("main", query).len(), count, "{query}");
    }
}

#[tokio::test]
async fn what_is_said_where_two_rows_of_a_text_meet_is_found() {
    let all = Archive::new();
    let words: Vec<String> = (0..9_000).map(|n| format!("wörtchen{n:05}")).collect();
    all.keep("main", "s-1", "Lisbon", &words.join(" "), 1).await;
    for word in words.iter().step_by(97) {
        assert_eq!(all.found("main", word), ["s-1"], "{word}");
    }
    // Words of all rows, and of the name.
    assert_eq!(all.found("main", "wortchen00003 lisbon wortchen08999"), ["s-1"]);
    assert_eq!(all.found("main", "wortchen00003 porto"), Vec::<String>::new());
    // A long word is looked for in pieces, which are shown as one.
    all.keep("main", "s-2", "x", "at https://example.com/page/77 now", 1).await;
    assert_eq!(all.found("main", "https://example.com/page/78"), Vec::<String>::new());
    let found = all.search("main", "https://example.com/page/77");
    assert_eq!(found[0].snippet, "at **https://example.com/page/77** now");
}

#[tokio::test]
async fn more_than_a_volume_holds_is_searched_as_one() {
    let all = Archive::new();
    for n in 0..12 {
        let said = format!("{} session{n:02}", "ordinary words of no interest ".repeat(30_000));
        all.keep("main", &format!("s-{n:02}"), "x", &said, n).await;
    }
    all.index();
    assert!(all.number("SELECT count(DISTINCT volume) FROM seen") > 1);
    assert_eq!(all.found("main", "session00 ordinary"), ["s-00"]);
    assert_eq!(all.found("main", "session11"), ["s-11"]);
    assert_eq!(all.found("main", "interest").len(), 10);
}

#[tokio::test]
async fn a_search_that_is_to_stop_says_so() {
    let all = Archive::new();
    // All three letters at a time of what is asked for, and never one after the other.
    for n in 0..4 {
        all.keep("main", &format!("s-{n}"), "x", &"abc bcd cde ".repeat(80_000), n).await;
    }
    all.index();
    for query in ["abc", "cde abc", "bc", "abcde"] {
        let stop: Stop = Arc::new(|| true);
        let found = all.store.search(&folder("main"), query, 10, true, &stop).unwrap();
        assert_eq!((found.sessions.len(), found.unsearched), (0, Some(Unsearched::TooMuch)), "{query}");
    }
    assert_eq!(all.found("main", "abcde"), Vec::<String>::new());
    assert_eq!(all.found("main", "abc").len(), 4, "the index is as good as before");
}

#[tokio::test]
async fn more_groups_than_connections_search_in_turn() {
    let all = Archive::new();
    let groups: Vec<String> = (0..40).map(|n| format!("group-{n}")).collect();
    for group in &groups {
        all.keep(group, "s", group, "about trains", 1).await;
    }
    for group in &groups {
        assert_eq!(all.search(group, "trains")[0].session.name, *group);
    }
}

#[tokio::test]
async fn the_oldest_sessions_of_a_group_leave_a_full_index_for_newer_ones() {
    let archive = Archive::new();
    let text = |n: i64| format!("word{n:04} {}", "filler ".repeat(70_000));
    for n in 0..36 {
        archive.keep("evil", &format!("s{n}"), "x", &text(n), 100 + n).await;
    }
    archive.keep("good", "mine", "x", "word0000", 1).await;
    // Whatever is found, the reply says that old ones are not searched.
    let found = |query: &str| {
        archive.index();
        let found = archive.store.search(&folder("evil"), query, 10, true, &never()).unwrap();
        assert_eq!(found.unsearched, Some(Unsearched::Old), "{query}");
        found.sessions.into_iter().map(|found| found.session.session_id).collect::<Vec<_>>()
    };
    assert_eq!(found("word0035"), ["s35"]);
    assert_eq!(found("word0000"), [""; 0]);
    assert_eq!(archive.found("good", "word0000"), ["mine"], "another group's are its own");
    // Older than all that is there.
    archive.keep("evil", "late", "x", "wordlate", 50).await;
    assert_eq!(found("wordlate"), [""; 0]);
    archive.keep("evil", "new", "x", "wordnew", 500).await;
    assert_eq!(found("wordnew"), ["new"]);
    // What the index takes is the group's, in all places where its room is measured.
    let (mut counted, stored) = (archive.store.counted().unwrap(), archive.store.stored().unwrap());
    let mut index = |group: &str, rows: u64| {
        let rest = u64::try_from(counted.remove(&folder(group)).unwrap().bytes).unwrap();
        let by = archive.store.stored_by(&folder(group)).unwrap();
        assert_eq!((by, stored[&folder(group)]), (rest + (rows << 14), rest + (rows << 14)), "{group}");
    };
    let rows = || archive.number("SELECT sum(parts) FROM filled WHERE group_folder = 'evil'").unsigned_abs();
    let before = rows();
    assert!((4096..8192 + 4096).contains(&before), "{before}");
    index("evil", before);
    index("good", 2);
    // A start compares the index with the store, and comes to an end with it.
    *archive.indexer.lock().unwrap() = archive.store.indexer().unwrap();
    assert_eq!(found("word0035"), ["s35"]);
    assert_eq!(found("word0000"), [""; 0]);
    // It may have put in and taken out an older session.
    let rest = stored[&folder("evil")] - (before << 14);
    assert_eq!(archive.store.stored_by(&folder("evil")).unwrap(), rest + (rows() << 14));
}

#[tokio::test]
async fn an_indexer_that_begins_anew_takes_in_what_came_before_it() {
    let archive = Archive::new();
    archive.keep("main", "a", "x", "wordone", 1).await;
    assert_eq!(archive.found("main", "wordone"), ["a"]);
    // The first one panics, say.
    archive.keep("main", "b", "x", "wordtwo", 2).await;
    *archive.indexer.lock().unwrap() = archive.store.indexer().unwrap();
    assert_eq!(archive.found("main", "wordtwo"), ["b"]);
}

//! Indexes that are behind, broken, gone, or somebody else's.
#![expect(clippy::disallowed_methods, reason = "breaks what the store keeps beside itself")]

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use ipc_handlers::Time;
use proptest::{collection::vec, prelude::*};

use super::{super::NewGroup, *};

struct Archive {
    _dir: tempfile::TempDir,
    store: Store,
}

fn folder(name: &str) -> Folder {
    Folder::parse(name).unwrap()
}

impl Archive {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        Self { _dir: dir, store }
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
        let keep = move |c: &Connection| {
            super::super::sessions::archive(c, &group, &session, &name, &content, Time(at))
        };
        self.store.write(keep).await.unwrap()
    }

    fn search(&self, group: &str, query: &str) -> std::result::Result<Vec<FoundSession>, NotApplied> {
        self.store.search(folder(group), query.into(), 10, INDEXED_AT_ONCE, &|| false).unwrap().found
    }

    fn found(&self, group: &str, query: &str) -> Vec<String> {
        self.search(group, query).unwrap().into_iter().map(|found| found.session.session_id).collect()
    }

    fn file(&self, group: &str) -> PathBuf {
        self.store.indexes.file(&folder(group))
    }

    fn indexed(&self, group: &str) -> i64 {
        let index = Connection::open(self.file(group)).unwrap();
        index.query_row("SELECT count(*) FROM seen", [], |r| r.get(0)).unwrap()
    }

    /// Closes what is held open, as a new daemon would find it.
    fn forget(&self) {
        self.store.indexes.idle.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn the_best_come_first_and_what_others_keep_changes_nothing() {
    let all = Archive::new();
    all.keep(
        "main",
        "s-1",
        "groceries",
        "a word about Lisbon, and much more about other things than that",
        1,
    )
    .await;
    all.keep("main", "s-2", "Lisbon", "where to stay", 2).await;
    all.keep("main", "s-3", "travel", "Lisbon, Lisbon, Lisbon", 3).await;
    all.keep("main", "s-4", "elsewhere", "Porto", 4).await;
    let alone = (all.found("main", "lisbon"), all.found("main", "lis"), all.found("main", "é"));
    assert_eq!(alone.0, ["s-2", "s-3", "s-1"]);
    for n in 0..50 {
        all.keep("other", &format!("o-{n}"), "Lisbon Lisbon", "Lisbon and groceries", n).await;
    }
    assert_eq!((all.found("main", "lisbon"), all.found("main", "lis"), all.found("main", "é")), alone);
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
    assert_eq!(all.found("main", "5 no"), ["s-2"]);
    assert_eq!(all.found("main", ""), ["s-1", "s-2", "s-3"]);
    assert_eq!(all.search("main", "bus").unwrap()[0].snippet, "by **bus** no 7");
}

#[tokio::test]
async fn accents_case_and_scripts_are_found_as_they_are_said() {
    let all = Archive::new();
    all.keep("main", "s-1", "x", "ein Café in ÖSTERREICH, 東京都庁舎, \"quoted\" naïve", 1).await;
    for query in ["cafe", "CAFÉ", "österreich", "京都庁", "\"quoted\"", "naive"] {
        assert_eq!(all.found("main", query), ["s-1"], "{query}");
    }
    all.keep("main", "s-3", "x", "before\0behind", 1).await;
    assert_eq!(
        (all.found("main", "before"), all.found("main", "behind")),
        (vec!["s-3".into()], vec!["s-3".into()])
    );
    all.keep("main", "s-2", "Ёлка", "λόγος, n\u{332}eed, việt, мой, 한국어", 1).await;
    for query in ["елка", "ЁЛКА", "λογος", "ΛΌΓΟΣ", "need", "viet", "мой", "мо\u{438}\u{306}", "국어"]
    {
        assert_eq!(all.found("main", query), ["s-2"], "{query}");
    }
}

#[tokio::test]
async fn what_is_archived_anew_or_deleted_is_found_as_it_is_now() {
    let all = Archive::new();
    let first = all.keep("main", "s-1", "x", "about trains", 1).await;
    assert_eq!(all.found("main", "trains"), ["s-1"]);
    all.keep("main", "s-1", "x", "about planes", 2).await;
    assert_eq!(all.found("main", "trains"), Vec::<String>::new());
    assert_eq!(all.found("main", "planes"), ["s-1"]);
    assert_eq!(all.indexed("main"), 1);
    all.store.delete_archive(first).await.unwrap();
    assert_eq!(all.indexed("main"), 0, "it leaves at once");
    assert_eq!(all.found("main", "planes"), Vec::<String>::new());
}

#[tokio::test]
async fn an_index_that_is_broken_removed_or_of_another_version_is_made_anew() {
    let all = Archive::new();
    for n in 0..20 {
        all.keep("main", &format!("s-{n:02}"), "x", &"about trains ".repeat(500), n).await;
    }
    let whole = all.found("main", "trains");
    assert_eq!(whole.len(), 10);
    let path = all.file("main");
    let breaks: [fn(&PathBuf); 4] = [
        |path| std::fs::remove_file(path).unwrap(),
        |path| std::fs::write(path, "this is no database, whatever its name says".repeat(100)).unwrap(),
        |path| Connection::open(path).unwrap().pragma_update(None, "user_version", 77).unwrap(),
        // Its pages from the second on are not what they were.
        |path| {
            let mut bytes = std::fs::read(path).unwrap();
            bytes[4096..].fill(0xa5);
            std::fs::write(path, bytes).unwrap();
        },
    ];
    for (n, breaks) in breaks.into_iter().enumerate() {
        all.forget();
        breaks(&path);
        assert_eq!(all.found("main", "trains"), whole, "{n}");
    }
    // Removed by a person while it is held open: whoever else searches finds it, and so does who held it.
    let breaks: [fn(&PathBuf); 2] = [
        |path| std::fs::remove_file(path).unwrap(),
        |path| {
            std::fs::remove_file(path).unwrap();
            std::fs::write(path, "").unwrap();
        },
    ];
    for (n, breaks) in breaks.into_iter().enumerate() {
        breaks(&path);
        let other =
            Archive { _dir: tempfile::tempdir().unwrap(), store: Store::open(all.store.path()).unwrap() };
        assert_eq!(other.found("main", "trains"), whole, "{n}");
        assert_eq!(all.found("main", "trains"), whole, "{n}");
        assert_eq!(other.found("main", "trains"), whole, "{n}");
    }
    all.store.drop_index(&folder("main"));
    assert!(!path.exists());
}

#[tokio::test]
async fn much_that_is_new_is_indexed_a_piece_at_a_time_newest_first() {
    let all = Archive::new();
    for n in 0..3 {
        all.keep("main", &format!("s-{n}"), "x", if n == 0 { "about trains" } else { "about planes" }, n)
            .await;
    }
    let search =
        |query: &str| all.store.search(folder("main"), query.into(), 10, 1, &|| false).unwrap().found;
    assert_eq!(search("trains"), Err(NotApplied::NotIndexed), "the newest is indexed");
    let found = search("planes").unwrap();
    assert_eq!(found.len(), 2, "what is found so far");
    assert_eq!(search("trains").unwrap().len(), 1);
    assert_eq!(search("nothing").unwrap(), []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The index only narrows down where to look.
    #[test]
    fn what_fits_is_found_and_nothing_else(
        texts in vec("([abc\"* ]|[äÉñßςΣёйИ\u{301}\u{332}]|[한국東京💥]|\\PC|abcab){0,60}", 1..6),
        pad in 0_usize..3 * PART,
        query in "[abcäéσи한東\"* ]{0,8}",
        piece in any::<proptest::sample::Index>(),
    ) {
        let all = Archive::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        // One of them is long, with its words where parts meet.
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
        for query in [query, said] {
            let wanted = Wanted::new(&query);
            let fits = (0..texts.len()).filter(|n| wanted.tally("x", &texts[*n]).is_some());
            let fits: Vec<String> = fits.map(|n| format!("s-{n}")).collect();
            let mut found = all.found("main", &query);
            found.sort();
            prop_assert_eq!(found, fits, "{:?}", query);
        }
    }
}

#[tokio::test]
async fn what_was_archived_anew_is_not_found_by_what_it_was_before_its_turn_comes() {
    let all = Archive::new();
    let search =
        |query: &str| all.store.search(folder("main"), query.into(), 10, 1, &|| false).unwrap().found;
    all.keep("main", "s-1", "x", "about trains", 1).await;
    assert_eq!(search("trains").unwrap().len(), 1);
    all.keep("main", "s-1", "x", "about boats", 2).await;
    all.keep("main", "s-2", "x", "about planes", 3).await;
    assert_eq!(search("trains"), Err(NotApplied::NotIndexed));
    assert_eq!(search("boats").unwrap().len(), 1);
}

#[tokio::test]
async fn a_session_that_is_archived_twice_in_one_moment_is_found_as_it_is_now() {
    let all = Archive::new();
    for said in ["first words", "other words"] {
        all.keep("main", "s-1", "x", said, 1).await;
        assert_eq!(all.found("main", said), ["s-1"], "{said}");
    }
    assert_eq!(all.found("main", "first"), Vec::<String>::new());
    // Under another name both are there.
    all.keep("main", "s-1", "y", "third words", 1).await;
    assert_eq!(all.found("main", "other words"), ["s-1"]);
    assert_eq!(all.found("main", "third words"), ["s-1"]);
}

#[tokio::test]
async fn what_is_said_over_and_over_is_found_like_anything_else() {
    let all = Archive::new();
    for n in 0..3 {
        all.keep("main", &format!("s-{n}"), "x", &"a".repeat(900_000), n).await;
    }
    for query in ["aaa", "a", "aa", &"a".repeat(250), "aaa aaaa aaaaa aaaaaa"] {
        assert_eq!(all.found("main", query), ["s-2", "s-1", "s-0"], "{query}");
    }
    assert!(all.search("main", "aaa").unwrap().iter().all(|found| found.snippet.len() < 200));
}

#[tokio::test]
async fn of_a_very_long_session_its_end_is_searched() {
    let all = Archive::new();
    let said = format!("at first bicycles {} and at last trains", "ü ".repeat(SEARCHED / 2));
    all.keep("main", "s-1", "x", &said, 1).await;
    for (query, count) in [("trains", 1), ("bicycles", 0), ("ü", 1), ("at", 1), ("it", 0)] {
        assert_eq!(all.found("main", query).len(), count, "{query}");
    }
}

#[tokio::test]
async fn what_is_said_where_two_parts_of_a_text_meet_is_found() {
    let all = Archive::new();
    let words: Vec<String> = (0..9_000).map(|n| format!("wörtchen{n:05}")).collect();
    all.keep("main", "s-1", "Lisbon", &words.join(" "), 1).await;
    for word in words.iter().step_by(997).chain(words.iter().skip(2_160).take(50)) {
        assert_eq!(all.found("main", word), ["s-1"], "{word}");
    }
    assert_eq!(
        all.found("main", "wortchen00003 lisbon wortchen08999"),
        ["s-1"],
        "words of all parts, and of the name"
    );
    assert_eq!(all.found("main", "wortchen00003 porto"), Vec::<String>::new());
}

#[tokio::test]
async fn no_index_is_made_for_who_has_nothing_or_is_no_group() {
    let all = Archive::new();
    let first = all.keep("main", "s-1", "x", "about trains", 1).await;
    all.store.delete_archive(first).await.unwrap();
    assert_eq!(all.found("main", "trains"), Vec::<String>::new());
    assert_eq!(all.found("nobody", "trains"), Vec::<String>::new());
    assert!(!all.file("main").exists() && !all.file("nobody").exists());
}

#[tokio::test]
async fn a_search_that_is_to_stop_says_what_it_was_at() {
    let all = Archive::new();
    for n in 0..3 {
        all.keep("main", &format!("s-{n}"), "x", "about trains", n).await;
    }
    let us = std::thread::current().id();
    let within = |most: usize, query: &str| {
        // Who watches over statements asks, too, now and then.
        let asked = AtomicUsize::new(0);
        let stop = || std::thread::current().id() == us && asked.fetch_add(1, Ordering::Relaxed) >= most;
        all.store.search(folder("main"), query.into(), 10, INDEXED_AT_ONCE, &stop).unwrap().found
    };
    assert_eq!(within(0, "trains"), Err(NotApplied::NotIndexed), "before it begins");
    assert_eq!(within(1, "trains"), Err(NotApplied::NotIndexed), "while it indexes");
    all.found("main", "trains");
    assert_eq!(within(3, "trains"), Err(NotApplied::TooMuchToSearch), "while it looks");
    assert_eq!(within(6, "trains"), Err(NotApplied::TooMuchToSearch), "while it reads what is shown");
    assert_eq!(within(8, "trains").unwrap().len(), 3);
    for query in ["ab", ""] {
        for most in 0..=1 {
            assert_eq!(within(most, query), Err(NotApplied::TooMuchToSearch), "{query:?} after {most}");
        }
    }
}

#[tokio::test]
async fn a_statement_that_finds_nothing_among_much_that_nearly_fits_ends_when_it_is_to_stop() {
    let all = Archive::new();
    // All three letters at a time of what is asked for, and never one after the other.
    let text = "abc bcd cde ".repeat(80_000);
    for n in 0..4 {
        all.keep("main", &format!("s-{n}"), "x", &text, n).await;
    }
    assert_eq!(all.found("main", "abcde"), Vec::<String>::new());
    let us = std::thread::current().id();
    let (target, wanted) = (folder("main"), Wanted::new("abcde"));
    let found = all
        .store
        .read(|c| {
            all.store.indexes.with(&target, |index| {
                // Once it is at work: each statement ends at once that is begun meanwhile.
                let (stop, begun) = (AtomicBool::new(false), AtomicBool::new(false));
                let asked = || {
                    begun.store(true, Ordering::Relaxed);
                    std::thread::current().id() != us && stop.load(Ordering::Relaxed)
                };
                let forever = || -> Result<Option<Vec<FoundSession>>> {
                    stop.store(true, Ordering::Relaxed);
                    loop {
                        let found = look(index, c, &target, &wanted, 10, &|| false)?;
                        assert!(found.is_some_and(|found| found.is_empty()));
                    }
                };
                let found = interrupted_by(index, &asked, forever)?;
                assert!(begun.load(Ordering::Relaxed));
                Ok(found)
            })
        })
        .unwrap();
    assert_eq!(found, None);
    assert_eq!(all.found("main", "abc").len(), 4, "the index is as good as before");
}

#[tokio::test]
async fn short_words_are_looked_for_without_sorting_what_was_said() {
    let all = Archive::new();
    all.keep("main", "s-1", "x", "ab", 1).await;
    let plan = |sql: &str| {
        all.store
            .read(|c| {
                let mut plan = c.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
                let steps = plan.raw_query().mapped(|r| r.get::<_, String>("detail"));
                Ok(steps.collect::<rusqlite::Result<Vec<_>>>()?.join("; "))
            })
            .unwrap()
    };
    let newest = "archives WHERE group_folder = ?1 ORDER BY archived_at DESC, id DESC";
    let by_the_index = "SEARCH archives USING COVERING INDEX archives_newest (group_folder=?)";
    assert_eq!(plan(&format!("SELECT id FROM {newest}")), by_the_index);
    let listed = plan(&format!("SELECT id, revision, archived_at, octet_length(content) FROM {newest}"));
    assert_eq!(listed, by_the_index.replace("COVERING ", ""));
}

#[tokio::test]
async fn more_groups_than_are_held_open_search_in_turn() {
    let all = Archive::new();
    let groups: Vec<String> = (0..3 * HELD).map(|n| format!("group-{n}")).collect();
    for group in &groups {
        all.keep(group, "s", group, "about trains", 1).await;
    }
    for _ in 0..2 {
        for group in &groups {
            assert_eq!(all.search(group, "trains").unwrap()[0].session.name, *group);
        }
    }
    assert_eq!(all.store.indexes.idle.lock().unwrap().len(), HELD);
}

//! What the engine promises, on a clock of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ipc_handlers::{Folder, Time};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{domain::problems::Problem, system::world::World};

/// What a loop under test does at a look, or for a key.
#[derive(Clone)]
enum Does {
    Well(Then),
    Fails(Blame),
    Panics,
    Hangs,
    /// It ends when this is told, or the daemon stops.
    Waits(Arc<Notify>),
}

/// What happened, and when.
type Log = Arc<Mutex<Vec<(u64, String)>>>;

#[derive(Clone)]
struct Script {
    began: Instant,
    log: Log,
    /// What the looks do, one after the other; then they go well.
    looks: Arc<Mutex<Vec<Does>>>,
    /// What work for a key does, one after the other; then it goes well.
    work: Arc<Mutex<BTreeMap<String, Vec<Does>>>>,
    /// The keys that the list shows.
    list: Arc<Mutex<BTreeSet<String>>>,
    parts: Arc<Mutex<Vec<Read>>>,
    again: Option<Duration>,
    asks: Arc<Notify>,
}

impl Script {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            log: Arc::default(),
            looks: Arc::default(),
            work: Arc::default(),
            list: Arc::default(),
            parts: Arc::default(),
            again: None,
            asks: Arc::default(),
        }
    }

    fn note(&self, what: impl Into<String>) {
        let at = Instant::now().duration_since(self.began).as_secs();
        self.log.lock().unwrap().push((at, what.into()));
    }

    /// Returns what happened since the last time, each as `second what`.
    fn happened(&self) -> Vec<String> {
        let all = std::mem::take(&mut *self.log.lock().unwrap());
        all.into_iter().map(|(at, what)| format!("{at} {what}")).collect()
    }

    fn does(&self, key: &str, does: Vec<Does>) {
        self.work.lock().unwrap().insert(key.into(), does);
    }

    fn lists(&self, keys: &[&str]) {
        *self.list.lock().unwrap() = keys.iter().map(|key| (*key).to_owned()).collect();
    }
}

struct Scripted<const AT_ONCE: usize, const DIES: bool>(Script);

async fn done(does: Does, stop: &CancellationToken) -> Result<Then, Error> {
    match does {
        Does::Well(then) => Ok(then),
        Does::Fails(blame) => Err(Error { blame, why: "it is so".into() }),
        Does::Panics => panic!("boom"),
        Does::Hangs => std::future::pending().await,
        Does::Waits(told) => {
            tokio::select! {
                () = told.notified() => {}
                () = stop.cancelled() => {}
            }
            Ok(Then::Done)
        }
    }
}

fn next(of: &mut Vec<Does>) -> Does {
    if of.is_empty() { Does::Well(Then::Done) } else { of.remove(0) }
}

impl<const AT_ONCE: usize, const DIES: bool> Loop for Scripted<AT_ONCE, DIES> {
    const NAME: LoopName = LoopName::Deliver;
    const AT_ONCE: usize = AT_ONCE;
    const OUTLIVES_PANICS: bool = !DIES;
    type Key = String;
    type Job = ();
    type Hands = Script;

    fn hands(&self) -> Arc<Script> {
        Arc::new(self.0.clone())
    }

    async fn asked(&mut self) {
        self.0.asks.notified().await;
    }

    async fn look(&mut self, why: &Why<String>) -> Result<Plan<String, ()>, Error> {
        let mut of: Vec<&str> = Vec::new();
        let reasons = [(why.all, "all"), (why.time, "time"), (why.asked, "asked"), (why.again, "again")];
        of.extend(reasons.into_iter().filter(|(is, _)| *is).map(|(_, what)| what));
        let events: Vec<String> = why.events.iter().filter_map(|event| event.chat.clone()).collect();
        self.0.note(format!("look {} {}", of.join(" "), events.join(" ")).trim().to_owned());
        let does = next(&mut self.0.looks.lock().unwrap());
        done(does, &CancellationToken::new()).await?;
        let list = self.0.list.lock().unwrap().clone();
        let mut parts = self.0.parts.lock().unwrap();
        Ok(Plan {
            begin: list.into_iter().map(|key| (key, ())).collect(),
            wake: events.into_iter().map(|key| (key, ())).collect(),
            forget: Vec::new(),
            again: self.0.again,
            read: if parts.is_empty() { Read::All } else { parts.remove(0) },
        })
    }

    async fn perform(
        script: Arc<Script>,
        key: String,
        (): (),
        stop: CancellationToken,
    ) -> Result<Then, Error> {
        script.note(&key);
        let does = next(script.work.lock().unwrap().entry(key).or_default());
        done(does, &stop).await
    }

    fn stops(&mut self) {
        self.0.note("stops");
    }

    async fn finish(&mut self) {
        self.0.note("finish");
    }
}

/// A loop that is driven.
struct Under {
    script: Script,
    tell: mpsc::UnboundedSender<Result<News, Error>>,
    loops: Arc<Loops>,
    stop: CancellationToken,
    driven: JoinHandle<()>,
}

fn drive(script: Script) -> Under {
    drive_as::<2, false>(script)
}

fn drive_as<const AT_ONCE: usize, const DIES: bool>(script: Script) -> Under {
    let (tell, told) = mpsc::unbounded_channel();
    let (loops, stop) = (Arc::new(Loops::new(World::real())), CancellationToken::new());
    let (of, at, token) = (Scripted::<AT_ONCE, DIES>(script.clone()), Arc::clone(&loops), stop.clone());
    let driven = tokio::spawn(async move { run(of, Feed::Told(told), &at, token).await });
    Under { script, tell, loops, stop, driven }
}

impl Under {
    /// Lets time pass, and returns what happened.
    async fn after(&self, secs: u64) -> Vec<String> {
        let none = Duration::from_millis(u64::from(secs == 0));
        tokio::time::sleep(Duration::from_secs(secs) + none).await;
        self.script.happened()
    }

    fn event(&self, chat: &str) {
        let (kind, group) = (EventKind::Say, None);
        let chat = Some(chat.to_owned());
        let event = FeedEvent { seq: 1, at: Time(0), kind, group, chat, subject: String::new() };
        self.tell.send(Ok(News { events: vec![Arc::new(event)], missed: false })).unwrap();
    }

    fn state(&self) -> crate::domain::machine::loops::LoopState {
        self.loops.states().remove(0)
    }

    /// Stops, and returns what happened meanwhile and how many seconds it took.
    async fn stop(self) -> (Vec<String>, u64) {
        let began = Instant::now();
        self.stop.cancel();
        self.driven.await.unwrap();
        (self.script.happened(), began.elapsed().as_secs())
    }
}

fn repeated(does: &Does, times: usize) -> Vec<Does> {
    vec![does.clone(); times]
}

#[tokio::test(start_paused = true)]
async fn a_loop_looks_at_its_start_at_events_when_it_is_asked_and_when_its_time_has_come() {
    let under = drive(Script { again: Some(Duration::from_secs(10)), ..Script::new() });
    assert_eq!(under.after(1).await, ["0 look all"]);
    under.event("a");
    assert_eq!(under.after(1).await, ["1 look  a", "1 a"]);
    under.script.asks.notify_one();
    assert_eq!(under.after(1).await, ["2 look asked"]);
    assert_eq!(under.after(15).await, ["12 look time"]);
    under.tell.send(Ok(News { events: Vec::new(), missed: true })).unwrap();
    assert_eq!(under.after(1).await, ["18 look all"]);
    assert_eq!(under.stop().await, (vec!["19 stops".to_owned(), "19 finish".to_owned()], 0));
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_is_made_again_with_its_reason_and_what_came_meanwhile() {
    let script = Script::new();
    script.looks.lock().unwrap().extend(repeated(&Does::Fails(Blame::World), 6));
    let under = drive(script);
    assert_eq!(under.after(4).await, ["0 look all", "1 look all time", "3 look all time"]);
    under.event("a");
    assert_eq!(under.loops.problems(), []);
    assert_eq!(under.after(2).await, Vec::<String>::new(), "news is no reason to try it sooner");
    let looks = under.after(50).await;
    assert_eq!(looks, ["7 look all time", "15 look all time", "31 look all time"]);
    let [Problem::Loop { name: LoopName::Deliver, secs: 56, why }] = &under.loops.problems()[..] else {
        panic!("{:?}", under.loops.problems())
    };
    assert_eq!((why.as_str(), under.state().failures), ("it is so", 6));
    assert_eq!(under.after(10).await, ["61 look all time", "61 look  a", "61 a"]);
    assert_eq!((under.loops.problems(), under.state().why), (Vec::new(), None));
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_cant_be_read_is_a_failed_look_after_which_all_is_read() {
    let under = drive(Script::new());
    assert_eq!(under.after(1).await, ["0 look all"]);
    let locked = || Err(Error { blame: Blame::World, why: "locked".into() });
    (0..5).for_each(|_| under.tell.send(locked()).unwrap());
    // Between the tries it rests, and what is there is read each time.
    assert_eq!(
        under.after(20).await,
        ["1 look all", "2 look all", "4 look all", "8 look all", "16 look all"]
    );
    let [Problem::Loop { secs: 20, .. }] = &under.loops.problems()[..] else {
        panic!("{:?}", under.loops.problems())
    };
    under.event("a");
    assert_eq!(under.after(20).await, ["32 look  a", "32 a"]);
    assert_eq!(under.loops.problems(), []);
}

#[tokio::test(start_paused = true)]
async fn a_look_that_panics_is_made_again_or_ends_the_loop_that_says_so() {
    let script = Script::new();
    script.looks.lock().unwrap().extend(repeated(&Does::Panics, 2));
    let under = drive(script);
    assert_eq!(under.after(9).await, ["0 look all", "1 look all time", "3 look all time"]);

    let script = Script::new();
    script.looks.lock().unwrap().push(Does::Panics);
    let under = drive_as::<2, true>(script);
    under.driven.await.unwrap();
    assert_eq!(under.script.happened(), ["0 look all"], "nothing that it knows is to be trusted");
}

#[tokio::test(start_paused = true)]
async fn while_a_part_cant_be_read_the_others_are_and_it_is_told_when_to_try_again() {
    let script = Script::new();
    let failed = || Read::Failed(Error { blame: Blame::World, why: "a row".into() });
    script.parts.lock().unwrap().extend([failed(), Read::NotTried, failed(), Read::NotTried]);
    let under = drive(script);
    assert_eq!(under.after(0).await, ["0 look all"]);
    under.event("a");
    assert_eq!(under.after(2).await, ["0 look  a", "0 a", "1 look time again"]);
    under.event("b");
    assert_eq!(under.after(0).await, ["2 look  b", "2 b"]);
    assert_eq!(under.state().why.as_deref(), Some("a row"));
    assert_eq!(under.after(9).await, ["3 look time again"]);
    assert_eq!(under.state().why, None);
}

#[tokio::test(start_paused = true)]
async fn what_fails_later_does_not_put_off_what_failed_before() {
    let script = Script::new();
    let failed = || Read::Failed(Error { blame: Blame::World, why: "a row".into() });
    script.parts.lock().unwrap().extend((0..9).map(|_| failed()));
    let under = drive(script);
    assert_eq!(under.after(2).await, ["0 look all", "1 look time again"]);
    under.event("a");
    assert_eq!(under.after(2).await, ["2 look  a", "2 a", "3 look time again"]);
}

/// The lines that the log has of what is done while this lives.
struct Lines {
    lines: Arc<Mutex<Vec<u8>>>,
    _lives: tracing::subscriber::DefaultGuard,
}

#[derive(Clone)]
struct Lined(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lined {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn new() -> Self {
        let lines = Arc::<Mutex<Vec<u8>>>::default();
        let to = Lined(Arc::clone(&lines));
        let log = tracing_subscriber::fmt().with_writer(move || to.clone()).finish();
        Self { lines, _lives: tracing::subscriber::set_default(log) }
    }

    fn count(&self, words: &str) -> usize {
        String::from_utf8_lossy(&self.lines.lock().unwrap()).matches(words).count()
    }
}

/// Anybody can have news come: who does so while something can't be read does not fill the log.
#[tokio::test(start_paused = true)]
async fn news_that_comes_while_a_part_cant_be_read_is_logged_once_for_each_try_at_most() {
    let lines = Lines::new();
    let script = Script::new();
    let failed = || Read::Failed(Error { blame: Blame::Ours, why: "a row".into() });
    script.parts.lock().unwrap().extend((0..300).map(|_| failed()));
    let under = drive(script);
    for _ in 0..200 {
        under.event("a");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(lines.count("a loop can't look"), 2, "at the first failure, and at the try after a second");
    assert!(under.state().failures > 200, "each look failed: {:?}", under.state());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_rests_and_others_go_on() {
    let script = Script::new();
    script.does("a", repeated(&Does::Fails(Blame::World), 8));
    let under = drive(script);
    under.event("a");
    assert_eq!(under.after(2).await, ["0 look all", "0 look  a", "0 a", "1 a"]);
    under.event("a");
    under.event("b");
    assert_eq!(under.after(0).await, ["2 look  a", "2 look  b", "2 b"], "news does not shorten its rest");
    assert_eq!(under.loops.problems(), []);
    assert_eq!(under.after(2).await, ["3 a"]);
    let problem = |failures, aside, why: &str| Problem::LoopKey {
        name: LoopName::Deliver,
        key: "a".into(),
        more: 0,
        failures,
        aside,
        why: why.into(),
    };
    assert_eq!(under.loops.problems(), [problem(3, false, "it is so")]);
    assert_eq!(under.after(200).await, ["7 a", "15 a", "31 a", "63 a", "123 a", "183 a"]);
    assert_eq!((under.loops.problems(), under.state().resting), (Vec::new(), 0));
}

#[tokio::test(start_paused = true)]
async fn keys_that_fail_for_one_reason_are_one_problem() {
    let script = Script::new();
    for key in ["a", "b", "c"] {
        script.does(key, repeated(&Does::Fails(Blame::World), 9));
    }
    let under = drive(script);
    ["a", "b", "c"].into_iter().for_each(|key| under.event(key));
    under.after(20).await;
    let problems = under.loops.problems();
    let [Problem::LoopKey { key, more: 2, .. }] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!(key, "a");
    let finding = problems[0].finding();
    assert!(finding.text.contains("for a and 2 more"), "{}", finding.text);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_panics_five_times_is_set_aside_until_a_person_releases_it() {
    let script = Script::new();
    script.does("a", repeated(&Does::Panics, 5));
    let under = drive(script);
    under.event("a");
    assert_eq!(under.after(300).await, ["0 look all", "0 look  a", "0 a", "1 a", "3 a", "7 a", "15 a"]);
    under.event("a");
    under.event("b");
    assert_eq!(under.after(1).await, ["300 look  a", "300 look  b", "300 b"]);
    let [Problem::LoopKey { aside: true, failures: 5, .. }] = &under.loops.problems()[..] else {
        panic!("{:?}", under.loops.problems())
    };
    assert_eq!(under.loops.release(LoopName::Deliver, Some("c".into())).await, Ok(0));
    assert_eq!(under.loops.release(LoopName::Deliver, None).await, Ok(1));
    assert_eq!(under.loops.release(LoopName::Amends, None).await, Err(NoSuchLoop(LoopName::Amends)));
    assert_eq!(under.after(1).await, ["301 a"]);
    assert_eq!(under.loops.problems(), []);
}

#[tokio::test(start_paused = true)]
async fn one_key_is_worked_on_once_at_a_time_and_only_some_keys_at_all() {
    let script = Script::new();
    let told: [Arc<Notify>; 3] = Default::default();
    for (key, told) in ["a", "b", "c"].into_iter().zip(&told) {
        script.does(key, vec![Does::Waits(Arc::clone(told))]);
    }
    script.lists(&["a", "b", "c"]);
    let under = drive(script);
    assert_eq!(under.after(1).await, ["0 look all", "0 a", "0 b"]);
    let state = under.state();
    assert_eq!((state.at_work, state.waiting, state.resting), (2, 1, 0));
    under.script.lists(&[]);
    under.event("a");
    assert_eq!(under.after(1).await, ["1 look  a"]);
    told[1].notify_one();
    assert_eq!(under.after(1).await, ["2 c"]);
    told[0].notify_one();
    assert_eq!(under.after(1).await, ["3 a"], "what came while it was at work is done after it");
    told[2].notify_one();
    under.after(1).await;
    assert_eq!(under.state().at_work, 0);
}

#[tokio::test(start_paused = true)]
async fn a_rest_without_a_failure_is_ended_by_news_and_not_by_a_list() {
    let script = Script::new();
    script.does("a", vec![Does::Well(Then::After(Duration::from_secs(50)))]);
    script.lists(&["a"]);
    let under = drive(script);
    assert_eq!(under.after(1).await, ["0 look all", "0 a"]);
    under.script.asks.notify_one();
    assert_eq!(under.after(1).await, ["1 look asked"]);
    under.script.lists(&[]);
    under.event("a");
    assert_eq!(under.after(1).await, ["2 look  a", "2 a"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_work_as_long_as_its_bound_and_begins_nothing() {
    let script = Script::new();
    script.does("a", vec![Does::Hangs]);
    script.does("b", vec![Does::Waits(Arc::default())]);
    script.lists(&["a", "b", "c"]);
    let under = drive(script);
    assert_eq!(under.after(1).await, ["0 look all", "0 a", "0 b"]);
    let (happened, secs) = under.stop().await;
    assert_eq!((happened, secs), (vec!["1 stops".to_owned(), "6 finish".to_owned()], 5));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_look_that_hangs_a_rest_and_what_fails() {
    let script = Script::new();
    script.looks.lock().unwrap().push(Does::Hangs);
    let under = drive(script);
    under.after(70).await;
    let [Problem::LoopStuck { secs: 70, .. }] = &under.loops.problems()[..] else {
        panic!("{:?}", under.loops.problems())
    };
    assert_eq!(under.loops.stuck().len(), 1);
    assert_eq!(under.stop().await.1, 0);

    let script = Script::new();
    script.looks.lock().unwrap().extend(repeated(&Does::Fails(Blame::Ours), 99));
    let under = drive(script);
    under.after(40).await;
    assert_eq!(under.stop().await.1, 0);
}

/// What happens while a loop can't look is bounded: it reads everything then.
#[tokio::test(start_paused = true)]
async fn events_beyond_a_bound_are_one_reason_to_read_everything() {
    static LOOKS: AtomicU32 = AtomicU32::new(0);
    struct Busy;
    impl Loop for Busy {
        const NAME: LoopName = LoopName::Amends;
        const NOT_SOONER: Duration = Duration::from_secs(5);
        type Key = Sole;
        type Job = ();
        type Hands = ();
        fn hands(&self) -> Arc<()> {
            Arc::default()
        }
        async fn look(&mut self, why: &Why<Sole>) -> Result<Plan<Sole, ()>, Error> {
            if LOOKS.fetch_add(1, Ordering::Relaxed) == 1 {
                assert!(why.all && why.events.len() <= 4096);
            }
            Ok(Plan::default())
        }
        async fn perform(_: Arc<()>, _: Sole, (): (), _: CancellationToken) -> Result<Then, Error> {
            Ok(Then::Done)
        }
    }
    let (tell, told) = mpsc::unbounded_channel();
    let (loops, stop) = (Loops::new(World::real()), CancellationToken::new());
    let token = stop.clone();
    let driven = tokio::spawn(async move { run(Busy, Feed::Told(told), &loops, token).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let event = FeedEvent {
        seq: 1,
        at: Time(0),
        kind: EventKind::Handed,
        group: Folder::parse("main").ok(),
        chat: None,
        subject: "1".into(),
    };
    let event = Arc::new(event);
    for _ in 0..50 {
        let events = vec![Arc::clone(&event); 100];
        tell.send(Ok(News { events, missed: false })).unwrap();
    }
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(LOOKS.load(Ordering::Relaxed), 2, "what happens within a time is gathered");
    stop.cancel();
    driven.await.unwrap();
}

use super::*;

#[tokio::test]
async fn readers_of_the_feed_wait_for_a_caller_that_wakes_them_itself_and_not_for_long() {
    let dir = tempfile::tempdir().unwrap();
    let store = crate::store::Store::open(&dir.path().join("g2.sqlite")).unwrap();
    let connection = Connection::open(dir.path().join("g2.sqlite")).unwrap();
    let feed = Feed::new();
    feed.learn_newest(&connection);
    feed.wake();
    let mut woken = feed.bell();
    let mut is_woken = || {
        let is_woken = woken.has_changed().unwrap();
        woken.mark_unchanged();
        is_woken
    };
    let (jobs, waiting) = mpsc::channel::<Job>();
    let commit_of = |wakes: &[Wakes]| {
        let job = |wakes: &Wakes| Job {
            wakes: *wakes,
            work: Box::new(|c| {
                c.unwrap()
                    .execute("INSERT INTO events (at, kind, subject) VALUES (0, 'task', 't')", [])
                    .unwrap();
                Box::new(|commit| commit.unwrap())
            }),
        };
        wakes[1..].iter().for_each(|wakes| jobs.send(job(wakes)).unwrap());
        commit(&connection, job(&wakes[0]), &waiting, &feed, &Told::new(World::real()))
    };
    assert_eq!((commit_of(&[Wakes::Caller, Wakes::Caller]), is_woken()), (Committed::Waits, false));
    feed.wake();
    assert!(is_woken());
    assert_eq!((commit_of(&[Wakes::Writer]), is_woken()), (Committed::Woken, true));
    assert_eq!((commit_of(&[Wakes::Caller, Wakes::Writer]), is_woken()), (Committed::Woken, true));
    // Nobody wakes them, and the writer does.
    let mut bell = store.bell();
    let queued = store.write_pieces(vec![()], |c, ()| {
        c.execute("INSERT INTO events (at, kind, subject) VALUES (0, 'task', 't')", [])?;
        Ok(((), Next::Goes))
    });
    bell.changed().await.unwrap();
    queued.await.unwrap().remove(0).unwrap();
}

#[tokio::test]
async fn an_early_answer_comes_before_the_commit_and_a_piece_that_fails_takes_nothing_with_it() {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
    let writer = Writer::start(World::real(), connection, Arc::new(Feed::new())).unwrap();
    let insert =
        |n: i64| move |c: &Connection| c.execute("INSERT INTO t VALUES (?1)", [n]).map_err(StoreError::from);
    let (begun, has_begun) = mpsc::channel::<()>();
    let (hold, held) = mpsc::channel::<()>();
    let first = writer.write(move |c| {
        let _ = has_begun.recv();
        insert(1)(c)
    });
    let early = writer.write_early(insert(2));
    let refused = writer.write_early::<usize, _>(move |c| {
        insert(3)(c)?;
        Err(StoreError::Closed)
    });
    // It keeps the commit from being made until the early answer is here.
    let last = writer.write(move |c| {
        let _ = held.recv();
        insert(4)(c)
    });
    begun.send(()).unwrap();
    assert_eq!(early.await.unwrap(), 1);
    assert!(matches!(refused.await, Err(StoreError::Closed)));
    hold.send(()).unwrap();
    assert_eq!((first.await.unwrap(), last.await.unwrap()), (1, 1));
    let kept: Vec<i64> = writer
        .write(|c| {
            let mut rows = c.prepare("SELECT n FROM t ORDER BY n")?;
            Ok(rows.query_map([], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?)
        })
        .await
        .unwrap();
    assert_eq!(kept, [1, 2, 4]);
    // It was answered, and lost with the transaction that SQLite ended.
    let (hold, held) = mpsc::channel::<()>();
    let first = writer.write(move |c| {
        let _ = held.recv();
        insert(5)(c)
    });
    let early = writer.write_early(insert(6));
    let ends = writer.write(|c| Ok(c.execute_batch("ROLLBACK")?));
    hold.send(()).unwrap();
    assert_eq!(early.await.unwrap(), 1);
    assert!(matches!((first.await, ends.await), (Err(StoreError::RolledBack), Err(StoreError::RolledBack))));
    let count = writer.write(|c| Ok(c.query_row("SELECT count(*) FROM t", [], |r| r.get::<_, i64>(0))?));
    assert_eq!(count.await.unwrap(), 3);
}

#[tokio::test]
async fn what_shared_a_transaction_that_sqlite_ended_is_told_so_and_the_next_is_a_new_one() {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
    let writer = Writer::start(World::real(), connection, Arc::new(Feed::new())).unwrap();
    let (hold, held) = mpsc::channel::<()>();
    // While the first piece is at work, the others come to wait for the same commit.
    let first = writer.write(move |c| {
        let _ = held.recv();
        c.execute("INSERT INTO t VALUES (1)", []).map_err(Into::into)
    });
    let second = writer.write(|c| {
        // As a full disk or an I/O error does in the middle of it.
        c.execute_batch("ROLLBACK")?;
        Ok(())
    });
    let third = writer.write(|c| c.execute("INSERT INTO t VALUES (3)", []).map_err(Into::into));
    hold.send(()).unwrap();
    assert!(matches!(first.await, Err(StoreError::RolledBack)), "what came before is gone with it");
    assert!(matches!(second.await, Err(StoreError::RolledBack)));
    assert_eq!(third.await.unwrap(), 1, "what comes after is in a transaction of its own");
    let kept: Vec<i64> = writer
        .write(|c| {
            let mut rows = c.prepare("SELECT n FROM t")?;
            Ok(rows.query_map([], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?)
        })
        .await
        .unwrap();
    assert_eq!(kept, [3]);
}

/// A writer of one table of numbers.
fn of_numbers() -> Writer {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
    Writer::start(World::real(), connection, Arc::new(Feed::new())).unwrap()
}

fn insert(c: &Connection, n: i64) -> Result<(), StoreError> {
    Ok(c.prepare_cached("INSERT INTO t VALUES (?1)")?.execute([n]).map(drop)?)
}

async fn numbers(writer: &Writer) -> Vec<i64> {
    let all = writer.write(|c| {
        let mut rows = c.prepare("SELECT n FROM t ORDER BY n")?;
        Ok(rows.query_map([], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?)
    });
    all.await.unwrap()
}

/// Has the writer wait until this is dropped, so that what is queued meanwhile goes into one commit.
fn hold(writer: &Writer) -> mpsc::Sender<()> {
    let (held, hold) = mpsc::channel();
    drop(writer.write(move |_| {
        let _ = hold.recv();
        Ok(())
    }));
    held
}

/// Whether a piece of work of this file panicked with these words.
fn has_panicked<T>(outcome: &Result<T, StoreError>, with: &str) -> bool {
    matches!(outcome, Err(StoreError::Panicked { place, why }) if place.file() == file!() && why == with)
}

#[tokio::test]
async fn a_piece_that_panics_is_undone_with_all_that_it_began_and_its_neighbours_are_committed() {
    let writer = of_numbers();
    let held = hold(&writer);
    let before = writer.write(|c| insert(c, 1));
    let panics = writer.write(|c| -> Result<(), StoreError> {
        insert(c, 2)?;
        execute(c, "SAVEPOINT effects")?;
        insert(c, 3)?;
        execute(c, "SAVEPOINT deeper")?;
        insert(c, 4)?;
        // Its statement stands in the middle of the rows.
        let mut rows = c.prepare_cached("SELECT n FROM t")?;
        let mut rows = rows.query([])?;
        assert!(rows.next()?.is_some());
        panic!("as wanted")
    });
    let early = writer.write_early(|c| -> Result<(), StoreError> {
        insert(c, 5)?;
        panic!("as {}", "wanted")
    });
    let after = writer.write(|c| {
        let mut rows = c.prepare_cached("SELECT n FROM t")?;
        let seen: Vec<i64> = rows.query_map([], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
        insert(c, 6).map(|()| seen)
    });
    drop(held);
    assert!(has_panicked(&panics.await, "as wanted"));
    assert!(has_panicked(&early.await, "as wanted"));
    before.await.unwrap();
    assert_eq!(after.await.unwrap(), [1]);
    assert_eq!(numbers(&writer).await, [1, 6]);
}

#[tokio::test]
async fn of_many_pieces_the_one_that_panics_is_undone_and_those_behind_it_are_tried() {
    let writer = of_numbers();
    let held = hold(&writer);
    let neighbour = writer.write(|c| insert(c, 100));
    let mut done = 0;
    let pieces = writer.write_pieces(vec![1, 2, 3, 4, 5], move |c, n| {
        insert(c, n)?;
        assert_ne!(n, 2, "as wanted");
        if n == 3 {
            return Err(StoreError::refused("no", ""));
        }
        done += 1;
        Ok((done, if n == 4 { Next::Waits } else { Next::Goes }))
    });
    drop(held);
    let outcomes = pieces.await.unwrap();
    let [Ok(1), Err(StoreError::Panicked { why, .. }), Err(StoreError::Refused { .. }), Ok(2)] =
        outcomes.as_slice()
    else {
        panic!("{outcomes:?}")
    };
    assert!(why.contains("as wanted"), "{why}");
    neighbour.await.unwrap();
    assert_eq!(numbers(&writer).await, [1, 4, 100]);
}

#[tokio::test]
async fn a_piece_that_panics_after_sqlite_ended_the_transaction_is_not_tried_again_and_its_neighbours_are() {
    let writer = of_numbers();
    let held = hold(&writer);
    let before = writer.write(|c| insert(c, 1));
    let panics = writer.write(|c| -> Result<(), StoreError> {
        c.execute_batch("ROLLBACK")?;
        panic!("as wanted")
    });
    let after = writer.write(|c| insert(c, 2));
    drop(held);
    assert!(has_panicked(&panics.await, "as wanted"));
    assert!(matches!(before.await, Err(StoreError::RolledBack)), "what came before is gone with it");
    after.await.unwrap();
    assert_eq!(numbers(&writer).await, [2]);
}

#[tokio::test]
async fn a_caller_that_panics_as_it_is_told_keeps_the_answer_from_nobody_else() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("as wanted");
        }
    }
    let writer = of_numbers();
    let held = hold(&writer);
    let mut told: Vec<_> = [true, false]
        .map(|is_early| match is_early {
            true => {
                Box::pin(writer.write_early(|c| insert(c, 1))) as std::pin::Pin<Box<dyn Future<Output = _>>>
            }
            false => Box::pin(writer.write(|c| insert(c, 2))),
        })
        .into();
    let waker = std::task::Waker::from(Arc::new(Panics));
    for asking in &mut told {
        assert!(asking.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    }
    let neighbour = writer.write(|c| insert(c, 3));
    drop(held);
    neighbour.await.unwrap();
    assert_eq!(numbers(&writer).await, [1, 2, 3]);
}

#[test]
fn who_waits_for_a_writer_that_breaks_is_not_answered() {
    let (answer, mut result) = Answer::<()>::new();
    let broken = std::thread::spawn(move || {
        let _answer = answer;
        panic!("as wanted");
    });
    assert!(broken.join().is_err());
    assert_eq!(result.try_recv().unwrap_err(), oneshot::error::TryRecvError::Empty);
    // A thread that ends in order has no answer.
    let (answer, mut result) = Answer::<()>::new();
    drop(answer);
    assert_eq!(result.try_recv().unwrap_err(), oneshot::error::TryRecvError::Closed);
}

#[tokio::test]
async fn that_another_program_holds_the_lock_is_known_until_a_change_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("g2.sqlite");
    let store = crate::store::Store::open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    store.beat(World::real().now()).await.unwrap();
    assert_eq!(store.held_up(), None);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let before = World::real().now();
    let locked = store.beat(World::real().now()).await.unwrap_err();
    assert!(locked.is_worlds_fault() && crate::store::is_locked(&locked), "{locked}");
    let held_up = store.held_up().unwrap();
    assert!(held_up.since >= before && held_up.by == Obstacle::Lock, "{held_up:?}");
    other.execute_batch("ROLLBACK").unwrap();
    store.beat(World::real().now()).await.unwrap();
    assert_eq!(store.held_up(), None);
}

#[tokio::test]
async fn what_shows_that_changes_are_stored_is_durable_and_no_event() {
    let dir = tempfile::tempdir().unwrap();
    let store = crate::store::Store::open(&dir.path().join("g2.sqlite")).unwrap();
    let commits = |store: &crate::store::Store| store.commit_times().counts.iter().sum::<u64>();
    let mut reader = store.follow().await.unwrap();
    let (before, mut bell) = (commits(&store), store.bell());
    bell.mark_unchanged();
    for n in 0..3 {
        store.beat(ipc_handlers::Time(n)).await.unwrap();
    }
    assert_eq!(store.meta("beat").unwrap().unwrap(), ipc_handlers::Time(2).to_string());
    assert_eq!(commits(&store) - before, 3);
    assert!(!bell.has_changed().unwrap() && reader.look().await.unwrap().events.is_empty());
}

#[tokio::test]
async fn a_fault_of_ours_is_told_for_a_while() {
    let dir = tempfile::tempdir().unwrap();
    let store = crate::store::Store::open(&dir.path().join("g2.sqlite")).unwrap();
    assert_eq!(store.our_fault(World::real().now()), None);
    let panics = store.write(|_| -> Result<(), StoreError> { panic!("as wanted") });
    assert!(has_panicked(&panics.await, "as wanted"));
    let told = store.our_fault(World::real().now()).unwrap();
    assert!(told.contains("as wanted") && told.contains(file!()), "{told}");
    assert_eq!(store.our_fault(World::real().now().plus_ms(600_001)), None);
}

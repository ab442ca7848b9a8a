//! Named places at which a test build ends or stops the daemon, to prove what a restart finds. In a release build
//! there is nothing here.
//!
//! `G2_FAILPOINT=NAME[:NTH[:pause|panic]]` ends the process with SIGKILL (or, with `pause`, stops it for good there, or,
//! with `panic`, has the task panic) when the place is reached for the NTH time, or each time where NTH is 0. `1+3` means
//! the first and the third time. `G2_FAILPOINT_FILE` gets the name, so that a test knows it was.
//!
//! | name | the step before it is done |
//! |---|---|
//! | `ipc.seen` | a file is in its box, and known of |
//! | `ipc.listing/GROUP` | the boxes of this group are scanned, none of them is listed |
//! | `ipc.draining/GROUP` | the last commands of a run of this group are looked for, none is taken |
//! | `ipc.in_hand` | a file of a box (a command, a follow-up that is claimed back) has a name that the host gave it |
//! | `ipc.linked` | it has that name still, and one out of reach of its container |
//! | `ipc.claimed` | it is in `data/claimed/` |
//! | `ipc.reading/GROUP` | a command of this group is claimed, not read |
//! | `ipc.transcript/GROUP` | the command is read, and the transcript that it archives is not |
//! | `ipc.read` | its bytes are in memory |
//! | `ipc.decided` | receipt and effects are written, not committed |
//! | `ipc.decided/GROUP` | the same for a command of this group, unless it is refused for a fault of ours |
//! | `ipc.committed` | they are committed |
//! | `ipc.searched` | a search is made, its answer is not written down |
//! | `ipc.answered` | it is on the receipt, no reply is placed |
//! | `ipc.replied` | the reply is placed |
//! | `ipc.set_aside` | `done/` or `dead/` is written, the claimed file is still there |
//! | `input.begun` | a note says that a follow-up is being placed, and it is not |
//! | `input.placed` | it is placed, and no note says so |
//! | `media.copied` | a file that is to be sent is copied, and has no name among the kept ones |
//! | `media.named` | it has its name there, which is not synced |
//! | `media.kept` | it has its name there, and no row names it |
//! | `media.known` | a file that is to be sent is kept already, and no row of this message names it |
//! | `media.shown` | a file of a message is where its group sees it, its prompt is not written |
//! | `hand.noted` | what a person wants done with a claim is written down, its file is where it was |
//! | `hand.placed` | the file is in `data/claimed/` under that id |
//! | `op.begun/NAME` | an operation of this name is asked for, nothing is done |
//! | `op.done/NAME` | it is done, who asked is not told |
//! | `op.group_cleared` | what an earlier group of a name has left is gone, the new one has no row |
//! | `op.group_stored` | a group's row is committed, it has no folder and no boxes |
//! | `op.group_laid_out` | it has its folder, and no boxes |
//! | `op.folder_given_up` | a group's lost folder is given up, the new one is not made |
//! | `op.group_emptied` | the run of a group that is removed has left, and its commands are settled |
//! | `op.group_removed` | its rows are gone, its mailbox is there, and its name is taken |
//! | `op.group_put_away` | its mailbox is gone, too, and its name is taken |
//! | `feed.written` | changes and their events are written, not committed |
//! | `feed.committed` | they are committed, the bell is not rung |
//! | `message.stored` | message and inbox rows are committed |
//! | `channel.told` | an adapter has told an event, it is not stored |
//! | `channel.taken` | it is about to be stored |
//! | `channel.stored` | it is stored with the adapter's cursor, the adapter is not told so |
//! | `lane.woken` | an owner's word has ended the rest of a lane, its verdict is not committed |
//! | `message.held` | a message waits for its files, none was asked for |
//! | `file.fetched` | a file is in the adapter's spool, it is not kept |
//! | `file.settled` | it is kept, and its row says so |
//! | `file.heard` | a hook has read a file, its row does not say so |
//! | `message.judged` | verdicts are committed, with the questions that they raise |
//! | `approval.made` | an answer made a group, which has no folder and no boxes |
//! | `run.handed` | batch, cursor and run row are committed |
//! | `run.piped` | a follow-up's batch is committed, its file not placed |
//! | `run.created` | the container is made, its id not on the row |
//! | `run.recorded` | its id is on the row |
//! | `run.no_stdin` | it is started, nothing was written to its stdin (Docker) |
//! | `run.started` | stdin is written and shut |
//! | `run.reading/GROUP` | a record of this group's run is read, not applied |
//! | `run.part` | a part of a long answer is committed, its record is not |
//! | `run.result` | what a task's run said is in the file of its result, its record is not applied |
//! | `run.record` | a record is applied |
//! | `deliver.saying` | texts for terminals are about to be marked as said |
//! | `deliver.said` | they are |
//! | `deliver.laid` | a row with files is divided into parts, none is sent |
//! | `deliver.spooled` | the files of a part are laid out for the adapter, it is not told |
//! | `deliver.sending` | an outbox row is marked `sending`, or that is being committed |
//! | `deliver.sent` | the channel has it, the row says `sending` |
//! | `approver.opened` | a platform has opened a chat with somebody who is to be asked, or refused to, nothing is stored |
//! | `amend.begun` | a card is to be changed, no part of it is |
//! | `amend.made` | a card or a reaction is changed, its row says that it is to be |
//! | `run.black_box` | what is known of a run that is ended against its will is written, it lives |
//! | `stop.retiring` | every run is asked to leave, as the daemon stops with its agents |
//! | `stop.agents_gone` | they are gone, the daemon has not begun to stop |
//! | `run.ending` | the container is dead, its boxes are settled, its input claimed back |
//! | `budget.written` | how a group's budget stands is written with what is said of that, not committed |
//! | `budget.noted` | it is committed, the group is not held or released |
//! | `heartbeat.read` | a group's file of heartbeat tasks is read, no task is stored |
//! | `heartbeat.stored` | they are stored |
//! | `prune.removed` | a step's rows are removed, not committed |
//! | `prune.committed` | they are committed |
//! | `prune.rows` | all rows are removed, the folders of runs are there |
//! | `housekeeping.run` | the files of a run are removed, its row says that it has some |
//! | `housekeeping.runs` | the rows say so too |
//! | `old.removed` | one file of those that an agent's program kept for itself is removed |
//! | `audit.asked` | it is written down that a change is to be made, nothing is changed |
//! | `audit.changed` | it is made, or has failed, and the audit does not tell so |
//! | `moving.taken` | a batch of rows that move in is written, not committed |
//! | `moving.batch` | it is committed, the next one is read |
//! | `moving.copied` | a folder of files that move in is copied, and noted as taken |
//! | `backup.copied` | the store is copied, no file is archived |
//! | `backup.archived` | the archive is whole, it is not read back |
//! | `backup.verified` | it is read back, and does not have its name |
//! | `backup.named` | it has its name, the folder of its making is there |
//! | `setup.root` | the set-up has made the root |
//! | `setup.image` | it has built the image |
//! | `setup.key` | the key is in `.env`, agents are not Claude Code yet |
//! | `setup.provider` | they are |
//! | `setup.zone` | the time zone is in `g2.toml` |
//! | `setup.channel` | an account is added |
//! | `setup.service` | the service is installed and started |
//! | `setup.detached` | a daemon runs in the background |
//! | `restore.begun` | the folder in which a restore makes a root is there, nothing is unpacked |
//! | `restore.unpacked` | the archive is unpacked and compared, its store is as it was |
//! | `restore.held` | its store holds back what may be done elsewhere, nothing has its place |
//! | `restore.synced` | it is on the disk |
//! | `restore.moved` | everything but `data/` has its place |
//! | `restore.placed` | `data/` has its place, the folder in which it was made is there |
//! | `store.beat` | what shows that changes are stored is written, not committed |
//! | `store.copied` | a copy of an older store is made and checked, and has no name |
//! | `store.migrated` | one migration is committed |
//! | `run.ended` | the run's end is committed, its container not removed |

/// Marks a place. Costs nothing in a release build.
#[inline]
pub fn reach(name: &str) {
    #[cfg(debug_assertions)]
    armed::reach(name);
    #[cfg(not(debug_assertions))]
    let _ = name;
}

/// Whether this test build is to be the program of the next version, whose schema has one more step (`G2_NEXT_VERSION=1`).
#[must_use]
pub fn is_next_version() -> bool {
    #[cfg(debug_assertions)]
    return armed::is_next_version();
    #[cfg(not(debug_assertions))]
    false
}

/// Marks a place that is reached for somebody: it is named `NAME/WHOM`.
#[inline]
pub fn reach_of(name: &str, whom: &str) {
    #[cfg(debug_assertions)]
    armed::reach(&format!("{name}/{whom}"));
    #[cfg(not(debug_assertions))]
    let _ = (name, whom);
}

#[cfg(debug_assertions)]
mod armed {
    #![expect(
        clippy::disallowed_methods,
        reason = "only compiled for tests, which arm it by the environment"
    )]

    use std::sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    };

    struct Armed {
        name: String,
        /// The times that count; none: each.
        nth: Vec<u64>,
        then: Then,
        file: Option<String>,
    }

    #[derive(PartialEq, Eq)]
    enum Then {
        Die,
        Pause,
        Panic,
    }

    static ARMED: LazyLock<Option<Armed>> = LazyLock::new(|| {
        let text = std::env::var("G2_FAILPOINT").ok()?;
        let mut parts = text.split(':');
        Some(Armed {
            name: parts.next()?.to_owned(),
            nth: match parts.next() {
                Some("0") => Vec::new(),
                Some(times) => times.split('+').filter_map(|n| n.parse().ok()).collect(),
                None => vec![1],
            },
            then: match parts.next() {
                Some("pause") => Then::Pause,
                Some("panic") => Then::Panic,
                Some(_) | None => Then::Die,
            },
            file: std::env::var("G2_FAILPOINT_FILE").ok(),
        })
    });
    static REACHED: AtomicU64 = AtomicU64::new(0);

    static NEXT_VERSION: LazyLock<bool> = LazyLock::new(|| std::env::var_os("G2_NEXT_VERSION").is_some());

    pub(super) fn is_next_version() -> bool {
        *NEXT_VERSION
    }

    pub(super) fn reach(name: &str) {
        let Some(armed) = ARMED.as_ref().filter(|armed| armed.name == name) else { return };
        let nth = REACHED.fetch_add(1, Ordering::SeqCst) + 1;
        if !armed.nth.is_empty() && !armed.nth.contains(&nth) {
            return;
        }
        if let Some(file) = &armed.file {
            let _ = std::fs::write(file, name);
        }
        if armed.then == Then::Panic {
            std::panic::panic_any("a failpoint");
        }
        if armed.then == Then::Die {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
        loop {
            std::thread::park();
        }
    }
}

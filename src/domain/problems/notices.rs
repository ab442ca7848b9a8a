//! Which problems an owner is told of, and when: each once, and once more when it is gone. Pure; the store remembers.
//!
//! | a problem is | it is found | it is not |
//! |---|---|---|
//! | unknown | `found` | |
//! | `found` | told once it has stood for its time, then `told` | forgotten |
//! | `told` | nothing | `gone` |
//! | `gone` | `told` again, in silence | told as solved after a minute, then `over` |
//! | `over` | `found` again once an hour is over | forgotten after that hour |
//!
//! In quiet hours, and while nobody can be told, nothing is told and no state is left that asks for it.

use ipc_handlers::{Time, words};
use jiff::{civil, tz::TimeZone};

use super::{Finding, Severity, checks::Check};
use crate::kept::backups::TimeOfDay;

/// How long a problem that comes and goes has to stand, ms.
const STANDS_MS: i64 = 60_000;
/// How long a problem has to be gone, ms.
const GONE_MS: i64 = 60_000;
/// How soon the same one is told of again, ms.
const AGAIN_MS: i64 = 3_600_000;
/// How many lines a text has at most.
const LINES: usize = 10;
/// The longest line, characters.
const LONGEST_LINE: usize = 600;
/// How many problems are remembered.
pub const KEPT: usize = 200;

words! {
    /// How far an owner has been told of a problem.
    pub enum NoticeState: "state of a notice" {
        /// Not yet.
        Found = "found",
        Told = "told",
        /// It was told, and is gone since.
        Gone = "gone",
        /// That was told, too.
        Over = "over",
    }
}

words! {
    /// What an owner is told of.
    #[derive(Default)]
    pub enum NotifyLevel: "notify.level" {
        /// All problems.
        #[default]
        Warn = "warn",
        /// What does not work.
        Fail = "fail",
        None = "none",
    }
}

/// Hours in which nothing is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    from: TimeOfDay,
    until: TimeOfDay,
}

impl Quiet {
    /// Reads `22:00-07:00`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (from, until) = text.split_once('-')?;
        let (from, until) = (TimeOfDay::parse(from.trim())?, TimeOfDay::parse(until.trim())?);
        (from != until).then_some(Self { from, until })
    }

    /// Whether a moment lies in these hours.
    #[must_use]
    pub fn has(self, now: Time, zone: &TimeZone) -> bool {
        let at: civil::Time = now.to_jiff().to_zoned(zone.clone()).time();
        let (from, until) = (self.from.civil(), self.until.civil());
        if from < until { from <= at && at < until } else { from <= at || at < until }
    }
}

/// A problem as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub id: i64,
    pub code: String,
    pub about: String,
    pub text: String,
    pub state: NoticeState,
    /// When it got into this state.
    pub since: Time,
}

/// What is done about the problems of a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acts {
    /// Problems that are new, by their place in the look.
    pub new: Vec<usize>,
    /// Of those, and of remembered ones: which are told of now, by their place in the look.
    pub tell: Vec<usize>,
    /// Remembered ones that get this state, by their number.
    pub turn: Vec<(i64, NoticeState)>,
    /// Remembered ones that are told of as solved, by their number; they are over then.
    pub solved: Vec<i64>,
    /// Remembered ones that are forgotten, by their number.
    pub forget: Vec<i64>,
    /// When the next of them is due.
    pub next: Option<Time>,
}

impl Acts {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        let Self { new, tell, turn, solved, forget, next: _ } = self;
        new.is_empty() && tell.is_empty() && turn.is_empty() && solved.is_empty() && forget.is_empty()
    }

    fn due(&mut self, at: Time) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

/// How long a problem has to stand before it is told of, ms: those that come and go by themselves for a minute.
fn stands_for(code: Check) -> i64 {
    let passes = matches!(
        code,
        Check::Docker
            | Check::Image
            | Check::Disk
            | Check::Inodes
            | Check::OpenFiles
            | Check::FileEvents
            | Check::StoreWriter
            | Check::Store
            | Check::Root
            | Check::Settings
            | Check::Loop
            | Check::LoopKey
            | Check::LaneRests
            | Check::Script
            | Check::GroupRemains
            | Check::Heartbeat
            | Check::Owners
    );
    if passes { STANDS_MS } else { 0 }
}

/// Whether it is for an owner who is elsewhere. What waits for a restart follows from what somebody has just done here.
#[must_use]
pub fn concerns(finding: &Finding, level: NotifyLevel) -> bool {
    let is_restart =
        finding.code == Check::Settings && finding.severity == Severity::Warn && finding.about.is_empty();
    match (level, finding.severity) {
        (NotifyLevel::None, _) => false,
        (NotifyLevel::Fail, severity) => severity == Severity::Fail,
        (NotifyLevel::Warn, _) => !is_restart,
    }
}

/// Decides what is done. `found`: the problems of a look that concern an owner. `may_tell`: somebody can be told now.
#[must_use]
pub fn decide(known: &[Notice], found: &[Finding], may_tell: bool, now: Time) -> Acts {
    let mut acts = Acts::default();
    let place = |notice: &Notice| {
        found.iter().position(|one| one.code.as_str() == notice.code && one.about == notice.about)
    };
    let mut seen = vec![false; found.len()];
    let tell = |acts: &mut Acts, at: usize, since: Time| {
        let due = since.plus_ms(stands_for(found[at].code));
        match (due <= now, may_tell) {
            (true, true) => acts.tell.push(at),
            // Quiet hours end, and accounts come back, at times of their own.
            (true, false) => {}
            (false, _) => acts.due(due),
        }
    };
    for notice in known {
        let at = place(notice);
        if let Some(at) = at {
            seen[at] = true;
        }
        match (notice.state, at) {
            (NoticeState::Found, Some(at)) => tell(&mut acts, at, notice.since),
            (NoticeState::Found, None) => acts.forget.push(notice.id),
            (NoticeState::Told, Some(_)) => {}
            (NoticeState::Told, None) => {
                acts.turn.push((notice.id, NoticeState::Gone));
                acts.due(now.plus_ms(GONE_MS));
            }
            (NoticeState::Gone, Some(_)) => acts.turn.push((notice.id, NoticeState::Told)),
            (NoticeState::Gone, None) => {
                let due = notice.since.plus_ms(GONE_MS);
                match (due <= now, may_tell) {
                    (true, true) => acts.solved.push(notice.id),
                    (true, false) => {}
                    (false, _) => acts.due(due),
                }
            }
            (NoticeState::Over, at) => {
                let due = notice.since.plus_ms(AGAIN_MS);
                match (at, due <= now) {
                    (Some(_), true) => acts.turn.push((notice.id, NoticeState::Found)),
                    (None, true) => acts.forget.push(notice.id),
                    (_, false) => {}
                }
            }
        }
    }
    let room = KEPT.saturating_sub(known.len() - acts.forget.len());
    let new: Vec<usize> = (0..found.len()).filter(|at| !seen[*at]).take(room).collect();
    for at in &new {
        tell(&mut acts, *at, now);
    }
    acts.new = new;
    acts
}

/// Returns the text: a line a problem, those that do not work first.
#[must_use]
pub fn text(told: &[&Finding], solved: &[&str]) -> String {
    let mut told = told.to_vec();
    told.sort_by_key(|finding| finding.severity != Severity::Fail);
    let line = |head: &str, words: &str| {
        // Platforms show some marks raw.
        let words: String = words.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "\"");
        let cut: String = words.chars().take(LONGEST_LINE).collect();
        let more = if cut.len() < words.len() { "…" } else { "" };
        format!("{head}: {cut}{more}")
    };
    let problems = told.iter().map(|finding| {
        let head = if finding.severity == Severity::Fail { "Problem" } else { "Warning" };
        line(head, &format!("{}. Fix: {}", finding.text, finding.fix))
    });
    let mut lines: Vec<String> = problems.chain(solved.iter().map(|text| line("Solved", text))).collect();
    let more = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    if more > 0 {
        lines.push(format!("{more} more: \"g2 status\" lists all problems."));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;

    fn problem(code: Check, about: &str) -> Finding {
        Finding::fail((code, about), format!("{code} {about} is wrong"), "mend it")
    }

    /// What is remembered, as a store does.
    #[derive(Default)]
    struct Memory {
        known: Vec<Notice>,
        newest: i64,
    }

    impl Memory {
        /// A look; the words that are told: `+` a problem, `-` that it is gone.
        fn look(&mut self, found: &[Finding], may_tell: bool, now: i64) -> Vec<String> {
            let now = Time(now);
            let acts = decide(&self.known, found, may_tell, now);
            for at in &acts.new {
                let Finding { code, about, text, .. } = &found[*at];
                self.newest += 1;
                let (id, code, about, text) = (self.newest, code.to_string(), about.clone(), text.clone());
                self.known.push(Notice { id, code, about, text, state: NoticeState::Found, since: now });
            }
            let mut told = Vec::new();
            for at in &acts.tell {
                let one = &found[*at];
                let notice = self
                    .known
                    .iter_mut()
                    .find(|n| n.code == one.code.as_str() && n.about == one.about)
                    .unwrap();
                (notice.state, notice.since) = (NoticeState::Told, now);
                told.push(format!("+{} {}", one.code, one.about));
            }
            for id in &acts.solved {
                let notice = self.known.iter_mut().find(|n| n.id == *id).unwrap();
                (notice.state, notice.since) = (NoticeState::Over, now);
                told.push(format!("-{} {}", notice.code, notice.about));
            }
            for (id, state) in &acts.turn {
                let notice = self.known.iter_mut().find(|n| n.id == *id).unwrap();
                (notice.state, notice.since) = (*state, now);
            }
            self.known.retain(|n| !acts.forget.contains(&n.id));
            told
        }
    }

    #[test]
    fn a_problem_is_told_once_and_once_more_when_it_is_gone() {
        let mut memory = Memory::default();
        let paused = [problem(Check::TaskPaused, "t of a")];
        assert_eq!(memory.look(&paused, true, 0), ["+task_paused t of a"]);
        for minute in 1..100 {
            assert_eq!(memory.look(&paused, true, minute * MINUTE), Vec::<String>::new());
        }
        assert_eq!(memory.look(&[], true, 100 * MINUTE), Vec::<String>::new());
        assert_eq!(memory.look(&[], true, 101 * MINUTE), ["-task_paused t of a"]);
        // Again within the hour it waits for its end.
        assert_eq!(memory.look(&paused, true, 102 * MINUTE), Vec::<String>::new());
        assert_eq!(memory.look(&paused, true, 161 * MINUTE), Vec::<String>::new());
        assert_eq!(memory.look(&paused, true, 162 * MINUTE), ["+task_paused t of a"]);
        assert_eq!(memory.look(&[], true, 163 * MINUTE), Vec::<String>::new());
        assert_eq!(memory.look(&[], true, 164 * MINUTE), ["-task_paused t of a"]);
        memory.look(&[], true, 300 * MINUTE);
        assert_eq!(memory.known, []);
    }

    #[test]
    fn one_that_comes_and_goes_is_told_if_it_stands_and_one_that_is_back_at_once_was_never_gone() {
        let mut memory = Memory::default();
        let engine = [problem(Check::Docker, "")];
        for (now, found, told) in [
            (0, &engine[..], vec![]),
            (MINUTE - 1, &engine[..], vec![]),
            (MINUTE, &[][..], vec![]),
            (2 * MINUTE, &engine[..], vec![]),
            (3 * MINUTE, &engine[..], vec!["+docker "]),
            (4 * MINUTE, &[][..], vec![]),
            (4 * MINUTE + 30_000, &engine[..], vec![]),
            (9 * MINUTE, &engine[..], vec![]),
            (10 * MINUTE, &[][..], vec![]),
            (11 * MINUTE, &[][..], vec!["-docker "]),
        ] {
            assert_eq!(memory.look(found, true, now), told, "{now}");
        }
    }

    #[test]
    fn in_quiet_hours_nothing_is_told_and_what_stands_afterwards_is() {
        let mut memory = Memory::default();
        let (one, two) = (problem(Check::Backup, ""), problem(Check::Channel, "telegram"));
        let both = [one, two];
        assert_eq!(memory.look(&both, false, 0), Vec::<String>::new());
        assert_eq!(memory.look(&both[1..], false, MINUTE), Vec::<String>::new());
        assert_eq!(memory.look(&both[1..], true, 2 * MINUTE), ["+channel telegram"]);
        assert_eq!(memory.look(&[], false, 3 * MINUTE), Vec::<String>::new());
        assert_eq!(memory.look(&[], false, 30 * MINUTE), Vec::<String>::new());
        assert_eq!(memory.look(&[], true, 31 * MINUTE), ["-channel telegram"]);
    }

    #[test]
    fn few_are_remembered_and_the_rest_has_its_turn() {
        let mut memory = Memory::default();
        let many: Vec<Finding> = (0..KEPT + 5).map(|n| problem(Check::TaskPaused, &n.to_string())).collect();
        assert_eq!(memory.look(&many, true, 0).len(), KEPT);
        assert_eq!(memory.look(&many, true, 1).len(), 0);
        assert_eq!(memory.known.len(), KEPT);
    }

    #[test]
    fn the_level_says_what_concerns_an_owner_and_a_restart_that_waits_concerns_nobody() {
        let fail = problem(Check::Backup, "");
        let warn = Finding::warn(Check::HeldBack, "a", "b");
        let restart = Finding::warn(Check::Settings, "a", "b");
        for (level, expected) in [
            (NotifyLevel::Warn, [true, true, false]),
            (NotifyLevel::Fail, [true, false, false]),
            (NotifyLevel::None, [false; 3]),
        ] {
            assert_eq!([&fail, &warn, &restart].map(|one| concerns(one, level)), expected, "{level}");
        }
    }

    #[test]
    fn quiet_hours_may_go_over_midnight() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let at = |text: &str| Time::from_jiff(text.parse().unwrap());
        let night = Quiet::parse("22:00-07:00").unwrap();
        for (time, is_quiet) in [
            ("2026-05-05T19:59:59Z", false),
            ("2026-05-05T20:00:00Z", true),
            ("2026-05-06T04:59:59Z", true),
            ("2026-05-06T05:00:00Z", false),
        ] {
            assert_eq!(night.has(at(time), &zone), is_quiet, "{time}");
        }
        let noon = Quiet::parse("12:00 - 13:00").unwrap();
        assert!(noon.has(at("2026-05-05T10:30:00Z"), &zone) && !noon.has(at("2026-05-05T12:30:00Z"), &zone));
        for bad in ["", "22:00", "22:00-22:00", "22-7", "25:00-07:00", "22:00-07:00-08:00"] {
            assert_eq!(Quiet::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_text_has_a_line_a_problem_without_marks_that_platforms_show_raw() {
        let warn = Finding::warn(Check::HeldBack, "texts\nare held", "look with `g2 restored list`");
        let fail = problem(Check::Backup, "");
        let told = text(&[&warn, &fail], &["the disk was full"]);
        assert_eq!(
            told,
            "Problem: backup  is wrong. Fix: mend it\nWarning: texts are held. Fix: look with \"g2 restored list\"\nSolved: the disk was full"
                .replace("  ", " ")
        );
        let long = Finding::fail(Check::Backup, "x".repeat(5000), "y");
        let all = vec![&long; 25];
        let told = text(&all, &[]);
        assert_eq!(told.lines().count(), LINES + 1);
        assert!(told.ends_with("15 more: \"g2 status\" lists all problems.") && told.len() < 7000);
    }
}

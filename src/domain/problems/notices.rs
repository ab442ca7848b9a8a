//! Which problems an owner is told of, and when: each once, and once more when it is gone. Pure; the store remembers.
//!
//! | a problem is | it is found | it is not |
//! |---|---|---|
//! | unknown | `found` | |
//! | `found` | told once it has stood for its time, then `told` | forgotten |
//! | `told` | nothing; told again if it became worse | `gone` |
//! | `gone` | `told` again, in silence | told as solved after a minute, then `over` |
//! | `over` | `found` again once an hour is over | forgotten after that hour |
//!
//! In quiet hours, and while nobody can be told, nothing is told, and no state that asks for it is left. A problem that concerns nobody
//! any more, as it is noted or the level is another one, is forgotten in silence.

use std::collections::BTreeMap;

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
/// The longest subject of a problem, characters.
const LONGEST_SUBJECT: usize = 1000;
/// How many problems are remembered, and how many of one check: an agent can make many of a kind.
pub const KEPT: usize = 200;
const KEPT_OF_A_KIND: usize = 20;
/// The longest name of a group or task in a text, characters.
const LONGEST_ABOUT: usize = 60;

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
    pub severity: Severity,
    pub text: String,
    pub state: NoticeState,
    /// When it got into this state.
    pub since: Time,
}

/// The acts on the problems of a look.
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
    // Nobody can be told of the loop that tells. A longer subject is none of ours.
    let is_own = finding.code == Check::LoopKey && finding.about.starts_with("notify ");
    if is_own || finding.about.chars().count() > LONGEST_SUBJECT {
        return false;
    }
    let is_restart =
        finding.code == Check::Settings && finding.severity == Severity::Warn && finding.about.is_empty();
    match (level, finding.severity) {
        (NotifyLevel::None, _) => false,
        (NotifyLevel::Fail, severity) => severity == Severity::Fail,
        (NotifyLevel::Warn, _) => !is_restart,
    }
}

/// A problem of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    pub finding: Finding,
    /// It is for an owner who is elsewhere.
    pub concerns: bool,
}

/// Returns the problems of a look, one of each name: the worst of those that have the same.
#[must_use]
pub fn looked(found: Vec<Finding>, level: NotifyLevel) -> Vec<Looked> {
    let mut all: Vec<Looked> = Vec::new();
    for finding in found {
        let is_same =
            |one: &&mut Looked| one.finding.code == finding.code && one.finding.about == finding.about;
        match all.iter_mut().find(is_same) {
            Some(known) if known.finding.severity <= finding.severity => {}
            Some(known) => known.finding = finding,
            None => all.push(Looked { concerns: false, finding }),
        }
    }
    for one in &mut all {
        one.concerns = !one.finding.noted && concerns(&one.finding, level);
    }
    all
}

/// Decides about each. `may_tell`: somebody can be told now.
#[must_use]
pub fn decide(known: &[Notice], found: &[Looked], may_tell: bool, now: Time) -> Acts {
    let mut acts = Acts::default();
    let place = |notice: &Notice| {
        let is = |one: &Looked| one.finding.code.as_str() == notice.code && one.finding.about == notice.about;
        found.iter().position(is)
    };
    let mut seen = vec![false; found.len()];
    let tell = |acts: &mut Acts, at: usize, since: Time| {
        let due = since.plus_ms(stands_for(found[at].finding.code));
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
            if !found[at].concerns {
                acts.forget.push(notice.id);
                continue;
            }
        }
        // A clock that was ahead is no reason to wait.
        let since = notice.since.min(now);
        match (notice.state, at) {
            (NoticeState::Found, Some(at)) => tell(&mut acts, at, since),
            (NoticeState::Found, None) => acts.forget.push(notice.id),
            (NoticeState::Told, Some(at)) => {
                if found[at].finding.severity < notice.severity && may_tell {
                    acts.tell.push(at);
                }
            }
            (NoticeState::Told, None) => {
                acts.turn.push((notice.id, NoticeState::Gone));
                acts.due(now.plus_ms(GONE_MS));
            }
            (NoticeState::Gone, Some(_)) => acts.turn.push((notice.id, NoticeState::Told)),
            (NoticeState::Gone, None) => {
                let due = since.plus_ms(GONE_MS);
                match (due <= now, may_tell) {
                    (true, true) => acts.solved.push(notice.id),
                    (true, false) => {}
                    (false, _) => acts.due(due),
                }
            }
            (NoticeState::Over, at) => {
                let due = since.plus_ms(AGAIN_MS);
                match (at, due <= now) {
                    (Some(_), true) => acts.turn.push((notice.id, NoticeState::Found)),
                    (None, true) => acts.forget.push(notice.id),
                    (_, false) => {}
                }
            }
        }
    }
    let stays = |notice: &&Notice| !acts.forget.contains(&notice.id);
    let room = KEPT.saturating_sub(known.iter().filter(stays).count());
    let mut of_a_kind: BTreeMap<&str, usize> = BTreeMap::new();
    for notice in known.iter().filter(stays) {
        *of_a_kind.entry(&notice.code).or_default() += 1;
    }
    let mut fits = |at: &usize| {
        let count = of_a_kind.entry(found[*at].finding.code.as_str()).or_default();
        *count += 1;
        *count <= KEPT_OF_A_KIND
    };
    let is_new = |at: &usize| !seen[*at] && found[*at].concerns;
    let new: Vec<usize> = (0..found.len()).filter(is_new).filter(|at| fits(at)).take(room).collect();
    for at in &new {
        tell(&mut acts, *at, now);
    }
    acts.new = new;
    acts
}

/// Whether the words about a problem can be an agent's, or a stranger's: what a run's error says, say.
fn may_quote(code: Check) -> bool {
    matches!(
        code,
        Check::RunsFail
            | Check::TaskFails
            | Check::TaskPaused
            | Check::TaskRests
            | Check::LaneRests
            | Check::LoopKey
            | Check::ModelRefuses
            | Check::OtherModel
            | Check::GroupSettings
            | Check::Script
            | Check::Heartbeat
            | Check::HeldMessages
            | Check::EngagePattern
            | Check::Outbox
            | Check::SetAside
            | Check::UnownedRun
            | Check::GroupRemains
    )
}

/// A problem in words of our own. Nobody who is no owner speaks to one by it: there are no words of theirs, no links.
fn words_of(finding: &Finding) -> String {
    if !may_quote(finding.code) {
        return format!("{}. Fix: {}", finding.text, finding.fix);
    }
    let what = finding.code.as_str().replace('_', " ");
    let shown = |c: char| if c.is_alphanumeric() || " -_:@".contains(c) { c } else { '·' };
    let about: String = finding.about.chars().map(shown).take(LONGEST_ABOUT).collect();
    let about = if about.is_empty() { String::new() } else { format!(" ({about})") };
    format!("{what}{about}. \"g2 status\" says more.")
}

/// Returns the words that tell of its end.
#[must_use]
pub fn solved(finding: &Finding) -> String {
    match may_quote(finding.code) {
        true => words_of(finding).replace(" \"g2 status\" says more.", ""),
        false => finding.text.clone(),
    }
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
        line(head, &words_of(finding))
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

    /// The memory of a store.
    #[derive(Default)]
    struct Memory {
        known: Vec<Notice>,
        newest: i64,
    }

    impl Memory {
        /// A look; the words that are told: `+` a problem, `-` that it is gone.
        fn look(&mut self, found: &[Finding], may_tell: bool, now: i64) -> Vec<String> {
            let now = Time(now);
            let found = looked(found.to_vec(), NotifyLevel::Warn);
            let acts = decide(&self.known, &found, may_tell, now);
            for at in &acts.new {
                let Finding { code, about, text, severity, .. } = found[*at].finding.clone();
                self.newest += 1;
                let (id, code) = (self.newest, code.to_string());
                self.known.push(Notice {
                    id,
                    code,
                    about,
                    severity,
                    text,
                    state: NoticeState::Found,
                    since: now,
                });
            }
            let mut told = Vec::new();
            for at in &acts.tell {
                let one = &found[*at].finding;
                let notice = self
                    .known
                    .iter_mut()
                    .find(|n| n.code == one.code.as_str() && n.about == one.about)
                    .unwrap();
                (notice.state, notice.since, notice.severity) = (NoticeState::Told, now, one.severity);
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
    fn many_of_a_kind_leave_room_for_others_and_the_rest_has_its_turn() {
        let mut memory = Memory::default();
        let paused = |range: std::ops::Range<usize>| -> Vec<Finding> {
            range.map(|n| problem(Check::TaskPaused, &n.to_string())).collect()
        };
        assert_eq!(memory.look(&paused(0..250), true, 0).len(), KEPT_OF_A_KIND);
        assert_eq!(memory.look(&paused(0..250), true, 1).len(), 0);
        let with_disk = [paused(0..250), vec![problem(Check::Backup, "")]].concat();
        assert_eq!(memory.look(&with_disk, true, 2), ["+backup "]);
        // Those that are over make room an hour later.
        memory.look(&paused(KEPT_OF_A_KIND..250), true, MINUTE);
        assert_eq!(memory.look(&paused(KEPT_OF_A_KIND..250), true, 2 * MINUTE).len(), KEPT_OF_A_KIND + 1);
        let told = memory.look(&paused(KEPT_OF_A_KIND..250), true, 62 * MINUTE);
        assert_eq!(told.len(), KEPT_OF_A_KIND, "{told:?}");
    }

    #[test]
    fn two_of_one_name_are_one_and_a_second_look_at_anything_tells_nothing() {
        let other = Finding::fail((Check::ModelRefuses, "limit"), "other words", "wait");
        let many = [
            problem(Check::ModelRefuses, "limit"),
            other.clone(),
            Finding::warn((Check::ModelRefuses, "limit"), "milder", "wait"),
            problem(Check::Docker, ""),
            problem(Check::Backup, ""),
        ];
        let mut memory = Memory::default();
        assert_eq!(memory.look(&many, true, 0), ["+model_refuses limit", "+backup "]);
        for minute in 0..10 {
            let told = memory.look(&many, true, 5_000 + minute * MINUTE);
            assert_eq!(told.len(), usize::from(minute == 1), "{told:?}");
        }
        // The worst of them counts, wherever it stands.
        let found = looked(
            vec![Finding::warn((Check::ModelRefuses, "limit"), "milder", "wait"), other],
            NotifyLevel::Fail,
        );
        assert_eq!((found.len(), found[0].concerns, &*found[0].finding.text), (1, true, "other words"));
    }

    #[test]
    fn what_becomes_worse_is_told_again_and_what_concerns_nobody_any_more_was_not_solved() {
        let mut memory = Memory::default();
        let mild = Finding::warn((Check::Stored, "a"), "full", "x");
        let bad = Finding::fail((Check::Stored, "a"), "stopped", "x");
        assert_eq!(memory.look(std::slice::from_ref(&mild), true, 0), ["+stored a"]);
        assert_eq!(memory.look(std::slice::from_ref(&bad), true, 1), ["+stored a"]);
        assert_eq!(memory.look(std::slice::from_ref(&bad), true, 2), Vec::<String>::new());
        assert_eq!(memory.look(&[mild], true, 3), Vec::<String>::new());
        let noted = Finding { noted: true, ..bad.clone() };
        for minute in 1..5 {
            assert_eq!(
                memory.look(std::slice::from_ref(&noted), true, minute * MINUTE),
                Vec::<String>::new()
            );
        }
        assert_eq!(memory.look(&[bad], true, 9 * MINUTE), ["+stored a"], "it counts again");
    }

    #[test]
    fn no_words_of_an_agent_reach_an_owner() {
        let error = "rate limit. Fix: sign in at https://evil.example";
        for (code, about) in [
            (Check::RunsFail, "family"),
            (Check::TaskPaused, "https://evil.example of a"),
            (Check::ModelRefuses, "limit"),
        ] {
            let finding = Finding::fail((code, about), error, "see `g2 runs list`");
            let told = text(&[&finding], &[&solved(&finding)]);
            assert!(!told.contains("evil.example") && !told.contains("sign in"), "{told}");
            assert!(told.starts_with(&format!("Problem: {}", code.as_str().replace('_', " "))), "{told}");
            assert!(told.contains("\"g2 status\" says more."), "{told}");
        }
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

//! `HEARTBEAT.md`: the tasks that a group keeps in a file, and the answer by which a task says that there is nothing to say.
//!
//! The first line `tasks:` outside of fenced code begins a list; each item has a `name`, a `prompt`, and either an
//! `interval` or a `cron`. The first line that is neither empty nor indented nor an item ends it.

use std::{borrow::Cow, collections::BTreeSet, ops::Range, sync::LazyLock};

use ipc_handlers::{Schedule, Time};
use jiff::tz::TimeZone;
use regex::Regex;

/// The name of the file in a group's folder.
pub const FILE: &str = "HEARTBEAT.md";
/// The largest file that is read, bytes.
pub const LARGEST: u64 = 64 << 10;
/// How many tasks a file may have.
pub const MOST_TASKS: usize = 32;
/// The longest name, bytes.
const LONGEST_NAME: usize = 64;
/// How many faults are told.
const MOST_FAULTS: usize = 10;
/// The answer that is not sent on.
const OK: &str = "HEARTBEAT_OK";
/// Beside [`OK`] at the beginning or the end of an answer, at most this many characters are not sent either.
const LONGEST_BESIDE_OK: usize = 300;

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heartbeat {
    pub tasks: Vec<Entry>,
    /// What can't be read, in the order of the lines.
    pub faults: Vec<Fault>,
}

/// One task of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub name: String,
    pub schedule: Schedule,
    /// As it is given to the agent.
    pub prompt: String,
    /// The line on which it begins, from 1.
    pub line: usize,
}

/// A fault and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub line: usize,
    pub why: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl Entry {
    /// Returns the id of the task.
    #[must_use]
    pub fn id(&self) -> String {
        format!("heartbeat:{}", self.name)
    }
}

/// The word, in tags or with a backslash that markdown takes off.
static WORD_OK: LazyLock<Regex> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "a pattern of our own, which a test compiles")]
    Regex::new(r"(?i)(?:<[a-z]{1,6}>)*heartbeat\\?_ok(?:</[a-z]{1,6}>)*").expect("it is valid")
});

/// Whether the word stands somewhere in a text; [`to_say`] tells what is left without it.
#[must_use]
pub fn may_be_ok(text: &str) -> bool {
    WORD_OK.is_match(text)
}

/// Returns what a chat is told of a task's answer; `None`: nothing. The word `HEARTBEAT_OK` is never part of it, in whatever letters
/// and marks. Where an answer begins or ends with the word, at most 300 characters beside it are not told either.
#[must_use]
pub fn to_say(answer: &str) -> Option<Cow<'_, str>> {
    let places = words_ok(answer);
    let (Some(first), Some(last)) = (places.first(), places.last()) else {
        return Some(Cow::Borrowed(answer)).filter(|said| !said.trim().is_empty());
    };
    // Marks, punctuation and emoji around the word say nothing.
    let says = |text: &str| text.chars().any(char::is_alphanumeric);
    let is_at_an_end = !says(&answer[..first.start]) || !says(&answer[last.end..]);
    let (mut rest, mut at) = (String::with_capacity(answer.len()), 0);
    for place in places {
        rest.push_str(&answer[at..place.start]);
        if !rest.ends_with(char::is_whitespace) {
            // What stood on both sides makes no word together.
            rest.push(' ');
        }
        at = place.end;
    }
    rest.push_str(&answer[at..]);
    let rest = rest.trim();
    let is_short = rest.chars().nth(LONGEST_BESIDE_OK).is_none();
    (says(rest) && !(is_at_an_end && is_short)).then(|| Cow::Owned(rest.to_owned()))
}

/// Returns where `HEARTBEAT_OK` stands as a word, with the marks around it that close behind it.
fn words_ok(text: &str) -> Vec<Range<usize>> {
    let in_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let marks = |c: &char| "*_`~\"'".contains(*c);
    let places = WORD_OK.find_iter(text).map(|found| found.range());
    let alone = places
        .filter(|place| !text[..place.start].ends_with(in_word) && !text[place.end..].starts_with(in_word));
    // A mark between two of them is of the first.
    let mut free = 0;
    alone
        .map(|place| {
            let before = text[..place.start].chars().rev().take_while(marks);
            let after = text[place.end..].chars().take_while(marks);
            let around = before.zip(after).take_while(|(before, after)| before == after).count();
            let place = free.max(place.start - around)..place.end + around;
            free = place.end;
            place
        })
        .collect()
}

/// Reads a file by the clocks of `zone`. Work and results are bounded by the size of the text.
#[must_use]
pub fn read(text: &str, zone: &TimeZone, now: Time) -> Heartbeat {
    let mut heartbeat = Heartbeat::default();
    let mut names = BTreeSet::new();
    for item in items(text) {
        let line = item.line;
        match item.read(zone, now) {
            Ok(entry) if heartbeat.tasks.len() == MOST_TASKS => {
                let why = format!("{:?} is one task more than {MOST_TASKS}, so it is left out", entry.name);
                heartbeat.fault(entry.line, why);
            }
            Ok(entry) if !names.insert(entry.name.clone()) => {
                heartbeat.fault(line, format!("a task named {:?} is there already", entry.name));
            }
            Ok(entry) => heartbeat.tasks.push(entry),
            Err(fault) => heartbeat.fault(fault.line, fault.why),
        }
    }
    heartbeat
}

impl Heartbeat {
    fn fault(&mut self, line: usize, why: String) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(Fault { line, why });
        }
    }
}

/// The lines outside of fenced code, with their numbers.
fn unfenced(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<(char, usize)> = None;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let mark = mark(line);
        match (fence, mark) {
            (None, Some((char, long, _))) => {
                fence = Some((char, long));
                false
            }
            (None, None) => true,
            // As long at least, of the same kind, and nothing behind it.
            (Some((open, length)), Some((char, long, rest))) => {
                if char == open && long >= length && rest.trim().is_empty() {
                    fence = None;
                }
                false
            }
            (Some(_), None) => false,
        }
    })
}

/// The fence that a line begins with: its character, its length, and what stands behind it.
fn mark(line: &str) -> Option<(char, usize, &str)> {
    let start = line.trim_start();
    let char = start.chars().next().filter(|char| matches!(char, '`' | '~'))?;
    let rest = start.trim_start_matches(char);
    let long = start.len() - rest.len();
    // Three of them in a line of text are no fence: `code` may stand there.
    let opens = long >= 3 && !(char == '`' && rest.contains('`'));
    opens.then_some((char, long, rest))
}

/// One item of the list, as it is written.
#[derive(Default)]
struct Item<'t> {
    line: usize,
    /// Each with its line, its name and its value.
    fields: Vec<(usize, &'t str, &'t str)>,
    /// The first line that is no field.
    odd: Option<(usize, &'t str)>,
}

fn items(text: &str) -> Vec<Item<'_>> {
    // An editor may have begun the file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let begins = |line: &str| line.trim_end().eq_ignore_ascii_case("tasks:");
    let mut lines = unfenced(text).skip_while(|(_, line)| !begins(line)).skip(1).peekable();
    let mut items: Vec<Item<'_>> = Vec::new();
    while let Some((number, line)) = lines.next_if(|(_, line)| {
        line.trim().is_empty() || line.starts_with([' ', '\t']) || *line == "-" || line.starts_with("- ")
    }) {
        let line = line.trim();
        let field = if line == "-" { Some("") } else { line.strip_prefix("- ") };
        if field.is_some() {
            items.push(Item { line: number, ..Item::default() });
        }
        let field = field.unwrap_or(line).trim();
        let Some(item) = items.last_mut().filter(|_| !field.is_empty()) else {
            if !field.is_empty() {
                items.push(Item { line: number, odd: Some((number, field)), ..Item::default() });
            }
            continue;
        };
        match field.split_once(':') {
            Some((name, value)) if !name.contains(' ') => item.fields.push((number, name, unquoted(value))),
            Some(_) | None => item.odd = item.odd.or(Some((number, field))),
        }
    }
    items
}

/// A value without the quotes around it.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    let inner = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    inner.unwrap_or(value)
}

impl Item<'_> {
    fn read(self, zone: &TimeZone, now: Time) -> Result<Entry, Fault> {
        let fault = |line: usize, why: String| Fault { line, why };
        let shown = |text: &str| text.chars().take(40).collect::<String>();
        if let Some((line, text)) = self.odd {
            let why = format!("{:?} is no field; write, for example, `interval: 30m`", shown(text));
            return Err(fault(line, why));
        }
        let (mut name, mut prompt, mut schedule) = (None, None, None);
        for (line, field, value) in self.fields {
            let twice = match field {
                "name" => name.replace((line, value)).is_some(),
                "prompt" => prompt.replace(value).is_some(),
                "interval" | "cron" => {
                    let read = Schedule::parse(field, value, zone, now)
                        .map_err(|refusal| fault(line, format!("{}; {}", refusal.message, refusal.hint)))?;
                    schedule.replace(read).is_some()
                }
                other => {
                    let why = format!("{:?} is none of name, interval, cron and prompt", shown(other));
                    return Err(fault(line, why));
                }
            };
            if twice {
                return Err(fault(line, "a task has one name, one prompt, and one interval or cron".into()));
            }
        }
        let missing = |what: &str| fault(self.line, format!("the task has no {what}"));
        let (line, name) = name.filter(|(_, name)| !name.is_empty()).ok_or_else(|| missing("name"))?;
        if name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(fault(
                line,
                format!("a name has at most {LONGEST_NAME} bytes and no control characters"),
            ));
        }
        let prompt = prompt.filter(|prompt| !prompt.is_empty()).ok_or_else(|| missing("prompt"))?;
        Ok(Entry {
            name: name.to_owned(),
            schedule: schedule.ok_or_else(|| missing("interval or cron"))?,
            prompt: format!("{prompt}\n\nIf there is nothing to tell, answer {OK} and nothing else."),
            line: self.line,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Heartbeat {
        read(text, &TimeZone::UTC, Time(0))
    }

    fn told(text: &str) -> (Vec<String>, Vec<String>) {
        let Heartbeat { tasks, faults } = of(text);
        let task = |entry: &Entry| {
            let prompt = entry.prompt.lines().next().unwrap_or_default();
            format!("{} {} {prompt}", entry.name, entry.schedule.value())
        };
        (tasks.iter().map(task).collect(), faults.iter().map(Fault::to_string).collect())
    }

    #[test]
    fn tasks_are_read_and_fenced_code_is_not() {
        let text = "# What I look after\n\n```yaml\ntasks:\n  - name: example\n    interval: 1h\n    prompt: no\n```\n\n\
            tasks:\n  - name: inbox\n    interval: 30m\n    prompt: \"Look for urgent mail: tell me\"\n\n\
            - name: 'news'\n  prompt: What is new?\n  cron: 0 9 * * 1-5\n~~~\n- name: fenced\n```\n~~~\n\n# Notes\n- name: later\n";
        assert_eq!(
            told(text),
            (
                vec![
                    "inbox 1800000 Look for urgent mail: tell me".into(),
                    "news 0 9 * * 1-5 What is new?".into()
                ],
                vec![]
            )
        );
        for begins in ["\u{feff}tasks:\r\n", "Tasks: \n", "# Mine\nTASKS:\n"] {
            let (tasks, faults) = told(&format!("{begins}- name: a\n  interval: 1h\n  prompt: p\n"));
            assert_eq!((tasks, faults), (vec!["a 3600000 p".into()], vec![]), "{begins:?}");
        }
        let ends = "\n\nIf there is nothing to tell, answer HEARTBEAT_OK and nothing else.";
        assert!(of(text).tasks.iter().all(|entry| entry.prompt.ends_with(ends)));
        for nothing in [
            "",
            "tasks:",
            "tasks: none",
            "- name: x",
            "# tasks:\n- name: x",
            "```\ntasks:\n- name: x\n",
            "text tasks:",
        ] {
            assert_eq!(of(nothing), Heartbeat::default(), "{nothing}");
        }
    }

    #[test]
    fn one_that_can_t_be_read_is_told_and_the_others_are_read() {
        let good = "- name: good\n  interval: 1h\n  prompt: p\n";
        for (bad, fault) in [
            ("- name: a\n  interval: soon\n  prompt: p\n", "line 3: interval \"soon\" is no duration; "),
            ("- name: a\n  cron: 61 * * * *\n  prompt: p\n", "line 3: cron \"61 * * * *\": the minute field"),
            ("- name: a\n  prompt: p\n", "line 2: the task has no interval or cron"),
            ("- interval: 1h\n  prompt: p\n", "line 2: the task has no name"),
            ("- name: a\n  interval: 1h\n  prompt:\n", "line 2: the task has no prompt"),
            ("- name: a\n  intervall: 1h\n  prompt: p\n", "line 3: \"intervall\" is none of"),
            ("- name: a\n  interval: 1h\n  interval: 2h\n  prompt: p\n", "line 4: a task has one name"),
            ("- name: a\n  every hour\n", "line 3: \"every hour\" is no field"),
            ("  oops\n", "line 2: \"oops\" is no field"),
            ("- name: good\n  interval: 1h\n  prompt: q\n", "line 5: a task named \"good\" is there already"),
            (
                &format!("- name: {}\n  interval: 1h\n  prompt: p\n", "x".repeat(65)),
                "line 2: a name has at most 64",
            ),
        ] {
            let (tasks, faults) = told(&format!("tasks:\n{bad}{good}"));
            assert_eq!((tasks.len(), faults.len()), (1, 1), "{bad}: {faults:?}");
            assert!(tasks[0].starts_with("good ") && faults[0].starts_with(fault), "{faults:?}");
        }
    }

    #[test]
    fn a_file_has_at_most_32_tasks_and_10_faults_are_told() {
        let task = |n: usize| format!("- name: t{n}\n  interval: 1h\n  prompt: p\n");
        let read = of(&format!("tasks:\n{}", (0..100).map(task).collect::<String>()));
        assert_eq!((read.tasks.len(), read.faults.len()), (MOST_TASKS, MOST_FAULTS));
        assert_eq!(
            read.faults[0].to_string(),
            "line 98: \"t32\" is one task more than 32, so it is left out"
        );
    }

    #[test]
    fn the_answer_that_says_nothing_is_known_however_it_is_set() {
        let beside = "x".repeat(LONGEST_BESIDE_OK);
        for ok in [
            "HEARTBEAT_OK",
            " HEARTBEAT_OK\n",
            "**HEARTBEAT_OK**",
            "`HEARTBEAT_OK`.",
            "\"HEARTBEAT_OK!\"",
            "heartbeat_ok",
            "Heartbeat_Ok 👍",
            "✅ **HEARTBEAT_OK** ✅",
            "HEARTBEAT_OK HEARTBEAT_OK",
            "*HEARTBEAT_OK*HEARTBEAT_OK*",
            "HEARTBEAT\\_OK",
            "<b>HEARTBEAT_OK</b>",
            "没有新消息HEARTBEAT_OK",
            "HEARTBEAT_OKです",
            "HEARTBEAT_OK\n\nheartbeat_ok\n",
            "HEARTBEAT_OK, but the mail waits",
            "All is well. HEARTBEAT_OK",
            &format!("HEARTBEAT_OK {beside}"),
            &format!("{beside}\n***HEARTBEAT_OK***"),
            "",
            " \n",
        ] {
            assert_eq!(to_say(ok), None, "{ok}");
        }
    }

    #[test]
    fn an_answer_that_says_something_is_said_without_the_word() {
        let long = "ä".repeat(LONGEST_BESIDE_OK + 1);
        for (answer, said) in [
            (long.as_str(), long.as_str()),
            (&format!("HEARTBEAT_OK\n\n{long}"), &long),
            (&format!("{long} `heartbeat_ok`"), &long),
            ("The word HEARTBEAT_OK means that all is well.", "The word  means that all is well."),
            ("See `MY_HEARTBEAT_OKAY`.", "See `MY_HEARTBEAT_OKAY`."),
            ("heartbeat ok", "heartbeat ok"),
            ("👍", "👍"),
        ] {
            assert_eq!(to_say(answer).as_deref(), Some(said), "{answer}");
        }
    }

    proptest! {
        #[test]
        fn the_word_is_never_said(answer in "(HEARTBEAT_OK|heartbeat_OK|[*_` .a\u{130}]|\\PC){0,40}") {
            if let Some(said) = to_say(&answer) {
                prop_assert!(words_ok(&said).is_empty(), "{said}");
            }
        }

        #[test]
        fn no_text_breaks_the_reader(text in "(tasks:\n)?([- `~:\"'a-z0-9\n]|name: |interval: 1h|prompt: |\\PC){0,200}") {
            let read = of(&text);
            prop_assert!(read.tasks.len() <= MOST_TASKS && read.faults.len() <= MOST_FAULTS);
        }
    }
}

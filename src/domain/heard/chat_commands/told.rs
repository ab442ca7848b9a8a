//! What people are answered to their words: plain texts of a few lines, which every platform shows as they are.

use std::{borrow::Cow, fmt::Write as _};

use ipc_handlers::Time;
use jiff::tz::TimeZone;

use super::{Commands, May, Words};
use crate::{
    heard::access::Standing,
    rows::Lane,
    runs::budget::{Budget, Used, short, stand},
    shown::{
        counted::{counted, number, waiting},
        metrics::WaitCause,
    },
    time::times::{length, shown},
};

/// How many tasks are listed.
pub const MOST_TASKS: usize = 10;
/// How many models are named.
pub const MOST_MODELS: usize = 20;
/// How much of a prompt or a message is shown, characters.
const SHOWN: usize = 60;
/// The longest answer, characters.
const LONGEST: usize = 3_000;
/// The word behind `/model` by which a group has again what all have.
pub const OF_ALL: &str = "default";

/// What the agent of a group does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtWork {
    Nothing,
    /// On this conversation.
    Here {
        since: Time,
    },
    /// In another chat or thread, or on a task for this chat.
    Elsewhere {
        since: Time,
        task: Option<String>,
    },
    /// On a task for another chat, which is told nothing of.
    OfAnotherChat {
        since: Time,
    },
    /// Somebody asked for its end.
    Stops,
}

/// How a conversation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stands {
    pub at_work: AtWork,
    /// Messages of this conversation that wait.
    pub waiting: i64,
    /// Until when what waits rests after a failure.
    pub rests_until: Option<Time>,
    pub session: Option<Session>,
}

/// How old a session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// `None`: nobody knows, as it was taken up again.
    pub begun: Option<Time>,
    pub used: Option<Time>,
}

/// The model of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// Its own; `None`: that of all groups.
    pub own: Option<String>,
    /// That of all groups; `None`: the agent's program chooses.
    pub of_all: Option<String>,
    /// What is asked meanwhile, as its own is at a limit.
    pub meanwhile: Option<String>,
}

/// A task as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub id: String,
    pub prompt: String,
    /// Whether it runs at its times, in a word.
    pub status: String,
    pub next: Option<Time>,
}

/// The tasks of a group, as a chat is told of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    /// The first ones for the chat.
    pub first: Vec<Task>,
    /// How many are for the chat.
    pub here: i64,
    /// How many are for other chats, of which nothing more is told.
    pub elsewhere: i64,
}

impl Model {
    /// Returns the one in use; `None`: the agent's program chooses.
    #[must_use]
    pub fn used(&self) -> Option<&str> {
        self.meanwhile.as_deref().or(self.own.as_deref()).or(self.of_all.as_deref())
    }

    /// Says which one it is.
    fn in_words(&self) -> String {
        let is = match (&self.own, &self.of_all) {
            (Some(own), _) => format!("Model: {own}"),
            (None, Some(all)) => format!("Model: {all}, as in all groups"),
            (None, None) => "Model: the agent's program chooses it".to_owned(),
        };
        match &self.meanwhile {
            Some(meanwhile) => format!("{is}. It is at a limit, so {meanwhile} is asked meanwhile."),
            None => format!("{is}."),
        }
    }
}

/// Returns the words that somebody may say in a chat.
#[must_use]
pub fn help(words: &Words, sender: Standing, commands: Commands) -> String {
    let mut text = "These words are commands here, each as a message of its own:".to_owned();
    for (word, spelled) in words.all().filter(|(word, _)| word.may(sender, commands) == May::Yes) {
        let name = if word.takes_name() { " [NAME]" } else { "" };
        let _ = write!(text, "\n{}{name}: {}", spelled.join(" or "), word.does());
    }
    bounded(&text)
}

/// Returns what a member is told who may not say a word.
#[must_use]
pub fn refused(spelled: &str) -> String {
    let spelled: String = spelled.chars().take(SHOWN).collect();
    format!("Only owners and admins may use {spelled} here.")
}

/// Returns how the agent of `group` stands. `waits_for`: what `why` says that the messages wait for, but for other work of the agent,
/// which the first line tells. `problems`: for who may see to them.
#[must_use]
pub fn status(
    group: &str,
    stands: &Stands,
    waits_for: Option<&str>,
    model: &Model,
    problems: Option<usize>,
    now: Time,
) -> String {
    let age = |since: Time| length((now.ms_since(since) / 1_000).max(1) * 1_000);
    let mut lines = vec![match &stands.at_work {
        AtWork::Nothing => format!("{group}: nothing is at work."),
        AtWork::Here { since } => format!("{group}: at work on this conversation for {}.", age(*since)),
        AtWork::Elsewhere { since, task: None } => {
            format!("{group}: at work on another conversation for {}.", age(*since))
        }
        AtWork::Elsewhere { since, task: Some(task) } => {
            format!("{group}: at work on the task {} for {}.", begin(task), age(*since))
        }
        AtWork::OfAnotherChat { since } => {
            format!("{group}: at work on a task for another chat for {}.", age(*since))
        }
        AtWork::Stops => format!("{group}: the run is asked to stop."),
    }];
    let rest = stands.rests_until.filter(|until| *until > now);
    lines.push(match (stands.waiting, rest) {
        (0, _) => "Nothing waits here.".to_owned(),
        (n, None) => format!("{} here.", waiting(n, "message")),
        (n, Some(until)) => format!(
            "{} here; the next try is in {}, after a failure.",
            waiting(n, "message"),
            length(until.ms_since(now))
        ),
    });
    if let Some(waits_for) = waits_for.filter(|_| stands.waiting > 0) {
        let who = if stands.waiting == 1 { "It waits" } else { "They wait" };
        lines.push(format!("{who} for {}.", plain(waits_for)));
    }
    lines.push(model.in_words());
    lines.push(match stands.session {
        None => "Session: a new one begins with the next message.".to_owned(),
        Some(Session { begun, used }) => {
            let begun = begun.map(|at| format!("begun {} ago", age(at)));
            let used = used.map(|at| format!("last used {} ago", age(at)));
            let all: Vec<String> = [begun, used].into_iter().flatten().collect();
            match all.is_empty() {
                true => "Session: it goes on with the next message.".to_owned(),
                false => format!("Session: {}.", all.join(", ")),
            }
        }
    });
    lines.extend(match problems {
        None => None,
        Some(0) => Some("No problem waits for you.".to_owned()),
        Some(n) => Some(format!("{} for you; g2 status says more.", waiting(number(n), "problem"))),
    });
    bounded(&lines.join("\n"))
}

/// Returns what the messages of a lane wait for, where `/status` says that: the work of its agent for another chat is not told.
#[must_use]
pub fn told_wait(lane: &Lane, obstacle: Option<&str>) -> Option<String> {
    match (lane.wait_cause?, obstacle) {
        (WaitCause::Group, _) => None,
        (WaitCause::Slot, Some(obstacle)) => Some(format!("a problem to be fixed: {obstacle}")),
        (
            WaitCause::Rest | WaitCause::Budget | WaitCause::Slot | WaitCause::Wiring | WaitCause::Folder,
            _,
        ) => lane.waits_for.clone(),
    }
}

/// Returns which model a group uses, and which are known. `word` is how the word for another one is spelled.
#[must_use]
pub fn models(model: &Model, known: &[String], word: &str) -> String {
    let mut text = model.in_words();
    if !known.is_empty() {
        let more = known.len().saturating_sub(MOST_MODELS);
        let names: Vec<&str> = known.iter().take(MOST_MODELS).map(String::as_str).collect();
        let _ = write!(text, "\nKnown: {}", names.join(", "));
        if more > 0 {
            let _ = write!(text, " and {more} more");
        }
        text.push('.');
    }
    let _ = write!(
        text,
        "\n{word} NAME uses another one in this group, {word} {OF_ALL} again that of all groups."
    );
    bounded(&text)
}

/// Returns what is said of the model of a group after it was changed.
#[must_use]
pub fn model_set(model: &Model) -> String {
    format!("{} It holds from the next message on.", model.in_words())
}

/// Returns the tasks of a group for a chat: the first of them, how many more there are, and how many for other chats.
#[must_use]
pub fn tasks(tasks: &Tasks, now: Time, zone: &TimeZone) -> String {
    let Tasks { first, here, elsewhere } = tasks;
    let mut text = match (*here, *elsewhere) {
        (0, 0) => return "This group has no tasks.".to_owned(),
        (0, n) => return format!("This group has no tasks for this chat, and {n} for other chats."),
        (n, _) => format!("This group has {} for this chat:", counted(n, "task")),
    };
    for Task { id, prompt, status, next } in first.iter().take(MOST_TASKS) {
        let when = match next {
            Some(next) => format!("{status}, next {}", shown(*next, now, zone)),
            None => status.clone(),
        };
        let _ = write!(text, "\n{} ({when}): {}", begin(id), begin(prompt));
    }
    let more = here.saturating_sub(number(first.len().min(MOST_TASKS)));
    if more > 0 {
        let _ = write!(text, "\nand {more} more: g2 tasks list");
    }
    if *elsewhere > 0 {
        let _ = write!(text, "\nand {elsewhere} for other chats");
    }
    bounded(&text)
}

/// Returns what a group has used of a day, and how much of its budget that is. `priced`: whether models have prices.
#[must_use]
pub fn usage(used: &Used, budget: &Budget, priced: bool) -> String {
    let count = |n: u64, one: &str| counted(i64::try_from(n).unwrap_or(i64::MAX), one);
    let mut parts = vec![count(used.requests, "request"), count(used.tokens, "token")];
    if priced {
        parts.push(format!("{:.2} of money", used.money.whole()));
    }
    parts.push(format!("{} of containers", length(i64::try_from(used.ran_ms).unwrap_or(i64::MAX))));
    let mut text = format!("Today: {}.", parts.join(", "));
    let bounds: Vec<String> = crate::runs::budget::shares(budget, used)
        .iter()
        .map(|share| short(budget, used, share.part))
        .collect();
    if bounds.is_empty() {
        text.push_str("\nThe group has no budget.");
    } else {
        let _ = write!(text, "\nOf its budget: {}.", bounds.join(", "));
        if stand(budget, used).is_out() {
            text.push_str(" It is used up, so work waits for tomorrow.");
        }
    }
    text
}

/// Returns what became of a message, by what `g2 why` answers.
#[must_use]
pub fn why(message: &str, answer: &str) -> String {
    bounded(&format!("\u{201c}{}\u{201d}: {}", begin(message), plain(answer)))
}

/// What is said where there is no message to tell of.
pub const NO_MESSAGE: &str = "There is no message of yours here to tell of.";

/// What is said where a new session begins.
pub const NEW: &str = "A new session begins with the next message.";

/// Returns a text of ours without the marks for commands, which platforms would show.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('`') { Cow::Owned(text.replace('`', "")) } else { Cow::Borrowed(text) }
}

/// The beginning of a text, on one line.
fn begin(text: &str) -> String {
    let mut words = text.split_whitespace().fold(String::new(), |mut line, word| {
        if line.chars().count() <= SHOWN {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        line
    });
    if words.chars().count() > SHOWN {
        words = words.chars().take(SHOWN).collect();
        words.push('…');
    }
    words
}

fn bounded(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ipc_handlers::Folder;

    use super::*;
    use crate::{heard::chat_commands::Word, runs::budget::Money};

    const NOW: Time = Time(10_000_000);

    fn words() -> Words {
        let all = Word::CHOICES.iter().map(|(name, word)| (*word, Some(format!("/{name}"))));
        Words::new(all.chain([(Word::New, Some("/clear".to_owned()))]))
    }

    #[test]
    fn help_has_the_words_of_who_asks() {
        let owner = help(&words(), Standing::Owner, Commands::Owners);
        assert_eq!(owner.lines().count(), 10, "{owner}");
        assert!(owner.contains("\n/new or /clear: begin a new session in this chat\n"), "{owner}");
        assert!(owner.contains("\n/model [NAME]: "), "{owner}");
        let member = help(&words(), Standing::Member, Commands::Members);
        assert!(member.contains("/stop") && !member.contains("/model"), "{member}");
    }

    #[test]
    fn the_status_is_a_few_lines_and_counts_in_words() {
        let stands = Stands { at_work: AtWork::Nothing, waiting: 0, rests_until: None, session: None };
        let model = Model::default();
        assert_eq!(
            status("family", &stands, None, &model, None, NOW),
            "family: nothing is at work.\nNothing waits here.\nModel: the agent's program chooses it.\n\
             Session: a new one begins with the next message."
        );
        let ago = |ms: i64| Time(NOW.0 - ms);
        let session = Some(Session { begun: Some(ago(7_200_000)), used: Some(ago(65_000)) });
        let at_work = AtWork::Here { since: ago(12_900) };
        let busy = Stands { at_work, waiting: 2, rests_until: None, session };
        let model = Model { own: Some("small".into()), ..Model::default() };
        assert_eq!(
            status("family", &busy, None, &model, Some(1), NOW),
            "family: at work on this conversation for 12 s.\n2 messages wait here.\nModel: small.\n\
             Session: begun 2 h ago, last used 1 min ago.\n1 problem waits for you; g2 status says more."
        );
        for (at_work, line) in [
            (AtWork::Stops, "f: the run is asked to stop."),
            (AtWork::OfAnotherChat { since: NOW }, "f: at work on a task for another chat for 1 s."),
            (AtWork::Elsewhere { since: NOW, task: None }, "f: at work on another conversation for 1 s."),
            (
                AtWork::Elsewhere { since: ago(2_000), task: Some("water".into()) },
                "f: at work on the task water for 2 s.",
            ),
        ] {
            let told = status("f", &Stands { at_work, ..stands.clone() }, Some("a"), &model, Some(0), NOW);
            assert_eq!(told.lines().next(), Some(line));
            assert!(told.ends_with("No problem waits for you."), "{told}");
        }
        for (waiting, until, line) in [
            (1, None, "1 message waits here."),
            (1, Some(Time(NOW.0 + 5_000)), "1 message waits here; the next try is in 5 s, after a failure."),
            (2, Some(NOW), "2 messages wait here."),
        ] {
            let stands = Stands { waiting, rests_until: until, ..stands.clone() };
            let told = status("f", &stands, Some("`x` y"), &model, Some(3), NOW);
            assert_eq!(told.lines().nth(1), Some(line));
            let who = if waiting == 1 { "It waits for x y." } else { "They wait for x y." };
            assert_eq!(told.lines().nth(2), Some(who));
            assert!(told.ends_with("3 problems wait for you; g2 status says more."), "{told}");
        }
    }

    #[test]
    fn what_waits_is_told_with_its_reason_but_for_work_that_is_none_of_the_chats() {
        let lane = |cause, words: &str| Lane {
            group: Folder::parse("main").unwrap(),
            chat_jid: "local:main".into(),
            thread: None,
            waiting: 1,
            since: None,
            waits_for: Some(words.into()),
            wait_cause: Some(cause),
            failed_attempts: 0,
            rest_until: None,
            why: None,
            run: None,
        };
        for (cause, obstacle, told) in [
            (WaitCause::Group, None, None),
            (WaitCause::Group, Some("no engine"), None),
            (WaitCause::Slot, None, Some("its words")),
            (WaitCause::Slot, Some("no engine"), Some("a problem to be fixed: no engine")),
            (WaitCause::Rest, Some("no engine"), Some("its words")),
            (WaitCause::Budget, None, Some("its words")),
            (WaitCause::Folder, None, Some("its words")),
            (WaitCause::Wiring, None, Some("its words")),
        ] {
            assert_eq!(told_wait(&lane(cause, "its words"), obstacle).as_deref(), told, "{cause}");
        }
    }

    #[test]
    fn the_model_is_told_with_those_that_are_known() {
        let model = |own: Option<&str>, of_all: Option<&str>, meanwhile: Option<&str>| Model {
            own: own.map(str::to_owned),
            of_all: of_all.map(str::to_owned),
            meanwhile: meanwhile.map(str::to_owned),
        };
        for (model, used, words) in [
            (model(Some("a"), Some("b"), None), Some("a"), "Model: a."),
            (model(None, Some("b"), None), Some("b"), "Model: b, as in all groups."),
            (model(None, None, None), None, "Model: the agent's program chooses it."),
            (
                model(Some("a"), None, Some("c")),
                Some("c"),
                "Model: a. It is at a limit, so c is asked meanwhile.",
            ),
        ] {
            assert_eq!(model.used(), used);
            assert!(models(&model, &[], "/model").starts_with(words), "{}", models(&model, &[], "/model"));
            assert_eq!(model_set(&model), format!("{words} It holds from the next message on."));
        }
        let many: Vec<String> = (0..MOST_MODELS + 2).map(|n| format!("m{n}")).collect();
        let told = models(&model(None, None, None), &many, "/model");
        assert!(told.contains("Known: m0, m1, ") && told.contains("m19 and 2 more.\n"), "{told}");
        assert!(told.ends_with(
            "/model NAME uses another one in this group, /model default again that of all groups."
        ));
    }

    #[test]
    fn tasks_are_listed_within_bounds() {
        let told =
            |first: Vec<Task>, here, elsewhere| tasks(&Tasks { first, here, elsewhere }, NOW, &TimeZone::UTC);
        assert_eq!(told(Vec::new(), 0, 0), "This group has no tasks.");
        assert_eq!(told(Vec::new(), 0, 2), "This group has no tasks for this chat, and 2 for other chats.");
        let task = |n: usize| Task {
            id: format!("t{n}"),
            prompt: format!("say\n{}", "long ".repeat(100)),
            status: "active".into(),
            next: Some(Time(NOW.0 + 30_000)),
        };
        let one = told(vec![Task { next: None, status: "paused".into(), ..task(1) }], 1, 4);
        assert!(one.starts_with("This group has 1 task for this chat:\nt1 (paused): say long long"), "{one}");
        assert!(one.ends_with("\nand 4 for other chats"), "{one}");
        let many = told((0..MOST_TASKS).map(task).collect(), 13, 0);
        assert_eq!(many.lines().count(), MOST_TASKS + 2, "{many}");
        assert!(
            many.starts_with("This group has 13 tasks for this chat:\nt0 (active, next in 30 s): say long"),
            "{many}"
        );
        assert!(many.ends_with("\nand 3 more: g2 tasks list") && many.chars().count() < LONGEST, "{many}");
    }

    #[test]
    fn use_is_told_with_the_parts_of_the_budget() {
        let used = Used { requests: 1, tokens: 300, money: Money(1_500_000), ran_ms: 65_000 };
        assert_eq!(
            usage(&used, &Budget::default(), false),
            "Today: 1 request, 300 tokens, 1 min of containers.\nThe group has no budget."
        );
        let budget = Budget { requests: Some(1), tokens: Some(1000), ..Budget::default() };
        assert_eq!(
            usage(&used, &budget, true),
            "Today: 1 request, 300 tokens, 1.50 of money, 1 min of containers.\n\
             Of its budget: 1 of 1 requests, 300 of 1000 tokens. It is used up, so work waits for tomorrow."
        );
    }

    #[test]
    fn what_people_wrote_stays_short_and_on_its_line() {
        assert_eq!(
            why("hel\nlo", "it waits; `g2 status` says more"),
            "\u{201c}hel lo\u{201d}: it waits; g2 status says more"
        );
        let long = why(&"x".repeat(1 << 20), &"y".repeat(1 << 20));
        assert!(long.chars().count() <= LONGEST + 1, "{}", long.len());
        assert_eq!(refused("/model"), "Only owners and admins may use /model here.");
        assert!(refused(&"x".repeat(1000)).len() < 120);
    }
}

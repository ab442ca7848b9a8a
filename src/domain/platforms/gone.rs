//! A chat, or a thread of one, that went: who is told of it, and in which words.

use ipc_handlers::{Folder, Time};

use super::{addresses::LOCAL, channels::What};

/// A place that went may come and go: an owner is told of it at most so often, ms.
const NOT_SOONER_MS: i64 = 3_600_000;
/// How much of a text is quoted, characters.
const QUOTED: usize = 80;
/// How many tasks are named.
const NAMED: usize = 5;
/// The longest reason that is kept, characters.
const LONGEST_WHY: usize = 500;

/// A place in which a text could not be said.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub chat: &'a str,
    /// What the chat is called.
    pub name: &'a str,
    pub thread: &'a str,
    pub what: What,
    /// Why, in the platform's words and with what a person can do.
    pub why: &'a str,
}

/// The chat of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnersChat {
    pub chat: String,
    /// The name of its channel.
    pub channel: String,
    /// It is known to be gone itself.
    pub gone: bool,
    pub granted_at: Time,
}

/// Returns the chat in which an owner is told that `gone`, a chat of `channel`, went: one on the same platform before the others, the oldest owner first.
#[must_use]
pub fn whom_to_tell<'a>(owners: &'a [OwnersChat], (gone, channel): (&str, &str)) -> Option<&'a str> {
    let reachable = owners.iter().filter(|owner| !owner.gone && owner.chat != gone);
    let far =
        |owner: &&OwnersChat| (owner.channel != channel, owner.channel == LOCAL.channel, owner.granted_at);
    reachable.min_by_key(far).map(|owner| &*owner.chat)
}

/// Whether an owner is told that a place went: for the first time, or since it was `back` in between.
#[must_use]
pub fn tells(told_at: Option<Time>, back: bool, now: Time) -> bool {
    told_at.is_none_or(|at| back && now.ms_since(at) >= NOT_SOONER_MS)
}

/// Returns why a place went as it is kept.
#[must_use]
pub fn kept(why: &str) -> String {
    let why: String = why.chars().filter(|c| !c.is_control()).take(LONGEST_WHY).collect();
    if why.trim().is_empty() { "the platform does not say why".into() } else { why }
}

impl Place<'_> {
    /// The place in words.
    fn named(&self) -> String {
        let chat = if self.name.is_empty() || self.name == self.chat {
            self.chat.to_owned()
        } else {
            format!("{} ({})", self.name, self.chat)
        };
        match self.what {
            What::Chat => chat,
            What::Thread => format!("topic {} of {chat}", self.thread),
        }
    }

    /// What an owner is told. `by`: whose text it was; `paused`: the tasks that were paused for it.
    #[must_use]
    pub fn to_owner(&self, by: Option<&Folder>, text: &str, paused: &[(Folder, String)]) -> String {
        let place = self.named();
        let whose =
            by.map_or_else(|| "A text of mine".to_owned(), |group| format!("A text of agent {group}"));
        let mut told = format!(
            "I can't write in {place} any more: {}.\n{whose} was not delivered: {}",
            self.why,
            quoted(text)
        );
        if !paused.is_empty() {
            let named: Vec<String> =
                paused.iter().take(NAMED).map(|(group, id)| format!("{id} of {group}")).collect();
            let more = match paused.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            told.push_str(&format!(
                "\nTasks for this chat are paused: {}{more}. `g2 tasks resume ID` has one run again.",
                named.join(", ")
            ));
        }
        if self.what == What::Chat {
            told.push_str("\nIf nobody wants an agent there any more: `g2 wirings remove`.");
        }
        told
    }

    /// What the agent is told whose text it was.
    #[must_use]
    pub fn to_agent(&self, text: &str) -> String {
        let tasks = match self.what {
            What::Chat => " Tasks for this chat are paused.",
            What::Thread => "",
        };
        format!(
            "[not delivered] Your text for {} was not delivered, and nobody there has read it: {}. It began: {}.{tasks} Do not send it \
             there again before a person has put this right.",
            self.named(),
            self.why,
            quoted(text)
        )
    }

    /// Why a task for it is paused.
    #[must_use]
    pub fn paused_for(&self) -> String {
        format!("its chat {} can't be written to: {}", self.named(), self.why)
    }
}

/// The beginning of a text, in one line.
fn quoted(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return "(a file)".into();
    }
    let cut: String = line.chars().take(QUOTED).collect();
    if cut.len() < line.len() { format!("\"{cut}…\"") } else { format!("\"{cut}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn channel(chat: &str) -> String {
        chat.split(':').next().unwrap_or_default().to_owned()
    }

    fn owner(chat: &str, gone: bool, granted_at: i64) -> OwnersChat {
        OwnersChat { chat: chat.into(), channel: channel(chat), gone, granted_at: Time(granted_at) }
    }

    #[test]
    fn an_owner_on_the_same_platform_is_told_and_never_in_the_place_that_went() {
        let all = [
            owner("local:main", false, 1),
            owner("dc:5", false, 2),
            owner("tg:8", false, 4),
            owner("tg:7", false, 3),
            owner("mx:!r", true, 0),
        ];
        for (gone, told) in [
            ("tg:-5", Some("tg:7")),
            ("tg:7", Some("tg:8")),
            ("dc:9", Some("dc:5")),
            ("dc:5", Some("tg:7")),
            ("mx:!other", Some("dc:5")),
        ] {
            assert_eq!(whom_to_tell(&all, (gone, &channel(gone))), told, "{gone}");
        }
        assert_eq!(whom_to_tell(&all[..1], ("tg:-5", "tg")), Some("local:main"));
        assert_eq!(whom_to_tell(&all[4..], ("tg:-5", "tg")), None);
    }

    #[test]
    fn an_owner_is_told_once_and_again_only_after_the_place_was_back() {
        let now = Time(10 * HOUR);
        for (told_at, back, is_told) in [
            (None, false, true),
            (Some(Time(0)), false, false),
            (Some(Time(9 * HOUR + 1)), true, false),
            (Some(Time(9 * HOUR)), true, true),
            (Some(Time(11 * HOUR)), true, false),
        ] {
            assert_eq!(tells(told_at, back, now), is_told, "{told_at:?} {back}");
        }
    }

    #[test]
    fn what_is_told_names_the_place_the_text_and_the_tasks_within_bounds() {
        let family = Folder::parse("family").unwrap();
        let place =
            Place { chat: "tg:-5", name: "Family", thread: "", what: What::Chat, why: "the bot was kicked" };
        let told = place.to_owner(Some(&family), &"word \n".repeat(1000), &[]);
        assert!(
            told.starts_with("I can't write in Family (tg:-5) any more: the bot was kicked.\n"),
            "{told}"
        );
        assert!(
            told.contains("A text of agent family was not delivered: \"word word") && told.len() < 400,
            "{told}"
        );
        let tasks: Vec<(Folder, String)> = (0..7).map(|n| (family.clone(), format!("task-{n}"))).collect();
        let told = place.to_owner(None, "", &tasks);
        assert!(told.contains("A text of mine was not delivered: (a file)"), "{told}");
        assert!(told.contains("task-4 of family and 2 more. `g2 tasks resume ID`"), "{told}");
        let topic = Place { name: "tg:-5", thread: "7", what: What::Thread, ..place };
        let told = topic.to_agent("see you");
        assert!(
            told.contains("Your text for topic 7 of tg:-5 was not delivered") && told.contains("\"see you\"")
        );
        assert_eq!(place.paused_for(), "its chat Family (tg:-5) can't be written to: the bot was kicked");
    }

    #[test]
    fn a_reason_is_one_line_of_at_most_so_many_characters() {
        assert_eq!(kept("a\nb\u{7}"), "ab");
        assert_eq!(kept(" \n"), "the platform does not say why");
        assert_eq!(kept(&"é".repeat(9000)).chars().count(), LONGEST_WHY);
    }
}

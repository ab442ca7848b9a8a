//! What a message of Discord's says, in words: its text, and all that people see beside it. Pure.

use serde_json::Value;

use super::{
    events::{Embed, Member, Message, Referenced, Us},
    marks,
};
use crate::kit::{Links, Poll, below_one_another, command_behind, cut};

/// How much of the parts of one message is told, bytes.
const MOST: usize = 32 << 10;
/// How many parts of a kind are looked at.
const PARTS: usize = 100;
/// A bot is still at work on its answer, and changes it later.
const LOADING: u64 = 1 << 7;

/// What the kind of a message means.
#[derive(Debug, PartialEq)]
pub(super) enum Notice {
    /// Somebody wrote it.
    Written,
    /// Discord tells of something that people see.
    Words(String),
    /// Discord tells of something that is nothing to read: somebody joined, a message was pinned.
    Nothing,
    /// Discord has a number for it that we do not know.
    Unknown,
}

impl Message {
    pub(super) fn notice(&self, us: Us<'_>) -> Notice {
        let words = self.content.as_deref().unwrap_or_default();
        let line =
            |what: &str, more: &str| Notice::Words(format!("[{}]", format!("{what} {more}").trim_end()));
        match self.r#type {
            0 | 19 | 20 | 23 if self.flags & LOADING != 0 && words.is_empty() => Notice::Nothing,
            0 | 19 | 20 | 23 => Notice::Written,
            3 => line("Call begins", ""),
            18 => line("Thread begins:", &cut(words, MOST)),
            21 => match &self.referenced_message {
                Referenced::Message(of) => {
                    let who = of.author.shown(&of.member);
                    let text = below_one_another(&[&of.words(us), of.file_names().as_str()]);
                    Notice::Words(format!("[Thread begins with a message of {who}]\n{text}"))
                }
                Referenced::Untold | Referenced::Deleted => Notice::Nothing,
            },
            24 => Notice::Words(below_one_another(&["[Automatic moderation]", &self.words(us)])),
            27 => line("Stage begins:", &cut(words, MOST)),
            28 => line("Stage has ended:", &cut(words, MOST)),
            31 => line("Topic of the stage:", &cut(words, MOST)),
            46 => {
                let field = |name: &str| {
                    let mut fields = self.embeds.iter().flat_map(|embed| embed.fields.iter());
                    fields
                        .find(|field| field.name == name)
                        .map(|field| field.value.as_str())
                        .unwrap_or_default()
                };
                let winner = match field("victor_answer_text") {
                    "" => String::new(),
                    answer => format!(
                        "; most chose {answer} ({} of {})",
                        field("victor_answer_votes"),
                        field("total_votes")
                    ),
                };
                line("Poll has ended:", &cut(&format!("{}{winner}", field("poll_question_text")), MOST))
            }
            1 | 2 | 4..=12 | 14..=17 | 22 | 25 | 26 | 29 | 30 | 32 | 36..=39 | 44 | 63 => Notice::Nothing,
            _ => Notice::Unknown,
        }
    }

    /// All that its author said, without what was forwarded.
    pub(super) fn words(&self, us: Us<'_>) -> String {
        let mut links = Links::default();
        let text = self.text(us, &mut links);
        // A page's own words come from no person, but for where there are no others.
        let is_shown = |embed: &&Embed| text.is_empty() || embed.r#type == "rich";
        let embeds: Vec<String> =
            self.embeds.iter().filter(is_shown).take(PARTS).map(|embed| embed.words(&mut links)).collect();
        let mut shown = String::new();
        components(&self.components, &mut shown, &mut links);
        let stickers: Vec<String> = self
            .sticker_items
            .iter()
            .take(PARTS)
            .map(|sticker| format!("[sticker: {}]", sticker.name))
            .collect();
        let poll = self.poll.as_ref().filter(|poll| !poll.question.text.is_empty()).map(|poll| {
            let votes = |id: u64| {
                poll.results.answer_counts.iter().find(|votes| votes.id == id).map_or(0, |votes| votes.count)
            };
            let option = |option: &super::events::Choice| {
                let media = &option.poll_media;
                (format!("{} {}", media.emoji.name, media.text).trim().to_owned(), votes(option.answer_id))
            };
            Poll {
                several: poll.allow_multiselect,
                closed: poll.results.is_finalized,
                question: poll.question.text.clone(),
                options: poll.answers.iter().map(option).collect(),
                ..Poll::default()
            }
            .words()
        });
        let invitation = self.activity.as_ref().map(|_| match &self.application.name[..] {
            "" => "[Invitation to an activity]".to_owned(),
            name => format!("[Invitation to {name}]"),
        });
        cut(
            &below_one_another(&[
                &text,
                &below_one_another(&embeds.iter().map(String::as_str).collect::<Vec<_>>()),
                shown.trim_end(),
                &poll.unwrap_or_default(),
                &stickers.join(" "),
                &invitation.unwrap_or_default(),
            ]),
            MOST,
        )
    }

    /// The text, with people and not their numbers in it, and the addresses behind its words.
    fn text(&self, us: Us<'_>, links: &mut Links) -> String {
        let mut text = self.content.clone().unwrap_or_default();
        let ours = [format!("<@{}>", us.id), format!("<@!{}>", us.id)];
        let role = us.role.map(|role| format!("<@&{}>", role.id));
        let behind = ours
            .iter()
            .chain(&role)
            .find_map(|name| command_behind(text.trim_start().strip_prefix(&**name)?));
        if let Some(command) = behind {
            return command.to_owned();
        }
        for user in self.mentions.iter().take(PARTS) {
            let shown = format!("@{}", user.shown(&Member::default()));
            text =
                text.replace(&format!("<@{}>", user.id), &shown).replace(&format!("<@!{}>", user.id), &shown);
        }
        if let (Some(role), Some(mark)) = (us.role, role) {
            text = text.replace(&mark, &format!("@{}", role.name));
        }
        marks::told(&text, links)
    }

    fn file_names(&self) -> String {
        let names: Vec<String> =
            self.attachments.iter().take(PARTS).map(|file| format!("[file: {}]", file.filename)).collect();
        cut(&names.join(" "), MOST)
    }
}

impl Embed {
    /// What a reader sees of it.
    fn words(&self, links: &mut Links) -> String {
        let behind = if self.r#type == "rich" { links.behind(&self.title, &self.url) } else { None };
        let title =
            format!("{}{}", self.title, behind.filter(|_| !self.title.is_empty()).unwrap_or_default());
        let fields: Vec<String> = self
            .fields
            .iter()
            .take(PARTS)
            .map(|field| format!("{}: {}", field.name, marks::told(&field.value, links)))
            .collect();
        below_one_another(&[
            &self.author.name,
            &title,
            &marks::told(&self.description, links),
            &fields.join("\n"),
            &self.footer.text,
        ])
    }
}

/// Gathers what parts of a message show: texts, and buttons that lead somewhere.
fn components(of: &Value, shown: &mut String, links: &mut Links) {
    match of {
        Value::Array(all) => all.iter().take(PARTS).for_each(|one| components(one, shown, links)),
        Value::Object(one) => {
            let text = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default();
            match one.get("type").and_then(Value::as_u64) {
                Some(10) => shown.push_str(&format!("{}\n", marks::told(text("content"), links))),
                Some(2) if !text("url").is_empty() => {
                    let behind = links.behind(text("label"), text("url")).unwrap_or_default();
                    shown.push_str(&format!("{}{behind}\n", text("label")));
                }
                _ => {}
            }
            for name in ["components", "component", "accessory"] {
                if let Some(more) = one.get(name) {
                    components(more, shown, links);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

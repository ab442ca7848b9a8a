//! What was said without a text, in words. Pure.

use serde_json::Value;

use super::{
    read::instant,
    wire::{self, is, list, name, number, object, text},
};
use crate::kit::{Links, Poll, cut};

/// How many options, items or people of one message are told.
const MOST: usize = 100;
/// The longest piece of a line that others wrote, bytes.
const LONGEST: usize = 4096;

/// A kind of message: the field that holds it, and what it says; nothing where it says nothing.
type Kind = (&'static str, fn(&Value) -> String);

/// The kinds whose words are told. A venue has a location beside it.
const WORDS: [Kind; 34] = [
    ("sticker", |it| line("Sticker", text(it, "emoji"))),
    ("venue", |it| format!("[Location: {}, {}]", piece(it, "title"), piece(it, "address"))),
    ("location", |it| location(it, if it["live_period"].is_null() { Place::Fixed } else { Place::Live })),
    ("contact", |it| format!("[Contact: {}, {}]", name(it), piece(it, "phone_number"))),
    ("poll", poll),
    ("dice", |it| format!("[Dice {} {}]", text(it, "emoji"), number(it, "value").unwrap_or(0))),
    ("checklist", |it| format!("[Checklist: {}]{}", piece(it, "title"), items(list(it, "tasks")))),
    ("story", |it| line("Story of", &name(&it["chat"]))),
    ("paid_media", |it| {
        let files = list(it, "paid_media").len();
        format!("[Paid media: {} for {}]", count(files, "file"), stars(it, "star_count"))
    }),
    ("game", |it| {
        let below =
            if text(it, "text").is_empty() { String::new() } else { format!("\n{}", piece(it, "text")) };
        format!("[Game: {}, {}]{below}", piece(it, "title"), piece(it, "description"))
    }),
    ("invoice", |it| {
        format!("[Invoice: {}, {}, {}]", piece(it, "title"), piece(it, "description"), price(it))
    }),
    ("successful_payment", |it| format!("[Payment: {}]", price(it))),
    ("refunded_payment", |it| format!("[Payment taken back: {}]", price(it))),
    ("giveaway", giveaway),
    ("giveaway_created", |_| "[Giveaway begins]".into()),
    ("giveaway_winners", |it| format!("[Winners of a giveaway: {}]", people(list(it, "winners")))),
    ("giveaway_completed", |it| {
        format!("[Giveaway has ended: {}]", count(usize_of(it, "winner_count"), "winner"))
    }),
    ("gift", gift),
    ("gift_upgrade_sent", gift),
    ("unique_gift", |it| {
        let (gift, number) = (&it["gift"], number(&it["gift"], "number").unwrap_or(0));
        let below =
            if text(it, "text").is_empty() { String::new() } else { format!("\n{}", piece(it, "text")) };
        format!("[Gift: {} #{number}]{below}", piece(gift, "base_name"))
    }),
    ("video_chat_scheduled", |it| {
        line("Video chat planned for", &number(it, "start_date").and_then(instant).unwrap_or_default())
    }),
    ("video_chat_started", |_| "[Video chat begins]".into()),
    ("video_chat_ended", |it| {
        format!("[Video chat has ended after {} s]", number(it, "duration").unwrap_or(0))
    }),
    ("video_chat_participants_invited", |it| line("Invited to the video chat:", &people(list(it, "users")))),
    ("proximity_alert_triggered", |it| {
        let (who, to) = (name(&it["traveler"]), name(&it["watcher"]));
        format!("[{who} is within {} m of {to}]", number(it, "distance").unwrap_or(0))
    }),
    ("boost_added", |it| format!("[Boost of the chat: {}]", number(it, "boost_count").unwrap_or(1))),
    ("checklist_tasks_done", tasks_done),
    ("checklist_tasks_added", |it| {
        let of = piece(&it["checklist_message"]["checklist"], "title");
        format!("{}{}", line("Added to the checklist", &of), items(list(it, "tasks")))
    }),
    ("poll_option_added", |it| line("Added to the poll:", &piece(it, "option_text"))),
    ("poll_option_deleted", |it| line("Taken from the poll:", &piece(it, "option_text"))),
    ("users_shared", |it| line("Shared people:", &people(list(it, "users")))),
    ("chat_shared", |it| line("Shared chat:", &name(it))),
    ("web_app_data", |it| {
        format!("[Data of a web app, {}]\n{}", piece(it, "button_text"), piece(it, "data"))
    }),
    ("suggested_post_declined", |it| line("Suggested post declined", &piece(it, "comment"))),
];

/// Fields of messages that are about the chat, and say nothing to anybody.
const SILENT: [&str; 36] = [
    "new_chat_members",
    "new_chat_member",
    "new_chat_participant",
    "left_chat_member",
    "left_chat_participant",
    "chat_owner_left",
    "chat_owner_changed",
    "new_chat_title",
    "new_chat_photo",
    "delete_chat_photo",
    "group_chat_created",
    "supergroup_chat_created",
    "channel_chat_created",
    "message_auto_delete_timer_changed",
    "pinned_message",
    "connected_website",
    "write_access_allowed",
    "passport_data",
    "chat_background_set",
    "direct_message_price_changed",
    "paid_message_price_changed",
    "forum_topic_created",
    "forum_topic_edited",
    "forum_topic_closed",
    "forum_topic_reopened",
    "general_forum_topic_hidden",
    "general_forum_topic_unhidden",
    "managed_bot_created",
    "suggested_post_approved",
    "suggested_post_approval_failed",
    "suggested_post_paid",
    "suggested_post_refunded",
    "community_chat_added",
    "community_chat_removed",
    "community_chat_joined",
    "user_shared",
];

/// Fields that are beside what a message says.
const FRAME: [&str; 48] = [
    "message_id",
    "message_thread_id",
    "direct_messages_topic",
    "from",
    "sender_chat",
    "sender_boost_count",
    "sender_business_bot",
    "sender_tag",
    "guest_query_id",
    "guest_bot_caller_user",
    "guest_bot_caller_chat",
    "business_connection_id",
    "date",
    "edit_date",
    "chat",
    "forward_origin",
    "forward_date",
    "forward_from",
    "forward_from_chat",
    "forward_from_message_id",
    "forward_sender_name",
    "forward_signature",
    "is_topic_message",
    "is_automatic_forward",
    "reply_to_message",
    "external_reply",
    "quote",
    "reply_to_story",
    "reply_to_checklist_task_id",
    "reply_to_poll_option_id",
    "via_bot",
    "has_protected_content",
    "is_from_offline",
    "is_paid_post",
    "media_group_id",
    "author_signature",
    "paid_star_count",
    "entities",
    "link_preview_options",
    "suggested_post_info",
    "effect_id",
    "caption",
    "caption_entities",
    "show_caption_above_media",
    "has_media_spoiler",
    "reply_markup",
    "receiver_user",
    "ephemeral_message_id",
];

/// What is said beside the text and the files of a message.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    Words(String),
    /// It is about the chat: somebody joined, a message was pinned.
    Nothing,
    /// It is of a kind that is not known, by the platform's word for it.
    Unknown(String),
}

/// Returns what a message says in a field of its own.
pub(super) fn said(message: &Value) -> Said {
    let field = |kind: &&Kind| object(message, kind.0).is_some();
    if let Some((name, words)) = WORDS.iter().find(field) {
        return Said::Words(words(&message[*name]));
    }
    let fields = || message.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    if fields().any(|(name, _)| SILENT.contains(&name.as_str())) {
        return Said::Nothing;
    }
    let other = fields().map(|(name, _)| name).find(|name| !FRAME.contains(&name.as_str()));
    Said::Unknown(other.map_or_else(|| "empty".to_owned(), |name| cut(name, 64)))
}

/// Whether a location stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Fixed,
    Live,
    Ended,
}

/// Returns the line of a place.
pub(super) fn location(at: &Value, place: Place) -> String {
    let what = match place {
        Place::Fixed => "Location",
        Place::Live => "Live location",
        Place::Ended => "Live location, ended",
    };
    let degrees =
        |name: &str| at[name].as_f64().map_or_else(|| "?".to_owned(), |degrees| degrees.to_string());
    format!("[{what}: {}, {}]", degrees("latitude"), degrees("longitude"))
}

fn piece(of: &Value, field: &str) -> String {
    cut(text(of, field), LONGEST)
}

/// Returns a line of what it is, and of more if there is something.
fn line(what: &str, more: &str) -> String {
    format!("[{}]", format!("{what} {more}").trim().trim_end_matches(':'))
}

fn count(count: usize, of: &str) -> String {
    if count == 1 { format!("1 {of}") } else { format!("{count} {of}s") }
}

fn usize_of(of: &Value, field: &str) -> usize {
    number(of, field).and_then(|number| usize::try_from(number).ok()).unwrap_or(0)
}

fn stars(of: &Value, field: &str) -> String {
    count(usize_of(of, field), "star")
}

/// Returns a price. Telegram counts it in the currency's smallest unit.
fn price(of: &Value) -> String {
    let (amount, currency) = (usize_of(of, "total_amount"), text(of, "currency"));
    match currency {
        "XTR" => count(amount, "star"),
        "BIF" | "CLP" | "DJF" | "GNF" | "ISK" | "JPY" | "KMF" | "KRW" | "MGA" | "PYG" | "RWF" | "UGX"
        | "VND" | "VUV" | "XAF" | "XOF" | "XPF" => format!("{amount} {currency}"),
        _ => format!("{}.{:02} {}", amount / 100, amount % 100, cut(currency, 8)),
    }
}

fn people(of: &[Value]) -> String {
    let names: Vec<String> = of.iter().take(MOST).map(name).filter(|name| !name.is_empty()).collect();
    if of.len() > MOST { format!("{} and others", names.join(", ")) } else { names.join(", ") }
}

fn poll(poll: &Value) -> String {
    let option = |option: &Value| {
        let votes = number(option, "voter_count").and_then(|votes| u64::try_from(votes).ok());
        (text(option, "text").to_owned(), votes.unwrap_or(0))
    };
    Poll {
        quiz: text(poll, "type") == "quiz",
        several: is(poll, "allows_multiple_answers"),
        closed: is(poll, "is_closed"),
        question: text(poll, "question").to_owned(),
        about: text(poll, "description").to_owned(),
        options: list(poll, "options").iter().map(option).collect(),
    }
    .words()
}

fn items(tasks: &[Value]) -> String {
    let item = |task: &Value| {
        let done = object(task, "completed_by_user").is_some()
            || object(task, "completed_by_chat").is_some()
            || number(task, "completion_date").is_some_and(|at| at > 0);
        format!("\n- [{}] {}", if done { "x" } else { " " }, piece(task, "text"))
    };
    tasks.iter().take(MOST).map(item).collect()
}

fn tasks_done(it: &Value) -> String {
    let tasks = list(&it["checklist_message"]["checklist"], "tasks");
    let of = |field: &str, mark: &str| -> String {
        let ids = list(it, field).iter().take(MOST);
        ids.map(|id| {
            let task = tasks.iter().find(|task| task["id"] == *id);
            let words = task.map_or_else(|| format!("item {id}"), |task| piece(task, "text"));
            format!("\n- [{mark}] {words}")
        })
        .collect()
    };
    let title = piece(&it["checklist_message"]["checklist"], "title");
    let (done, open) = (of("marked_as_done_task_ids", "x"), of("marked_as_not_done_task_ids", " "));
    format!("{}{done}{open}", line("Changed in the checklist", &title))
}

fn giveaway(it: &Value) -> String {
    let winners = count(usize_of(it, "winner_count"), "winner");
    let until = number(it, "winners_selection_date").and_then(instant).unwrap_or_default();
    let prize = match (text(it, "prize_description"), usize_of(it, "prize_star_count")) {
        ("", 0) => String::new(),
        ("", _) => format!(", {}", stars(it, "prize_star_count")),
        _ => format!(", {}", piece(it, "prize_description")),
    };
    format!("[Giveaway: {winners}, until {until}{prize}]")
}

fn gift(it: &Value) -> String {
    let below = if text(it, "text").is_empty() { String::new() } else { format!("\n{}", piece(it, "text")) };
    format!("[Gift: {}]{below}", stars(&it["gift"], "star_count"))
}

/// A text of blocks, as its readers see it.
#[derive(Default)]
pub(super) struct Rich<'a> {
    pub(super) text: String,
    /// The objects that hold files, by Telegram's own field for each kind.
    pub(super) files: Vec<&'a Value>,
    /// The people whom it names.
    pub(super) named: Vec<&'a Value>,
    links: Links,
}

impl<'a> Rich<'a> {
    /// Reads a `rich_message`. `read_json` bounds how deep it is.
    pub(super) fn of(message: &'a Value) -> Option<Self> {
        let rich = object(message, "rich_message")?;
        let mut this = Self::default();
        this.blocks(list(rich, "blocks"));
        this.text.truncate(this.text.trim_end().len());
        Some(this)
    }

    fn blocks(&mut self, blocks: &'a [Value]) {
        for block in blocks {
            self.block(block);
            if !self.text.ends_with('\n') {
                self.text.push('\n');
            }
        }
    }

    fn block(&mut self, block: &'a Value) {
        if ["photo", "animation", "audio", "document", "video", "voice_note"]
            .iter()
            .any(|field| !block[*field].is_null())
        {
            self.files.push(block);
        }
        if let Some(at) = object(block, "location") {
            self.text.push_str(&location(at, Place::Fixed));
        }
        self.text.push_str(text(block, "expression"));
        self.inline(&block["summary"]);
        self.inline(&block["text"]);
        for item in list(block, "items") {
            let check = match (is(item, "has_checkbox"), is(item, "is_checked")) {
                (false, _) => "",
                (true, true) => "[x] ",
                (true, false) => "[ ] ",
            };
            self.fresh_line();
            self.text.push_str(&format!("{} {check}", text(item, "label")));
            self.blocks(list(item, "blocks"));
        }
        for row in list(block, "cells") {
            self.fresh_line();
            for (n, cell) in row.as_array().into_iter().flatten().enumerate() {
                self.text.push_str(if n == 0 { "" } else { " | " });
                self.inline(&cell["text"]);
            }
        }
        for button in list(block, "buttons") {
            self.fresh_line();
            self.button(button);
        }
        if !list(block, "blocks").is_empty() {
            self.fresh_line();
            self.blocks(list(block, "blocks"));
        }
        let caption = &block["caption"];
        self.inline(if caption.get("text").is_some() && caption.get("type").is_none() {
            &caption["text"]
        } else {
            caption
        });
        if !block["credit"].is_null() {
            self.text.push_str(" — ");
            self.inline(&block["credit"]);
        }
    }

    fn fresh_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    fn button(&mut self, button: &'a Value) {
        let from = self.text.len();
        self.inline(&button["text"]);
        self.link(from, text(button, "url"));
    }

    fn link(&mut self, from: usize, address: &str) {
        let behind = self.links.behind(&self.text[from..], address);
        self.text.push_str(&behind.unwrap_or_default());
    }

    fn inline(&mut self, piece: &'a Value) {
        match piece {
            Value::String(text) => self.text.push_str(text),
            Value::Array(pieces) => pieces.iter().for_each(|piece| self.inline(piece)),
            Value::Object(_) => {
                let from = self.text.len();
                self.inline(&piece["text"]);
                self.text.push_str(text(piece, "alternative_text"));
                self.text.push_str(text(piece, "expression"));
                match text(piece, "type") {
                    "text_mention" | "mention" => self.named.push(piece),
                    "url" => self.link(from, text(piece, "url")),
                    "button" => self.button(&piece["button"]),
                    _ => {}
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Returns what is told of a message that says something in no way that is known.
pub(super) fn unknown(kind: &str) -> String {
    match kind {
        "empty" => "[message of which Telegram shows bots nothing]".into(),
        kind => crate::kit::unknown(kind),
    }
}

/// Returns the words of what is answered in another place: a story, or an item of a list.
pub(super) fn answered_part(message: &Value, to: &Value) -> Option<String> {
    let task = &message["reply_to_checklist_task_id"];
    let option = &message["reply_to_poll_option_id"];
    let of = |list: &[Value], field: &str, id: &Value| {
        (!id.is_null()).then(|| list.iter().find(|one| one[field] == *id).map(|one| piece(one, "text")))?
    };
    of(wire::list(&to["checklist"], "tasks"), "id", task)
        .or_else(|| of(wire::list(&to["poll"], "options"), "persistent_id", option))
}

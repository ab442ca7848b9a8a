//! What a message of Slack's says, in words: its text, and all that people see beside it. Pure.

use channel_protocol::{Attached, Kind};
use serde_json::Value;

use super::marks::{self, Names};
use crate::kit::{Links, below_one_another, command_behind, cut};

/// How much of one message is told, bytes.
const MOST: usize = 32 << 10;
/// How many parts of a kind are looked at, and how deep they may lie in each other.
const PARTS: usize = 100;
const DEPTH: usize = 12;
/// The files of one message that are told of.
const MOST_FILES: usize = 32;

/// Returns a field that is a text; one of another type is as one that is not there.
pub(super) fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a field that is a list; one of another type is as one that is not there.
pub(super) fn all<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn is(of: &Value, name: &str) -> bool {
    of.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// Who reads, and what others are called.
pub(super) struct Reader<'a> {
    /// Our own id.
    pub(super) me: &'a str,
    pub(super) names: &'a dyn Names,
}

impl Reader<'_> {
    /// All that its author said, without what was shared from elsewhere.
    pub(super) fn words(&self, message: &Value) -> String {
        let mut links = Links::default();
        let own = text(message, "text");
        let mark = format!("<@{}>", self.me);
        let behind = own.trim_start().strip_prefix(&mark).and_then(command_behind);
        if let Some(command) = behind {
            return command.to_owned();
        }
        let shown = self.blocks(all(message, "blocks"), !own.is_empty(), &mut links);
        let own = if shown.is_empty() { marks::told(own, self.names, &mut links) } else { shown };
        // A page's own words come from no person, but for where there are no others.
        let is_shown = |one: &&Value| {
            !is(one, "is_share")
                && (own.is_empty() || (text(one, "from_url").is_empty() && !is(one, "is_msg_unfurl")))
        };
        let attached: Vec<String> = all(message, "attachments")
            .iter()
            .filter(is_shown)
            .take(PARTS)
            .map(|one| self.attached(one, &mut links))
            .collect();
        let links_to: Vec<String> =
            all(message, "files").iter().take(MOST_FILES).filter_map(elsewhere).collect();
        let attached = below_one_another(&attached.iter().map(String::as_str).collect::<Vec<_>>());
        cut(&below_one_another(&[&own, &attached, &links_to.join("\n")]), MOST)
    }

    /// What was shared from elsewhere: whose it is, in words. `None`: nothing was.
    pub(super) fn shared(&self, message: &Value) -> Option<(String, String)> {
        let shared: Vec<&Value> =
            all(message, "attachments").iter().filter(|one| is(one, "is_share")).take(PARTS).collect();
        let first = shared.first()?;
        let author = cut(text(first, "author_name"), 256);
        let mut links = Links::default();
        let words: Vec<String> = shared
            .iter()
            .map(|one| match text(one, "text") {
                "" => marks::told(text(one, "fallback"), self.names, &mut links),
                own => marks::told(own, self.names, &mut links),
            })
            .collect();
        Some((author, cut(&below_one_another(&words.iter().map(String::as_str).collect::<Vec<_>>()), MOST)))
    }

    /// What a piece shows that an app puts below its text.
    fn attached(&self, one: &Value, links: &mut Links) -> String {
        let title = text(one, "title");
        let behind = links.behind(title, text(one, "title_link")).filter(|_| !title.is_empty());
        let title = format!("{}{}", marks::told(title, self.names, links), behind.unwrap_or_default());
        let fields: Vec<String> = all(one, "fields")
            .iter()
            .take(PARTS)
            .map(|field| {
                let value = marks::told(text(field, "value"), self.names, links);
                if text(field, "title").is_empty() {
                    value
                } else {
                    format!("{}: {value}", text(field, "title"))
                }
            })
            .collect();
        let shown = below_one_another(&[
            &marks::told(text(one, "pretext"), self.names, links),
            text(one, "author_name"),
            &title,
            &marks::told(text(one, "text"), self.names, links),
            &fields.join("\n"),
            &self.blocks(all(one, "blocks"), !text(one, "text").is_empty(), links),
            text(one, "footer"),
        ]);
        if shown.is_empty() { marks::told(text(one, "fallback"), self.names, links) } else { shown }
    }

    /// What parts of a message show that an app laid out; nothing where they are the text beside them once more.
    fn blocks(&self, blocks: &[Value], has_text: bool, links: &mut Links) -> String {
        if has_text && blocks.iter().all(|block| text(block, "type") == "rich_text") {
            return String::new();
        }
        let mut shown = String::new();
        for block in blocks.iter().take(PARTS) {
            self.block(block, links, &mut shown, DEPTH);
        }
        shown.trim_end().to_owned()
    }

    fn block(&self, block: &Value, links: &mut Links, shown: &mut String, depth: usize) {
        if depth == 0 || shown.len() > MOST {
            return;
        }
        let mut line = |words: &str| {
            if !words.trim().is_empty() {
                shown.push_str(words);
                shown.push('\n');
            }
        };
        match text(block, "type") {
            "mrkdwn" => line(&marks::told(text(block, "text"), self.names, links)),
            "plain_text" => line(text(block, "text")),
            "image" => line(&format!("[image: {}]", text(block, "alt_text"))),
            "markdown" => line(text(block, "text")),
            "button" if !text(block, "url").is_empty() => {
                let label = block["text"]["text"].as_str().unwrap_or_default();
                let behind = links.behind(label, text(block, "url")).unwrap_or_default();
                line(&format!("{label}{behind}"));
            }
            "button" => {}
            "rich_text" => {
                let mut words = String::new();
                self.rich(block, &mut words, depth);
                line(words.trim_end());
            }
            _ => {
                for name in ["text", "title", "accessory"] {
                    if let Some(part) = block.get(name).filter(|part| part.is_object()) {
                        self.block(part, links, shown, depth - 1);
                    }
                }
                for name in ["fields", "elements"] {
                    for part in all(block, name).iter().take(PARTS) {
                        self.block(part, links, shown, depth - 1);
                    }
                }
            }
        }
    }

    /// A text whose pieces are laid out one by one.
    fn rich(&self, part: &Value, out: &mut String, depth: usize) {
        if depth == 0 || out.len() > MOST {
            return;
        }
        match text(part, "type") {
            "text" => out.push_str(text(part, "text")),
            "link" if text(part, "text").is_empty() => out.push_str(text(part, "url")),
            "link" => out.push_str(&format!("{} ({})", text(part, "text"), cut(text(part, "url"), 2048))),
            "emoji" => out.push_str(&super::signs::shown(text(part, "name"))),
            "user" => {
                let id = text(part, "user_id");
                out.push_str(&format!("@{}", self.names.person(id).unwrap_or_else(|| id.to_owned())));
            }
            "channel" => {
                let id = text(part, "channel_id");
                out.push_str(&format!("#{}", self.names.channel(id).unwrap_or_else(|| id.to_owned())));
            }
            "broadcast" => out.push_str(&format!("@{}", text(part, "range"))),
            kind => {
                for piece in all(part, "elements").iter().take(PARTS) {
                    if kind == "rich_text_list" {
                        out.push_str("• ");
                    }
                    self.rich(piece, out, depth - 1);
                }
                if kind.starts_with("rich_text_") && !out.ends_with('\n') {
                    out.push('\n');
                }
            }
        }
    }
}

/// Returns the files of a message that Slack itself keeps, those of what it shares, too.
pub(super) fn files(message: &Value) -> Vec<Attached> {
    let shared = all(message, "attachments").iter().filter(|one| is(one, "is_share"));
    let of_shared = shared.flat_map(|one| all(one, "files"));
    let kept = of_shared.chain(all(message, "files")).filter(|file| text(file, "mode") != "external");
    kept.take(MOST_FILES).map(file).collect()
}

/// A file that lies elsewhere, as words. `None`: Slack keeps it.
fn elsewhere(file: &Value) -> Option<String> {
    let address = if text(file, "external_url").is_empty() {
        text(file, "url_private")
    } else {
        text(file, "external_url")
    };
    (text(file, "mode") == "external")
        .then(|| format!("[file: {}] {}", cut(text(file, "name"), 256), cut(address, 2048)))
}

fn file(file: &Value) -> Attached {
    let mime = text(file, "mimetype").to_owned();
    let kind = match (text(file, "subtype"), mime.split('/').next()) {
        ("slack_audio", _) => Kind::Voice,
        ("slack_video", _) | (_, Some("video")) => Kind::Video,
        (_, Some("audio")) => Kind::Audio,
        (_, Some("image")) => Kind::Image,
        _ => Kind::Document,
    };
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let problem = match text(file, "mode") {
        "tombstone" => Some("it is deleted".to_owned()),
        "hidden_by_limit" => Some("Slack hides it: it is older than the workspace's plan keeps".into()),
        _ if text(file, "id").is_empty() => Some("Slack does not say which file it is".into()),
        _ => None,
    };
    Attached {
        fetch: some(text(file, "id")).filter(|_| problem.is_none()),
        kind,
        mime,
        name: some(&cut(text(file, "name"), 1024)),
        bytes: file["size"].as_u64(),
        seconds: file["duration_ms"].as_u64().map(|ms| ms.div_ceil(1000)),
        problem,
        ..Attached::default()
    }
}

//! What the daemon asks Slack for: whether a text arrived, which channels there are, and files.

use std::time::Duration;

use channel_protocol::{Chat, ChatKind, Fetch, LookFor};
use tokio::time::Instant;

use super::{
    Slack,
    api::ApiError,
    events::{self, is_id, micros},
    inbox::Channel,
    out,
    said::{all, text},
    uploads,
};
use crate::kit::{Look, Rest};

/// For how long a text is looked for: the host waits a little longer. Where nobody can tell, it is sent again.
const LOOKED_FOR: Duration = Duration::from_secs(50);
/// How many pages of a channel are read to find what may have been sent.
const LOOKED_AT: usize = 10;
/// How far Slack's clock and ours may differ, µs.
const CLOCKS: u64 = 600_000_000;
/// How many pages of the list of channels are read.
const MOST_LISTS: usize = 25;

impl Slack {
    /// Looks for a message of ours. A Slack that can't say it now is asked again.
    pub(super) async fn find(&self, what: &LookFor) -> Look {
        let (until, mut rest) = (Instant::now() + LOOKED_FOR, Rest::default());
        loop {
            let asked = tokio::time::timeout_at(until, self.search(what)).await;
            let error = match asked {
                Ok(Ok(look)) => return look,
                Ok(Err(error)) => error,
                Err(_) => return Look::CannotTell("Slack does not answer in time".into()),
            };
            let again = Instant::now() + rest.next(error.asked_ms());
            if error.is_locked_out() || error.is_final() || again >= until {
                return Look::CannotTell(error.to_string());
            }
            tokio::time::sleep_until(again).await;
        }
    }

    /// Looks for it once, backwards from the end of the channel or thread: by its key, and where Slack shows none, by its text.
    async fn search(&self, what: &LookFor) -> Result<Look, ApiError> {
        let Ok(channel) = self.spot(&what.chat, &what.thread) else { return Ok(Look::HasNot) };
        if let Some(files) = self.notes.files(&what.key) {
            return uploads::look(&self.api, &files, channel, &what.thread).await;
        }
        let since = what.since.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_microsecond);
        let since = u64::try_from(since).unwrap_or(0).saturating_sub(CLOCKS);
        let oldest = events::time(since);
        let (mut page, mut same_text) = (String::new(), None);
        let mut thread = &what.thread[..];
        for _ in 0..LOOKED_AT {
            let mut given = vec![
                ("channel", channel),
                ("oldest", &oldest),
                ("limit", "200"),
                ("cursor", &page),
                ("include_all_metadata", "true"),
            ];
            let method = if thread.is_empty() { "conversations.history" } else { "conversations.replies" };
            if !thread.is_empty() {
                given.push(("ts", thread));
            }
            let answer = match self.api.call(method, &given).await {
                // What is said in a thread that went stands in the channel itself.
                Err(error) if error.is("thread_not_found") && !thread.is_empty() => {
                    (thread, page) = ("", String::new());
                    continue;
                }
                answer => answer?,
            };
            let ours = all(&answer, "messages").iter().filter(|message| events::is_own(message, &self.us));
            for message in ours.filter(|message| micros(text(message, "ts")) >= since) {
                if out::key_of(message) == Some(&what.key) {
                    return Ok(Look::Has(vec![text(message, "ts").to_owned()]));
                }
                let has_words =
                    !what.text.trim().is_empty() && text(message, "text").trim() == what.text.trim();
                if message["metadata"].is_null() && has_words {
                    same_text = Some(text(message, "ts").to_owned());
                }
            }
            text(&answer["response_metadata"], "next_cursor").clone_into(&mut page);
            if page.is_empty() {
                return Ok(same_text.map_or(Look::HasNot, |ts| Look::Has(vec![ts])));
            }
        }
        let too_many = || Look::CannotTell("the channel has too many messages since then".into());
        Ok(same_text.map_or_else(too_many, |ts| Look::Has(vec![ts])))
    }

    pub(super) async fn chats(&self) -> Result<Vec<Chat>, ApiError> {
        let (mut chats, mut page) = (Vec::new(), String::new());
        for _ in 0..MOST_LISTS {
            let given = [
                ("types", "public_channel,private_channel,mpim"),
                ("exclude_archived", "true"),
                ("limit", "200"),
                ("cursor", &page),
            ];
            let answer = self.api.call("users.conversations", &given).await?;
            for channel in all(&answer, "channels").iter().filter(|channel| is_id(text(channel, "id"))) {
                chats.push(Chat {
                    chat: format!("{}:{}", self.prefix, text(channel, "id")),
                    name: Channel::read(channel).shown(&self.team),
                    kind: ChatKind::Group,
                    threaded: true,
                    members: None,
                    hears_all: None,
                });
            }
            text(&answer["response_metadata"], "next_cursor").clone_into(&mut page);
            if page.is_empty() {
                break;
            }
        }
        Ok(chats)
    }

    pub(super) async fn get(&self, what: &Fetch) -> Result<String, String> {
        let most = usize::try_from(what.most).unwrap_or(usize::MAX);
        let told = |error: ApiError| match error.hint() {
            hint if hint.is_empty() => error.to_string(),
            hint => format!("{error}; {hint}"),
        };
        let answer = self.api.call("files.info", &[("file", &what.what)]).await.map_err(told)?;
        let file = &answer["file"];
        if text(file, "mode") == "external" || file["is_external"] == true {
            return Err("it is a link to a file elsewhere, not a file on Slack".into());
        }
        if file["size"].as_u64().is_some_and(|bytes| bytes > what.most) {
            return Err(format!("it has more than {} bytes", what.most));
        }
        let url = match text(file, "url_private_download") {
            "" => text(file, "url_private"),
            url => url,
        };
        let is_page = text(file, "mimetype").starts_with("text/html");
        let bytes = self.api.download(url, is_page, most).await.map_err(told)?;
        let name = format!("in/{}", what.r);
        let path = self.spool.join(&name);
        let written = tokio::task::spawn_blocking(move || {
            std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
            std::fs::write(path, bytes)
        });
        match written.await {
            Ok(Ok(())) => Ok(name),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("our own fault: writing it failed".into()),
        }
    }
}

//! Presses of buttons, whose persons may still be told something.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use crate::slack::{api::Api, events::Press};

/// How many presses may still be answered.
const MOST_PRESSES: usize = 256;
/// The longest answer, characters.
const LONGEST: usize = 3000;

/// Presses that may still be answered, the newest ones, each with its channel.
#[derive(Default)]
pub(in crate::slack) struct Presses(Mutex<VecDeque<(String, Press)>>);

impl Presses {
    pub(super) fn add(&self, channel: &str, press: &Press) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back((channel.to_owned(), press.clone()));
        if all.len() > MOST_PRESSES {
            all.pop_front();
        }
    }

    /// Tells the person something that nobody beside them sees.
    pub(in crate::slack) async fn answer(&self, api: &Api, key: &str, text: &str) {
        let found = {
            let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().find(|(_, press)| press.key == key).cloned()
        };
        let Some((channel, press)) = found else { return };
        let text = crate::slack::out::plain(&text.chars().take(LONGEST).collect::<String>());
        let mut given = vec![("channel", &channel[..]), ("user", &press.user), ("text", &text)];
        if !press.thread.is_empty() {
            given.push(("thread_ts", &press.thread));
        }
        if let Err(error) = api.call("chat.postEphemeral", &given).await {
            eprintln!("answering a press failed: {error}");
        }
    }
}

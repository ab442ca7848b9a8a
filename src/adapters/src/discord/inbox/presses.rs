//! Presses of buttons, and commands that were chosen from the list: Discord wants to hear of both soon.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};

use crate::discord::{api::Api, events::Interaction, out};

/// How many presses may still be answered.
const MOST_PRESSES: usize = 256;

/// A press that may still be answered.
pub(super) struct Press {
    id: String,
    /// Tells Discord that it arrived, with this.
    arrived: (String, Value),
    /// Tells the person something.
    answer: String,
    heard: tokio::sync::OnceCell<()>,
}

/// Presses that may still be answered, the newest ones.
#[derive(Default)]
pub(crate) struct Presses(Mutex<VecDeque<Arc<Press>>>);

impl Presses {
    /// `words`: those of a command, which only its sender is shown. Without them it is a button.
    pub(super) fn add(&self, of: &Interaction, words: Option<&str>) -> Arc<Press> {
        let arrived = match words {
            Some(words) => json!({"type": 4, "data": out::whisper(words)}),
            // A deferred change of the message, which is how nothing is changed.
            None => json!({"type": 6}),
        };
        let press = Arc::new(Press {
            id: of.id.clone(),
            arrived: (format!("/interactions/{}/{}/callback", of.id, of.token), arrived),
            answer: format!("/webhooks/{}/{}", of.application_id, of.token),
            heard: tokio::sync::OnceCell::new(),
        });
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back(Arc::clone(&press));
        if all.len() > MOST_PRESSES {
            all.pop_front();
        }
        press
    }

    /// Tells the person something that nobody else sees.
    pub(crate) async fn answer(&self, api: &Api, id: &str, text: &str) {
        let press = {
            let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().find(|press| press.id == id).map(Arc::clone)
        };
        let Some(press) = press else { return };
        press.hear(api).await;
        if let Err(error) = api.answer(&press.answer, &out::whisper(text)).await {
            eprintln!("answering a press failed: {error}");
        }
    }
}

impl Press {
    pub(super) async fn hear(&self, api: &Api) {
        self.heard
            .get_or_init(async || {
                let (place, arrived) = &self.arrived;
                if let Err(error) = api.answer(place, arrived).await {
                    eprintln!("confirming a press failed: {error}");
                }
            })
            .await;
    }
}

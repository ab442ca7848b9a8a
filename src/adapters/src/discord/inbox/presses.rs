//! Presses of buttons, which Discord wants to hear of soon.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::json;

use crate::discord::{api::Api, events::Interaction, out};

/// How many presses may still be answered.
const MOST_PRESSES: usize = 256;

/// A press that may still be answered.
pub(super) struct Press {
    id: String,
    /// Tells Discord that it arrived.
    arrived: String,
    /// Tells the person something.
    answer: String,
    heard: tokio::sync::OnceCell<()>,
}

/// Presses that may still be answered, the newest ones.
#[derive(Default)]
pub(crate) struct Presses(Mutex<VecDeque<Arc<Press>>>);

impl Presses {
    pub(super) fn add(&self, of: &Interaction) -> Arc<Press> {
        let press = Arc::new(Press {
            id: of.id.clone(),
            arrived: format!("/interactions/{}/{}/callback", of.id, of.token),
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
                // A deferred change of the message, which is how nothing is changed.
                if let Err(error) = api.answer(&self.arrived, &json!({"type": 6})).await {
                    eprintln!("confirming a press failed: {error}");
                }
            })
            .await;
    }
}

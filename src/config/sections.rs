//! What sections come to that say more than their settings.

use ipc_handlers::{file::MediaKind, words};

use super::settings::{Budget as Section, ChatWords, Hooks, Housekeeping, Limits, Media};
use crate::domain::{
    heard::chat_commands::{Word, Words},
    kept::housekeeping::Bounds,
    platforms::attachments::MediaLimits,
    rows::Group,
    runs::{
        budget::{BadPrice, Budget, Part, Prices, Wish},
        tasks::TaskLimits,
    },
};

words! {
    /// `[sandbox] kind`.
    pub enum SandboxKind: "sandbox" {
        /// Docker when it answers and has the image, otherwise `process` for the scripted agent.
        Auto = "auto",
        Docker = "docker",
        Process = "process",
    }
}

/// The budget of groups that have none of their own, and the prices by which money is counted.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(try_from = "Section")]
pub struct Budgets {
    pub all: Wish,
    pub prices: Prices,
}

/// Why `[budget]` can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadBudgets {
    #[error("budget.{0}: {1}")]
    Part(Part, String),
    #[error(transparent)]
    Price(#[from] BadPrice),
    #[error("budget.money has no effect before models have prices: write them to budget.prices")]
    NoPrices,
}

impl TryFrom<Section> for Budgets {
    type Error = BadBudgets;

    fn try_from(said: Section) -> Result<Self, BadBudgets> {
        let Section { requests, tokens, money, minutes, prices } = said;
        let all = Wish {
            requests: Some(requests),
            tokens: Some(tokens),
            money: Some(money),
            minutes: Some(minutes),
        };
        if let Some((part, why)) = all.fault() {
            return Err(BadBudgets::Part(part, why));
        }
        let prices = Prices::new(&prices)?;
        if money > 0.0 && prices.is_empty() {
            return Err(BadBudgets::NoPrices);
        }
        Ok(Self { all, prices })
    }
}

impl Budgets {
    /// Returns a group's budget. One whose own settings can't be read has that of all: other code reports them.
    #[must_use]
    pub fn of(&self, group: &Group) -> Budget {
        Budget::of(&self.all, &group.config().map(|config| config.budget).unwrap_or_default())
    }
}

impl From<ChatWords> for Words {
    fn from(words: ChatWords) -> Self {
        let ChatWords { stop, retry, help, status, new, clear, model, tasks, why, usage } = words;
        Self::new([
            (Word::Stop, stop),
            (Word::Retry, retry),
            (Word::Help, help),
            (Word::Status, status),
            (Word::New, new),
            (Word::New, clear),
            (Word::Model, model),
            (Word::Tasks, tasks),
            (Word::Why, why),
            (Word::Usage, usage),
        ])
    }
}

impl Limits {
    /// Returns what the tasks of a group may be.
    #[must_use]
    pub fn tasks(&self) -> TaskLimits {
        TaskLimits {
            count: self.tasks,
            bytes: self.tasks_bytes,
            prompt: self.task_prompt_bytes,
            script: self.task_script_bytes,
        }
    }
}

impl Housekeeping {
    /// Returns the bounds of the files of a group's runs.
    #[must_use]
    pub fn runs(&self) -> Bounds {
        Bounds::new(self.runs_days, self.runs_mib)
    }

    /// Returns the bounds of the files that a group's agent keeps of its sessions.
    #[must_use]
    pub fn sessions(&self) -> Bounds {
        Bounds::new(self.sessions_days, self.sessions_mib)
    }
}

impl Media {
    /// Returns the bounds.
    #[must_use]
    pub fn limits(&self) -> MediaLimits {
        MediaLimits { largest: self.largest, chat_hour: self.chat_hour, all: self.all }
    }
}

impl Hooks {
    /// Returns the program for a kind of file, with its arguments.
    #[must_use]
    pub fn of(&self, kind: MediaKind) -> Option<&[String]> {
        let command = match kind {
            MediaKind::Voice => &self.voice,
            MediaKind::Audio => &self.audio,
            MediaKind::Image => &self.image,
            MediaKind::Video => &self.video,
            MediaKind::Document => &self.document,
        };
        (!command.is_empty()).then_some(command)
    }
}

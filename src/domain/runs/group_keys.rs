//! The settings of a group as people are told of them: what each means, its words, and how its value is written.

use ipc_handlers::Word;

use super::{
    group_config::{GroupConfig, Key, Say},
    run_settings::{Credentials, Egress, Network, Provider},
};
use crate::{
    heard::{bots::Bots, chat_commands::Commands},
    rows::Group,
};

fn words<W: Word>() -> Vec<&'static str> {
    W::CHOICES.iter().map(|(word, _)| *word).collect()
}

impl Key {
    /// Says what it means, on one line.
    #[must_use]
    pub fn help(self) -> &'static str {
        match self {
            Self::Name => "name for people; other groups may have it too",
            Self::Trigger => "word at the start of a message that mentions the agent, such as @G2",
            Self::Provider => "scripted, claude or acp",
            Self::Script => "JSON file that the scripted agent follows",
            Self::Image => "container image",
            Self::Model => "name of the model that the agent asks for",
            Self::ModelFallback => "name of the model that it asks while its own is at a limit",
            Self::Timeout => "ms that a run may give no sign of life, 1000 to 604800000 (a week)",
            Self::MemoryMib => "memory of the container, MiB, 6 to 16777216; 0: no limit",
            Self::Cpus => "processors of the container, 0.01 to 1024; 0: no limit",
            Self::Pids => "processes in the container, 8 to 4194304; 0: no limit",
            Self::Network => {
                "model (the container reaches its model only), allowlist (and the hosts of `g2 egress`) or open"
            }
            Self::Egress => {
                "none, or model_fetch: the model's host may fetch pages, search the web and call tool servers. \
                 This does not matter with network=open"
            }
            Self::Credentials => {
                "gateway (keys stay on the host) or stdin (the agent gets them; needs network=open)"
            }
            Self::Timezone => {
                "zone name such as Europe/Paris, for times in prompts, cron tasks and TZ in the container"
            }
            Self::Say => {
                "final (an answer is said when it is whole) or stream (texts between tools are said at once, and a \
                 text grows in terminals, on the page, and where the platform can change it)"
            }
            Self::Seen => "emoji that a message has while the agent works on it, such as 👀",
            Self::Bots => {
                "ignored (messages of other bots are nothing to it) or heard (as messages of people, up to 8 of one \
                 bot in 10 minutes)"
            }
            Self::Commands => {
                "owners (and admins) or members: who may write /status, /new and the like in its chats; /model stays \
                 for owners and admins"
            }
            Self::BudgetRequests => "limit of a day: requests to the model; 0: no limit",
            Self::BudgetTokens => "limit of a day: tokens; 0: no limit",
            Self::BudgetMoney => "limit of a day: money by the prices of g2.toml; 0: no limit",
            Self::BudgetMinutes => "limit of a day: minutes of containers; 0: no limit",
            Self::Mounts => {
                "JSON list of at most 64 host folders, shown below /workspace/extra; each must be allowed in \
                 ~/.config/g2/mount-allowlist.json"
            }
            Self::Mcp => "tool servers (MCP) that the agent has, as .mcp.json has them",
        }
    }

    /// Returns the words that it can have; none: it is a text of another kind.
    #[must_use]
    pub fn words(self) -> Vec<&'static str> {
        match self {
            Self::Provider => words::<Provider>(),
            Self::Network => words::<Network>(),
            Self::Egress => words::<Egress>(),
            Self::Credentials => words::<Credentials>(),
            Self::Say => words::<Say>(),
            Self::Bots => words::<Bots>(),
            Self::Commands => words::<Commands>(),
            Self::Name
            | Self::Trigger
            | Self::Script
            | Self::Image
            | Self::Model
            | Self::ModelFallback
            | Self::Timeout
            | Self::MemoryMib
            | Self::Cpus
            | Self::Pids
            | Self::Timezone
            | Self::Seen
            | Self::BudgetRequests
            | Self::BudgetTokens
            | Self::BudgetMoney
            | Self::BudgetMinutes
            | Self::Mounts
            | Self::Mcp => Vec::new(),
        }
    }
}

impl Group {
    /// Returns what a group has set for itself, as `g2 groups set` takes it; `None`: it has what all groups have. `own` is its
    /// config, as it was read.
    #[must_use]
    pub fn setting(&self, own: &GroupConfig, key: Key) -> Option<String> {
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let word = |word: Option<&'static str>| word.map(str::to_owned);
        match key {
            Key::Name => Some(self.name.clone()),
            Key::Trigger => Some(self.trigger.clone()),
            Key::Provider => self.provider.clone(),
            Key::Script => self.script.clone(),
            Key::Image => self.image.clone(),
            Key::Model => own.model.clone(),
            Key::ModelFallback => own.model_fallback.clone(),
            Key::Timeout => number(own.timeout),
            Key::MemoryMib => number(own.memory_mib),
            Key::Cpus => own.cpus.map(|cpus| cpus.to_string()),
            Key::Pids => number(own.pids),
            Key::Network => word(own.network.map(Network::as_str)),
            Key::Egress => word(own.egress.map(Egress::as_str)),
            Key::Credentials => word(own.credentials.map(Credentials::as_str)),
            Key::Timezone => own.timezone.clone(),
            Key::Say => word(own.say.map(Say::as_str)),
            Key::Seen => own.seen.clone(),
            Key::Bots => word(own.bots.map(Bots::as_str)),
            Key::Commands => word(own.commands.map(Commands::as_str)),
            Key::BudgetRequests => number(own.budget.requests),
            Key::BudgetTokens => number(own.budget.tokens),
            Key::BudgetMoney => own.budget.money.map(|money| money.to_string()),
            Key::BudgetMinutes => number(own.budget.minutes),
            Key::Mounts => (!own.mounts.is_empty()).then(|| json(&own.mounts)),
            Key::Mcp => (!own.mcp.is_empty()).then(|| json(&own.mcp)),
        }
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_group_has_set_is_written_as_it_is_taken() {
        let mut group = Group {
            folder: ipc_handlers::Folder::parse("family").unwrap(),
            name: "Family".into(),
            is_main: false,
            trigger: "@G2".into(),
            provider: None,
            script: None,
            image: None,
            config: serde_json::json!({}),
            chats: Vec::new(),
        };
        let values = [
            (Key::Model, "claude-x"),
            (Key::ModelFallback, "claude-small"),
            (Key::Timeout, "60000"),
            (Key::MemoryMib, "512"),
            (Key::Cpus, "0.5"),
            (Key::Pids, "64"),
            (Key::Network, "open"),
            (Key::Egress, "model_fetch"),
            (Key::Credentials, "stdin"),
            (Key::Timezone, "Asia/Tokyo"),
            (Key::Say, "stream"),
            (Key::Seen, "👀"),
            (Key::Bots, "heard"),
            (Key::Commands, "members"),
            (Key::BudgetRequests, "500"),
            (Key::BudgetTokens, "0"),
            (Key::BudgetMoney, "2.5"),
            (Key::BudgetMinutes, "90"),
            (Key::Mounts, r#"[{"hostPath": "/x", "readonly": false}]"#),
            (Key::Mcp, "weather: python3 weather.py"),
        ];
        let own = values
            .iter()
            .try_fold(GroupConfig::default(), |config, (key, value)| config.with(*key, value))
            .unwrap();
        // What is shown, taken again, changes nothing.
        for (_, key) in Key::CHOICES {
            let Some(shown) = group.setting(&own, *key) else { continue };
            assert_eq!(own.clone().with(*key, &shown).unwrap(), own, "{key}");
            assert!(key.words().is_empty() || key.words().contains(&shown.as_str()), "{key}={shown}");
        }
        for (key, value) in values.iter().take(values.len() - 2) {
            assert_eq!(group.setting(&own, *key).as_deref(), Some(*value));
        }
        let none = GroupConfig::default();
        let set = Key::CHOICES.iter().filter(|(_, key)| group.setting(&none, *key).is_some());
        assert_eq!(set.map(|(word, _)| *word).collect::<Vec<_>>(), ["name", "trigger"]);
        group.provider = Some("claude".into());
        assert_eq!(group.setting(&none, Key::Provider).as_deref(), Some("claude"));
    }
}

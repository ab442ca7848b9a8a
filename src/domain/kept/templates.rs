//! What the memory of a new group begins with, where a person chooses one. Pure.

use ipc_handlers::words;
use schemars::JsonSchema;

/// The memory of a new root's main group; `{name}` and `{folder}` stand in it.
const MAIN: &str = include_str!("../../../container/templates/main.md");

words! {
    /// A text that a group's `CLAUDE.md` begins with.
    #[derive(JsonSchema)]
    pub enum Template: "template" {
        /// Helps with whatever comes up.
        Assistant = "assistant",
        /// Finds things out, with sources.
        Researcher = "researcher",
        /// Lists and dates of a family.
        Family = "family",
    }
}

impl Template {
    /// Returns the text for an agent of this name in this folder.
    #[must_use]
    pub fn text(self, name: &str, folder: &str) -> String {
        let text = match self {
            Self::Assistant => include_str!("../../../container/templates/assistant.md"),
            Self::Researcher => include_str!("../../../container/templates/researcher.md"),
            Self::Family => include_str!("../../../container/templates/family.md"),
        };
        filled(text, name, folder)
    }
}

/// What the memory begins with that all groups of a new root share.
pub const OF_ALL: &str = "# Memory shared by all groups\n";

/// Returns what the memory of a new root's main group begins with.
#[must_use]
pub fn of_main(name: &str) -> String {
    filled(MAIN, name, "main")
}

fn filled(text: &str, name: &str, folder: &str) -> String {
    // The name last: whatever stands in it is its owner's word for word.
    text.replace("{folder}", folder).replace("{name}", name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_short_names_its_agent_and_says_how_it_is_changed() {
        let texts = Template::CHOICES.iter().map(|(_, template)| template.text("Bo", "home"));
        for (text, folder) in texts.map(|text| (text, "home")).chain([(of_main("Bo"), "main")]) {
            assert!(text.starts_with("# Bo\n\nYou are Bo"), "{text}");
            assert!(text.contains(&format!("`g2 groups edit {folder}`")), "{text}");
            assert!(text.lines().count() <= 40 && text.len() < 3_000, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 124) && !text.contains(['{', '}']));
        }
    }

    #[test]
    fn a_name_stands_as_its_owner_wrote_it() {
        assert!(Template::Family.text("{folder} Bo", "home").starts_with("# {folder} Bo\n"));
    }
}

//! What a declaration of settings makes: the structs that `g2.toml` is read into, the defaults, the ranges, when a change
//! holds, and the file that a new root has.

use std::ops::RangeInclusive;

use ipc_handlers::words;
use schemars::JsonSchema;

use super::{environment::setting_of, settings::SECTIONS};

words! {
    /// When a change of a setting holds.
    #[derive(JsonSchema)]
    pub enum Takes: "effect of a setting" {
        /// At once.
        Now = "now",
        /// For runs that begin from now on.
        NextRun = "next_run",
        /// From the next start of the daemon on.
        Restart = "restart",
    }
}

/// What the file says of accounts: none has a setting by default.
const ACCOUNTS: &str = "\
# An account on a chat platform is a table [channels.NAME], NAME a platform (telegram) or a platform and a word (\"telegram.work\").
# `g2 channels add` writes it. docs/channels.md says more.
";

/// A table of `g2.toml`.
pub(super) struct Section {
    /// Empty: what stands above all tables.
    pub(super) name: &'static str,
    pub(super) about: &'static [&'static str],
    pub(super) settings: &'static [Declared],
}

/// A setting.
pub(super) struct Declared {
    /// With its section.
    pub(super) name: &'static str,
    pub(super) key: &'static str,
    /// As TOML.
    pub(super) default: &'static str,
    /// What a number can be; empty: what the type holds.
    pub(super) range: &'static [RangeInclusive<i64>],
    pub(super) takes: Takes,
    pub(super) about: &'static [&'static str],
}

/// Makes each section a struct, and `SECTIONS` of all of them.
macro_rules! declare {
    ($(
        $(#[doc = $section_about:literal])*
        [$section:literal] $takes:ident => $vis:vis struct $name:ident {
            $(
                $(#[doc = $about:literal])*
                $key:literal = $default:tt $(in $range:expr)? $(, $own:ident)? => $field:ident: $type:ty $(as $read:literal)?;
            )*
            $( [$below:ident] $table:ty $(, $absent:ident)?; )*
        }
    )*) => {
        $(
            #[doc = concat!("The settings of `[", $section, "]`.")]
            #[derive(Clone, Debug, PartialEq, Deserialize)]
            #[serde(deny_unknown_fields)]
            $vis struct $name {
                $(
                    #[doc = concat!("`", $key, "`.")]
                    #[serde(rename = $key $(, deserialize_with = $read)?)]
                    $vis $field: $type,
                )*
                $(
                    #[doc = concat!("`[", stringify!($below), "]`.")]
                    $(#[serde($absent)])?
                    $vis $below: $table,
                )*
            }
        )*

        /// Every setting, in the order of the file.
        pub(super) const SECTIONS: &[Section] = &[$(Section {
            name: $section,
            about: &[$($section_about),*],
            settings: &[$(Declared {
                name: if $section.is_empty() { $key } else { concat!($section, ".", $key) },
                key: $key,
                default: stringify!($default),
                range: &[$($range)?],
                takes: [$(Takes::$own,)? Takes::$takes][0],
                about: &[$($about),*],
            }),*],
        }),*];
    };
}
pub(super) use declare;

/// Returns every setting, in the order of the file.
pub(super) fn all() -> impl Iterator<Item = &'static Declared> {
    SECTIONS.iter().flat_map(|section| section.settings)
}

/// Returns the full name of every setting, with the first words about it, in the order of the file.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    all().map(|one| (one.name, one.about.first().map_or("", |about| about.trim())))
}

/// Returns the setting of a full name.
pub(super) fn of(name: &str) -> Option<&'static Declared> {
    all().find(|one| one.name == name)
}

/// Returns when a change of a setting, named in full, holds. A name that is not known takes a restart.
#[must_use]
pub fn takes(name: &str) -> Takes {
    // What comes from `.env` has the effect of the setting that it is.
    let name = name.strip_suffix(" in .env").and_then(setting_of).unwrap_or(name);
    if name == "channels" || name.starts_with("channels.") {
        return Takes::Now;
    }
    let is_of = |one: &&Declared| {
        name.strip_prefix(one.name)
            .is_some_and(|below| below.is_empty() || below.starts_with('.') && one.default == "{}")
    };
    all().find(is_of).map_or(Takes::Restart, |one| one.takes)
}

/// What a number can be, in words; `None` where this one is fine, or where nothing is known of the name.
pub(super) fn out_of_range(name: &str, value: i64) -> Option<String> {
    let range = of(name)?.range.first().filter(|range| !range.contains(&value))?;
    Some(format!("it is {} at least and {} at most", range.start(), range.end()))
}

/// Returns a `g2.toml` with every setting said at its default.
pub(super) fn defaults() -> String {
    let section = |section: &Section| {
        let head = if section.name.is_empty() { String::new() } else { format!("[{}]\n", section.name) };
        let lines = section.settings.iter().map(|one| format!("{} = {}\n", one.key, one.default));
        head + &lines.collect::<String>()
    };
    SECTIONS.iter().map(section).collect()
}

/// Returns `g2.toml` with every setting commented at its default.
#[must_use]
pub fn default_toml() -> String {
    let mut lines = Vec::new();
    for section in SECTIONS {
        lines.extend(section.about.iter().map(|line| format!("#{line}")));
        lines.push(if section.name.is_empty() { String::new() } else { format!("[{}]", section.name) });
        for one in section.settings {
            let stands_behind = |line: &str| !line.trim_start().starts_with(|c: char| c.is_ascii_uppercase());
            let (behind, above) = match one.about {
                [first, above @ ..] if stands_behind(first) => (Some(first), above),
                above => (None, above),
            };
            lines.extend(above.iter().map(|line| format!("#{line}")));
            let setting = format!("# {} = {}", one.key, one.default);
            lines.push(behind.map_or_else(|| setting.clone(), |line| format!("{setting:<28} #{line}")));
        }
        lines.push(String::new());
    }
    lines.push(ACCOUNTS.to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_can_be_used_and_every_number_has_a_range() {
        let default: toml::Table = defaults().parse().unwrap();
        crate::config::layers::read("g2.toml".as_ref(), "").unwrap();
        for one in all() {
            let value: toml::Value = one.default.parse().unwrap();
            let is_number = value.is_integer() || one.name == "budget.money";
            assert_eq!(!one.range.is_empty(), is_number, "the range of {}", one.name);
            assert_eq!(value.as_integer().and_then(|number| out_of_range(one.name, number)), None);
        }
        let uncommented: String = default_toml()
            .lines()
            .flat_map(|line| {
                [line.strip_prefix("# ").filter(|line| line.contains(" = ")).unwrap_or(line), "\n"]
            })
            .collect();
        assert_eq!(uncommented.parse::<toml::Table>().unwrap(), default, "the file of a new root");
    }

    #[test]
    fn a_setting_holds_now_for_the_next_run_or_from_the_next_start_on() {
        for (name, expected) in [
            ("backup.keep", Takes::Now),
            ("backups.keep", Takes::Restart),
            ("channels.telegram.work.allow", Takes::Now),
            ("channelsx.work", Takes::Restart),
            ("budget.prices.claude-3.5.input", Takes::Now),
            ("agent.acp.env.A", Takes::NextRun),
            ("agent.claude.model", Takes::NextRun),
            ("web.listen", Takes::Restart),
            ("limits.odd", Takes::Restart),
            ("TZ in .env", Takes::Now),
            ("ANTHROPIC_BASE_URL in .env", Takes::Restart),
        ] {
            assert_eq!(takes(name), expected, "{name}");
        }
    }

    #[test]
    fn the_page_on_settings_names_all_that_do_not_hold_at_once() {
        let page = include_str!("../../docs/settings.md");
        for one in all().filter(|one| one.takes != Takes::Now) {
            let row = format!("| `{}` |", one.takes);
            let row = page.lines().find(|line| line.starts_with(&row)).unwrap();
            let sections = one.name.match_indices('.').map(|(end, _)| format!("`[{}]`", &one.name[..end]));
            let mut names = sections.chain([one.name, one.key].map(|name| format!("`{name}`")));
            assert!(names.any(|name| row.contains(&name)), "{}: {row}", one.name);
        }
    }

    #[test]
    fn the_page_on_limits_has_their_defaults() {
        let page = include_str!("../../ipc-handlers/LIMITS.md");
        // A row of a table stands for itself.
        let parts = || page.split("\n\n").flat_map(|part| part.split("\n|"));
        let mut found = 0;
        for one in all().filter(|one| !["0", "[]"].contains(&one.default) && one.key != "min_free_mib") {
            let names = [one.name, one.name.strip_prefix("limits.").unwrap_or(one.name)];
            let names = names.map(|name| format!("`{name}`"));
            for part in parts().filter(|part| names.iter().any(|name| part.contains(name))) {
                let number: u64 = one.default.parse().unwrap();
                let spaced = match number / 1_000 {
                    0 => number.to_string(),
                    thousands => format!("{thousands} {:03}", number % 1_000),
                };
                let said = match one.key {
                    key if key.contains("mib") && number.is_multiple_of(1_024) => {
                        format!("{} GiB", number / 1_024)
                    }
                    key if key.contains("mib") => format!("{spaced} MiB"),
                    key if key.contains("kib") => format!("{spaced} KiB"),
                    _ => spaced,
                };
                assert!(part.contains(&said), "{} is {said}: {part}", one.name);
                found += 1;
            }
        }
        assert!(found > 10, "{found}");
    }
}

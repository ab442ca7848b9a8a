//! The adapters that come with G2, one entry each: nothing of a platform that a person is asked, or that has to be known before its
//! adapter runs, stands elsewhere. How addresses read is told by the adapter itself.

/// An adapter of G2's own.
struct Adapter {
    /// The platform's name, which is that of its first account.
    name: &'static str,
    /// What addresses begin with.
    prefix: &'static str,
    /// What an account is let in by, in the order in which a person is asked for it. Empty: by nothing that G2 keeps.
    tokens: &'static [&'static str],
    /// What a person pastes where the platform makes the app of an account.
    app_manifest: Option<&'static str>,
    /// Programs write there, and no people: a person who adds an account is told so before it has ever connected.
    programs: bool,
    /// It is linked to a person's phone once its adapter runs.
    linked: bool,
    /// What a person has to know before an account is theirs.
    warning: Option<&'static str>,
}

const fn adapter(name: &'static str, prefix: &'static str) -> Adapter {
    Adapter {
        name,
        prefix,
        tokens: &["Token"],
        app_manifest: None,
        programs: false,
        linked: false,
        warning: None,
    }
}

/// All of them.
const OWN: [Adapter; 8] = [
    adapter("discord", "dc"),
    Adapter { tokens: &["Password"], ..adapter("mail", "mail") },
    adapter("matrix", "mx"),
    // The login is signal-cli's.
    Adapter { tokens: &[], ..adapter("signal", "signal") },
    Adapter {
        tokens: &["App token (xapp-…)", "Bot token (xoxb-…)"],
        app_manifest: Some(include_str!("slack-app.json")),
        ..adapter("slack", "slack")
    },
    adapter("telegram", "tg"),
    Adapter { programs: true, ..adapter("webhook", "hook") },
    Adapter {
        tokens: &[],
        linked: true,
        warning: Some(
            "WhatsApp restricts and closes accounts of programs: take a number of its own, which nobody would miss. It answers only, and is slow for its first week",
        ),
        ..adapter("whatsapp", "whatsapp")
    },
];

/// The platforms that G2 has an adapter for.
pub const OWN_PLATFORMS: [&str; OWN.len()] = {
    let (mut names, mut n) = ([""; OWN.len()], 0);
    while n < OWN.len() {
        names[n] = OWN[n].name;
        n += 1;
    }
    names
};

/// Divides the name of an account into its platform's, and what tells it from others there: `.work`, or nothing.
fn parts(name: &str) -> (&str, &str) {
    name.split_at(name.find('.').unwrap_or(name.len()))
}

fn of(name: &str) -> Option<&'static Adapter> {
    OWN.iter().find(|adapter| adapter.name == parts(name).0)
}

/// Returns what the addresses of an account begin with, without the colon: `tg.work` for `telegram.work`, and the account's own name
/// where the platform has no adapter of G2's.
#[must_use]
pub fn prefix(name: &str) -> String {
    of(name).map_or_else(|| name.to_owned(), |adapter| format!("{}{}", adapter.prefix, parts(name).1))
}

/// Returns what an account is let in by, in the order in which a person is asked for it. Empty: by nothing that G2 keeps.
#[must_use]
pub fn tokens(name: &str) -> &'static [&'static str] {
    of(name).map_or(&["Token"], |adapter| adapter.tokens)
}

/// Returns what a person pastes where the platform makes the app of an account; `None`: nothing.
#[must_use]
pub fn app_manifest(name: &str) -> Option<&'static str> {
    of(name)?.app_manifest
}

/// Whether programs write to an account, as far as that is known before it has connected.
#[must_use]
pub fn is_of_programs(name: &str) -> bool {
    of(name).is_some_and(|adapter| adapter.programs)
}

/// Whether an account is linked to a person's phone once its adapter runs.
#[must_use]
pub fn is_linked(name: &str) -> bool {
    of(name).is_some_and(|adapter| adapter.linked)
}

/// Returns what a person has to know before an account is theirs; `None`: nothing.
#[must_use]
pub fn warning(name: &str) -> Option<&'static str> {
    of(name)?.warning
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_has_two_tokens_and_an_app_to_paste() {
        assert_eq!(
            (tokens("slack.work").len(), tokens("telegram"), tokens("irc"), app_manifest("discord")),
            (2, &["Token"][..], &["Token"][..], None)
        );
        assert!(warning("whatsapp").is_some() && warning("slack").is_none());
        assert!(tokens("signal.work").is_empty() && !is_linked("signal") && is_linked("whatsapp.work"));
        assert!(is_of_programs("webhook.x") && !is_of_programs("slack") && !is_of_programs("irc"));
        let app: serde_json::Value =
            serde_json::from_str(app_manifest("slack.work").unwrap_or_default()).unwrap();
        assert_eq!(app["settings"]["socket_mode_enabled"], true);
    }

    #[test]
    fn an_account_of_another_adapter_has_its_name_before_its_addresses() {
        for (name, expected) in [
            ("telegram", "tg"),
            ("telegram.work", "tg.work"),
            ("matrix", "mx"),
            ("irc.libera", "irc.libera"),
            ("whatsapp", "whatsapp"),
        ] {
            assert_eq!(prefix(name), expected);
        }
    }
}

//! How addresses read in other programs, whose chats may be of platforms that have no account here.

use std::sync::LazyLock;

use channel_protocol as protocol;

use crate::domain::platforms::addresses::{Addresses, Forms, Platform};

/// Name, prefix, endings of addresses without one, chats of one person, and the main thread.
type Known = (&'static str, &'static str, &'static [&'static str], &'static str, &'static str);

const KNOWN: [Known; 6] = [
    ("telegram", "tg", &[], "[0-9]+", "1"),
    ("discord", "dc", &[], "", ""),
    ("matrix", "mx", &[], "", ""),
    ("slack", "slack", &[], "D.*", ""),
    ("webhook", "hook", &[], ".*", ""),
    ("whatsapp", "whatsapp", &["@g.us", "@s.whatsapp.net"], r".*@s\.whatsapp\.net", ""),
];

/// Returns how addresses read in NanoClaw and in the G2 of before.
pub(super) fn known() -> &'static Addresses {
    static ALL: LazyLock<Addresses> = LazyLock::new(|| {
        let account = |(name, prefix, endings, direct, main_thread): Known| {
            let endings = endings.iter().map(|ending| (*ending).to_owned()).collect();
            let told = protocol::Addresses {
                endings,
                direct: direct.into(),
                main_thread: main_thread.into(),
                programs: false,
            };
            let forms = Forms::told(name, &told).expect("the forms above are well formed");
            Platform::new(name, prefix, forms)
        };
        KNOWN.map(account).to_vec().into()
    });
    &ALL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::platforms::chats::ChatKind;

    #[test]
    fn chats_of_other_programs_are_known_by_their_addresses() {
        for (jid, channel, kind) in [
            ("49170@s.whatsapp.net", "whatsapp", ChatKind::Direct),
            ("1203@g.us", "whatsapp", ChatKind::Group),
            ("tg:7", "telegram", ChatKind::Direct),
            ("slack:D1", "slack", ChatKind::Direct),
            ("dc:7", "discord", ChatKind::Group),
            ("teams:7", "teams", ChatKind::Group),
        ] {
            assert_eq!((known().channel_of(jid), known().kind_of(jid)), (channel, kind), "{jid}");
        }
        assert_eq!(known().user_id("1203@g.us", "49@s.whatsapp.net"), "whatsapp:49@s.whatsapp.net");
    }
}

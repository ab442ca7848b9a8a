//! Addresses of chats and ids of persons, as the daemon and as WhatsApp write them. Pure.

use whatsapp_rust::{Jid, wacore_binary::JidExt as _};

/// How the addresses of one account read. Those of the account `whatsapp` have no prefix; those of a second one begin with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    prefix: Option<String>,
}

/// Whether a chat is one in which people talk: no status, no channel, no broadcast.
pub(crate) fn is_chat(jid: &Jid) -> bool {
    jid.is_group() || jid.is_pn() || jid.is_lid()
}

/// Returns an address without a device, and that of a business at a provider as the person's that it stands for.
pub(crate) fn home(jid: &Jid) -> Jid {
    match jid.server {
        server if server.is_pn_family() => Jid::pn(jid.user_base()),
        server if server.is_lid_family() => Jid::lid(jid.user_base()),
        _ => jid.to_non_ad(),
    }
}

/// Returns a person's id: their address without a device.
pub(crate) fn person(jid: &Jid) -> String {
    jid.to_non_ad_string()
}

/// Returns an id as people read it where there is no name.
pub(crate) fn number(jid: &Jid) -> String {
    if jid.is_pn() { format!("+{}", jid.user_base()) } else { jid.user_base().to_owned() }
}

impl Places {
    /// Returns how the addresses of an account read.
    pub(crate) fn of(instance: &str, prefix: &str) -> Self {
        let plain = !instance.contains('.') && (prefix == "whatsapp" || prefix.is_empty());
        Self { prefix: (!plain).then(|| prefix.to_owned()) }
    }

    /// Returns the address of a chat.
    pub(crate) fn address(&self, chat: &Jid) -> String {
        let own = person(chat);
        match &self.prefix {
            Some(prefix) => format!("{prefix}:{own}"),
            None => own,
        }
    }

    /// Returns the chat that an address names.
    pub(crate) fn chat(&self, address: &str) -> Option<Jid> {
        let own = match &self.prefix {
            Some(prefix) => address.strip_prefix(&prefix[..])?.strip_prefix(':')?,
            None => address,
        };
        person_of(own).or_else(|| {
            let (id, server) = own.split_once('@')?;
            let known = id.bytes().all(|b| b.is_ascii_digit() || b == b'-');
            (server == "g.us" && known && fits(id)).then(|| Jid::group(id))
        })
    }
}

fn fits(id: &str) -> bool {
    !id.is_empty() && id.len() <= 64
}

/// Returns the person that an id names.
pub(crate) fn person_of(id: &str) -> Option<Jid> {
    let (user, server) = id.split_once('@')?;
    if !fits(user) || !user.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    match server {
        "s.whatsapp.net" => Some(Jid::pn(user)),
        "lid" => Some(Jid::lid(user)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_account_has_whatsapps_own_addresses_and_a_second_one_a_prefix() {
        let (first, second) =
            (Places::of("whatsapp", "whatsapp"), Places::of("whatsapp.work", "whatsapp.work"));
        for address in [
            "4917012345678@s.whatsapp.net",
            "123456789012345@lid",
            "120363000000000001@g.us",
            "49170-1600000000@g.us",
        ] {
            let jid = first.chat(address).unwrap();
            assert_eq!(first.address(&jid), address);
            assert!(is_chat(&jid));
            let other = format!("whatsapp.work:{address}");
            assert_eq!(second.address(&second.chat(&other).unwrap()), other);
            assert_eq!((second.chat(address), first.chat(&other)), (None, None));
        }
        for bad in [
            "",
            "@g.us",
            "x@g.us",
            "1@newsletter",
            "status@broadcast",
            "1:2@s.whatsapp.net",
            "tg:1",
            "1@g.us@g.us",
        ] {
            assert_eq!(first.chat(bad), None, "{bad}");
        }
        assert_eq!(first.chat(&format!("{}@g.us", "1".repeat(65))), None);
    }

    #[test]
    fn a_person_has_no_device_and_a_number_where_it_is_known() {
        let with_device = Jid::pn_device("4917012345678", 7);
        assert_eq!(
            (person(&with_device), number(&with_device)),
            ("4917012345678@s.whatsapp.net".into(), "+4917012345678".into())
        );
        assert_eq!(number(&Jid::lid("77")), "77");
        for (of, at) in [
            ("4917012345678:99@hosted", "4917012345678@s.whatsapp.net"),
            ("77:99@hosted.lid", "77@lid"),
            ("77:3@lid", "77@lid"),
            ("120363000000000001@g.us", "120363000000000001@g.us"),
        ] {
            assert_eq!(home(&of.parse().unwrap()).to_string(), at);
        }
        assert_eq!(person_of("4917012345678@s.whatsapp.net"), Some(Jid::pn("4917012345678")));
        assert_eq!((person_of("x@lid"), person_of("1@g.us")), (None, None));
    }
}

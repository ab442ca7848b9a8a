//! Addresses of mail, and who they are as a sender. Pure.

/// What stands before the address of a sender that nobody vouches for.
const UNPROVEN: &str = "unproven:";
/// The longest address, bytes.
const LONGEST: usize = 254;

/// Returns an address in small letters, if it is one that every server takes as it stands: no quotes, no comments, ASCII alone.
pub(super) fn fit(address: &str) -> Option<String> {
    let (local, domain) = address.rsplit_once('@')?;
    let is_local = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+/=?^_`{|}~.-".contains(&b);
    let dots = |text: &str| !text.is_empty() && text.split('.').all(|label| !label.is_empty());
    let is_domain = |b: u8| b.is_ascii_alphanumeric() || b"-.".contains(&b);
    let fits = address.len() <= LONGEST
        && local.len() <= 64
        && local.bytes().all(is_local)
        && dots(local)
        && domain.bytes().all(is_domain)
        && dots(domain)
        && !domain.starts_with('-');
    fits.then(|| address.to_ascii_lowercase())
}

/// Returns what stands behind the `@`.
pub(super) fn domain(address: &str) -> &str {
    address.rsplit_once('@').map_or("", |(_, domain)| domain)
}

/// Returns the id of a sender: the address alone only where somebody vouches for it.
pub(super) fn id(address: &str, proven: bool) -> String {
    if proven { address.to_owned() } else { format!("{UNPROVEN}{address}") }
}

/// Returns the address that an id of a person or a chat has.
pub(super) fn of_id(id: &str) -> Option<String> {
    fit(id.strip_prefix(UNPROVEN).unwrap_or(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_plain_or_none() {
        assert_eq!(fit("Ada.L+x@Example.ORG").as_deref(), Some("ada.l+x@example.org"));
        for bad in [
            "",
            "ada",
            "@x",
            "ada@",
            "\"a b\"@x.y",
            "a b@x.y",
            "a@x.y\n",
            "ä@x.y",
            "a@b@x.y",
            "a@.y",
            "a..b@x.y",
            "unproven:a@x.y",
            "a@x.y>",
            &format!("{}@x.y", "a".repeat(65)),
        ] {
            assert_eq!(fit(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_id_of_somebody_unproven_is_never_that_of_somebody_proven() {
        assert_eq!(id("a@b.c", true), "a@b.c");
        assert_eq!(of_id(&id("a@b.c", false)).as_deref(), Some("a@b.c"));
        assert_eq!(fit(&id("a@b.c", false)), None);
    }
}

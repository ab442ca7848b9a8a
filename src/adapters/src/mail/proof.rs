//! Who vouches for a sender. `From` alone proves nothing: anybody can write it. What counts is the word of a server that the owner
//! names, in its `Authentication-Results`. Pure.
//!
//! Headers are put on top of those that were there. So of the headers with the server's name only the topmost one can be the
//! server's own; a sender can write any number of them, and all of theirs lie below it. One that can't be read may be the server's: senders
//! have a hand in what it writes, and those below it are as little worth.

/// The longest header that is read, bytes.
const LONGEST: usize = 16 << 10;
/// How many results of one header are read.
const MOST: usize = 64;

/// Whether one of these servers vouches for the domain of a sender. `results`: the mail's `Authentication-Results`, from the top.
pub(super) fn vouched<'a>(results: impl Iterator<Item = &'a str>, servers: &[String], domain: &str) -> bool {
    for header in results {
        match results_of(header) {
            // It may be the server's own.
            None => return false,
            Some((server, found)) if servers.contains(&server) => {
                return found.iter().any(|one| one.vouches_for(domain));
            }
            Some(_) => {}
        }
    }
    false
}

/// Returns the name of the server at the top: the owner may want to name it. `None`: it can't be read.
pub(super) fn server_of(header: &str) -> Option<String> {
    results_of(header).map(|(server, _)| server)
}

/// Whether there are signatures, and all of them cover the headers of a name. Anybody can add a bad signature, but take none away.
pub(super) fn all_cover<S: AsRef<str>>(signatures: impl Iterator<Item = S>, name: &str) -> bool {
    let mut is_one = false;
    for signature in signatures {
        let tags = signature.as_ref().split(';').filter_map(|tag| tag.split_once('='));
        let mut covered = tags.filter(|(tag, _)| tag.trim() == "h").map(|(_, names)| names);
        let (Some(names), None) = (covered.next(), covered.next()) else { return false };
        if !names.split(':').any(|one| one.trim().eq_ignore_ascii_case(name)) {
            return false;
        }
        is_one = true;
    }
    is_one
}

/// One result of a header: `dkim=pass header.d=example.org`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    method: String,
    result: String,
    /// `header.d`, `header.from` and the like, in small letters.
    properties: Vec<(String, String)>,
}

impl Found {
    /// DMARC that passed for the very domain, or a signature of the domain or of one above it.
    fn vouches_for(&self, domain: &str) -> bool {
        if self.result != "pass" || domain.is_empty() {
            return false;
        }
        let property = |name: &str| {
            let mut named = self.properties.iter().filter(|(of, _)| of == name);
            // Two values of one name: nobody knows which one passed.
            named.next().filter(|_| named.next().is_none()).map(|(_, value)| &value[..])
        };
        match &self.method[..] {
            "dmarc" => property("header.from").is_some_and(|from| of(from) == domain),
            "dkim" => {
                let signer = property("header.d").or_else(|| property("header.i")).map(of);
                signer.is_some_and(|signer| is_or_lies_below(domain, signer))
            }
            _ => false,
        }
    }
}

/// Returns the domain of `@example.org`, of `a@example.org` and of `example.org`.
fn of(value: &str) -> &str {
    value.rsplit_once('@').map_or(value, |(_, domain)| domain)
}

/// Whether a domain is another one, or lies below it. One without a dot is a registry's.
fn is_or_lies_below(domain: &str, above: &str) -> bool {
    domain == above
        || (above.contains('.') && domain.strip_suffix(above).is_some_and(|rest| rest.ends_with('.')))
}

/// Reads a header: the server's name, and its results.
fn results_of(header: &str) -> Option<(String, Vec<Found>)> {
    if header.len() > LONGEST {
        return None;
    }
    let parts = parts(header)?;
    let mut parts = parts.iter();
    // The name, and perhaps a version.
    let server = parts.next()?.first()?.to_ascii_lowercase();
    let results = parts.take(MOST).filter_map(|words| found(words)).collect();
    Some((server, results))
}

fn found(words: &[String]) -> Option<Found> {
    let mut pairs = words.iter().filter_map(|word| word.split_once('='));
    let (method, result) = pairs.next()?;
    // `dkim/1` is the first version of it.
    let method = method.split('/').next().unwrap_or_default().to_ascii_lowercase();
    let properties =
        pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.to_ascii_lowercase())).collect();
    Some(Found { method, result: result.to_ascii_lowercase(), properties })
}

/// Divides a header at its semicolons into words, without comments; quoted words stay one. `None`: a comment or a quote has no end.
fn parts(header: &str) -> Option<Vec<Vec<String>>> {
    let (mut parts, mut words, mut word) = (Vec::new(), Vec::new(), String::new());
    let (mut depth, mut quoted, mut escaped) = (0_u32, false, false);
    // A space may stand on both sides of `=`.
    let mut glue = false;
    for c in header.chars() {
        if escaped {
            escaped = false;
            if depth == 0 {
                word.push(c);
            }
            continue;
        }
        match c {
            '\\' if quoted || depth > 0 => escaped = true,
            '"' if depth == 0 => quoted = !quoted,
            _ if quoted => word.push(c),
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            _ if depth > 0 => {}
            ';' => {
                words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
                parts.push(std::mem::take(&mut words));
            }
            '=' => {
                if word.is_empty()
                    && let Some(before) = words.pop()
                {
                    word = before;
                }
                word.push('=');
                glue = true;
                continue;
            }
            c if c.is_whitespace() => {
                if !glue && !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                continue;
            }
            c => word.push(c),
        }
        glue = false;
    }
    if depth > 0 || quoted || escaped {
        return None;
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    parts.push(words);
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vouches(headers: &[&str], domain: &str) -> bool {
        vouched(headers.iter().copied(), &["mx.us.example".to_owned()], domain)
    }

    #[test]
    fn the_named_servers_word_about_the_very_domain_counts() {
        for good in [
            "mx.us.example; dkim=pass header.d=example.org header.s=x",
            "MX.us.example 1; spf=fail; dkim = pass (2048 bits; \"x\") header.d = Example.ORG",
            " mx.us.example;\r\n\tdkim=pass header.i=@example.org header.s=s;\r\n\tspf=pass smtp.mailfrom=a@b.c",
            "mx.us.example; dmarc=pass (p=NONE sp=NONE dis=NONE) header.from=example.org",
            "mx.us.example; dkim=fail header.d=example.org; dkim=pass header.d=example.org",
            "mx.us.example; dkim/1=pass header.d=\"example.org\"",
        ] {
            assert!(vouches(&[good], "example.org"), "{good}");
        }
        assert!(vouches(&["mx.us.example; dkim=pass header.d=example.org"], "sales.example.org"));
        for bad in [
            "",
            "mx.us.example",
            "mx.us.example; none",
            "mx.us.example; dkim=fail header.d=example.org",
            "mx.us.example; dkim=pass header.d=evil.example",
            "mx.us.example; dkim=pass header.d=org",
            "mx.us.example; dkim=pass header.d=notexample.org",
            "mx.us.example; dkim=pass header.d=sub.example.org",
            // The address before the return path is anybody's.
            "mx.us.example; spf=pass smtp.mailfrom=ada@example.org",
            "mx.us.example; dmarc=pass header.from=evil.example",
            "mx.us.example; dmarc=pass",
            // Words in comments and quotes are no results.
            "mx.us.example; dkim=fail (; dkim=pass header.d=example.org) header.d=example.org",
            "mx.us.example; dkim=fail reason=\"; dkim=pass header.d=example.org\"",
            "mx.us.example; dkim=pass header.d=evil.example header.d=example.org",
            "mx.us.example; dkim=pass (header.d=example.org",
            "evil.example; dkim=pass header.d=example.org",
            "(mx.us.example) evil.example; dkim=pass header.d=example.org",
        ] {
            assert!(!vouches(&[bad], "example.org"), "{bad}");
        }
    }

    #[test]
    fn all_signatures_cover_a_header_or_it_counts_for_nothing() {
        let with = "v=1; d=example.org; h=From : To:\r\n\tCC:Date; b=x=";
        let without = "v=1; d=example.org; h=from:to; b=cc:";
        for (signatures, covered) in [
            (&[with][..], true),
            (&[with, with], true),
            (&[], false),
            (&[without], false),
            (&[with, without], false),
            (&["v=1; h=cc; h=from"], false),
            (&["", with], false),
        ] {
            assert_eq!(all_cover(signatures.iter(), "cc"), covered, "{signatures:?}");
        }
    }

    #[test]
    fn a_header_of_the_servers_name_below_the_topmost_one_is_the_senders() {
        let own = "mx.us.example; dkim=none";
        let forged = "mx.us.example; dkim=pass header.d=example.org";
        assert!(!vouches(&[own, forged], "example.org"));
        assert!(vouches(&["other.example; dkim=none", forged], "example.org"), "another server says nothing");
        assert!(!vouched([forged].into_iter(), &[], "example.org"), "nobody is named");
        for unread in [
            "mx.us.example; spf=pass (domain of \"(\"@evil.example designates x) smtp.mailfrom=x",
            "mx.us.example; dkim=none reason=\"x",
            &format!("mx.us.example; {}", "dkim=fail header.i=@evil.example; ".repeat(520)),
            "",
        ] {
            assert!(!vouches(&[unread, forged], "example.org"), "{unread}");
        }
        let long = format!("mx.us.example; {}dkim=pass header.d=example.org", "x=y; ".repeat(9000));
        assert!(!vouches(&[&long], "example.org"));
        assert!(!vouches(
            &[&format!("mx.us.example; {}dkim=pass header.d=example.org", "x=y; ".repeat(70))],
            "example.org"
        ));
        assert_eq!(server_of(own).as_deref(), Some("mx.us.example"));
        assert_eq!(server_of("mx.us.example; (x"), None);
    }
}

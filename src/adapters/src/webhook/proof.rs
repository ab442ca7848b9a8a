//! Whether a request comes from somebody who has the account's secret, and which one it is. Pure.
//!
//! | the sender has | proof | the same again is known by |
//! |---|---|---|
//! | [Standard Webhooks](https://www.standardwebhooks.com) | `webhook-signature` over id, time and body; the time is at most five minutes off | `webhook-id` |
//! | GitHub and its kin | `x-hub-signature-256` over the body, which is JSON | the signature: nothing else of such a request is signed |
//! | others | the secret itself: `authorization` (a bearer, or a password), `x-gitlab-token`, or the end of the address | `idempotency-key`, or an id of the sender's |
//!
//! One key signs both forms, so a body of the second must be none that the first signs: those begin with an id and a time, and are no
//! JSON. Our answers have ids that no request may have ([`OURS`]), so nobody hands them back to us.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::de::IgnoredAny;
use sha2::{Digest as _, Sha256};

/// How far the time of a signed request may be off, s.
pub(super) const WINDOW_S: i64 = 300;
/// What a secret in the form of Standard Webhooks begins with; the rest is its bytes in base64.
const ENCODED: &str = "whsec_";
/// What the ids of our answers begin with.
pub(super) const OURS: &str = "g2-";
/// What stands before an id of a sender's.
pub(super) const THEIRS: &str = "i-";
/// The longest id that is kept as it came, bytes.
const LONGEST_ID: usize = 128;
/// Where senders of others put the id of what they tell, in the order in which it is looked for.
const IDS: [&str; 4] = ["idempotency-key", "webhook-id", "x-github-delivery", "x-gitlab-event-uuid"];

/// A secret, as it signs.
#[derive(Clone)]
pub(super) struct Secret {
    /// As it is typed.
    word: String,
    key: Vec<u8>,
}

/// Why a request is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Doubt {
    #[error(
        "no proof of the secret: send `authorization: Bearer SECRET`, or sign the body (`webhook-signature`, `x-hub-signature-256`)"
    )]
    None,
    #[error("the secret is another one")]
    Secret,
    #[error("{0} is no signature of this request")]
    Signature(&'static str),
    #[error("a request in GitHub's form of signature has a body of JSON (content type application/json)")]
    NoJson,
    #[error("it is an answer of G2's own")]
    Ours,
    #[error("{0} is missing, or is no such value")]
    Header(&'static str),
    #[error(
        "webhook-timestamp is {0} s off; at most {WINDOW_S} s are taken, so set the sender's clock, or sign anew for each try"
    )]
    Time(i64),
}

impl Secret {
    pub(super) fn new(word: &str) -> Result<Self, String> {
        let key = match word.strip_prefix(ENCODED) {
            Some(encoded) => STANDARD
                .decode(encoded)
                .map_err(|_| format!("a secret that begins with {ENCODED} goes on in base64"))?,
            None => word.as_bytes().to_vec(),
        };
        if key.len() < 16 {
            return Err("the secret is shorter than 16 bytes, so it could be guessed".into());
        }
        Ok(Self { word: word.to_owned(), key })
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        keyed(&self.key, parts)
    }

    /// Whether a word is the secret, in a time that tells nothing of it.
    fn is(&self, word: &str) -> bool {
        let both = [word, &self.word].map(|word| keyed(&self.key, &[word.as_bytes()]));
        let [given, own] = both;
        given.verify_slice(&own.finalize().into_bytes()).is_ok()
    }

    /// Signs as Standard Webhooks want it.
    pub(super) fn signed(&self, id: &str, at_s: i64, body: &[u8]) -> String {
        let signature = self.mac(&[format!("{id}.{at_s}.").as_bytes(), body]).finalize().into_bytes();
        format!("v1,{}", STANDARD.encode(signature))
    }
}

fn keyed(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    // A key of any length fits.
    let mut mac = Hmac::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&Default::default()));
    parts.iter().for_each(|part| mac.update(part));
    mac
}

/// Checks a request. Returns the id by which the same one is known when it comes again; `None`: its sender names none.
///
/// # Errors
/// [`Doubt`].
pub(super) fn check(
    secret: &Secret,
    in_address: Option<&str>,
    headers: &BTreeMap<String, String>,
    body: &[u8],
    now_s: i64,
) -> Result<Option<String>, Doubt> {
    let header = |name: &str| headers.get(name).map(|value| value.trim());
    // A signature that is there has to be right, whatever stands beside it.
    if let Some(signatures) = header("webhook-signature") {
        let id = header("webhook-id").filter(|id| !id.is_empty()).ok_or(Doubt::Header("webhook-id"))?;
        let stamp = header("webhook-timestamp").ok_or(Doubt::Header("webhook-timestamp"))?;
        let at: i64 = stamp.parse().map_err(|_| Doubt::Header("webhook-timestamp"))?;
        let fits = |signature: &str| {
            let signature = signature.strip_prefix("v1,").and_then(|encoded| STANDARD.decode(encoded).ok());
            let mac = secret.mac(&[format!("{id}.{stamp}.").as_bytes(), body]);
            signature.is_some_and(|signature| mac.verify_slice(&signature).is_ok())
        };
        if id.starts_with(OURS) {
            return Err(Doubt::Ours);
        }
        // At most four secrets are in use while one takes the place of another.
        if !signatures.split(' ').take(4).any(fits) {
            return Err(Doubt::Signature("webhook-signature"));
        }
        let off = now_s.saturating_sub(at);
        return if off.saturating_abs() <= WINDOW_S { Ok(Some(kept(id))) } else { Err(Doubt::Time(off)) };
    }
    if let Some(signature) = header("x-hub-signature-256") {
        let bytes = signature.strip_prefix("sha256=").and_then(unhex);
        // The sender has the secret as it is typed.
        let mac = keyed(secret.word.as_bytes(), &[body]);
        return match bytes {
            Some(bytes) if mac.verify_slice(&bytes).is_ok() => {
                let is_json = serde_json::from_slice::<IgnoredAny>(body).is_ok();
                if is_json { Ok(Some(hex(&Sha256::digest(&bytes)))) } else { Err(Doubt::NoJson) }
            }
            Some(_) | None => Err(Doubt::Signature("x-hub-signature-256")),
        };
    }
    let told = header("authorization").map(password).or(header("x-gitlab-token").map(str::to_owned));
    match told.or(in_address.map(str::to_owned)) {
        None => Err(Doubt::None),
        Some(word) if secret.is(&word) => {
            let id = IDS.iter().find_map(|name| header(name)).filter(|id| !id.is_empty());
            if id.is_some_and(|id| id.starts_with(OURS)) { Err(Doubt::Ours) } else { Ok(id.map(kept)) }
        }
        Some(_) => Err(Doubt::Secret),
    }
}

/// Returns the secret in a header: a bearer's, or the password beside any name.
fn password(value: &str) -> String {
    let (scheme, rest) = value.split_once(' ').unwrap_or(("", value));
    if !scheme.eq_ignore_ascii_case("basic") {
        return rest.trim().to_owned();
    }
    let both = STANDARD.decode(rest.trim()).ok().and_then(|both| String::from_utf8(both).ok());
    both.and_then(|both| both.split_once(':').map(|(_, password)| password.to_owned())).unwrap_or_default()
}

/// Returns an id as it can be kept.
fn kept(id: &str) -> String {
    let plain = id.len() <= LONGEST_ID && id.bytes().all(|b| b.is_ascii_graphic());
    if plain { format!("{THEIRS}{id}") } else { hex(&Sha256::digest(id)) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len() == 64)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: &str = "It's a Secret to Everybody";

    fn of(headers: &[(&str, &str)], body: &str, now_s: i64) -> Result<Option<String>, Doubt> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        check(&Secret::new(WORD).unwrap(), None, &headers, body.as_bytes(), now_s)
    }

    #[test]
    fn a_body_that_github_signed_is_believed_and_known_again_by_its_signature() {
        // GitHub's own example of a signature, which is over words.
        let example = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert_eq!(of(&[("x-hub-signature-256", example)], "Hello, World!", 0), Err(Doubt::NoJson));
        let signature = format!("sha256={}", hex(&keyed(WORD.as_bytes(), &[b"{}"]).finalize().into_bytes()));
        let signature = signature.as_str();
        let first = of(&[("x-hub-signature-256", signature), ("x-github-delivery", "1")], "{}", 0);
        let again = of(&[("x-hub-signature-256", signature), ("x-github-delivery", "2")], "{}", 0);
        assert!(matches!(&first, Ok(Some(_))) && first == again, "the number of a delivery is not signed");
        for (signature, body) in [
            (signature, "[]"),
            (&signature[..signature.len() - 1], "{}"),
            ("sha256=", "{}"),
            ("", "{}"),
            (&signature[7..], "{}"),
        ] {
            // The secret beside it does not mend a wrong signature.
            let headers = [("x-hub-signature-256", signature), ("authorization", WORD)];
            assert_eq!(of(&headers, body, 0), Err(Doubt::Signature("x-hub-signature-256")), "{signature}");
        }
    }

    #[test]
    fn a_signed_time_is_at_most_five_minutes_off() {
        let secret = Secret::new(WORD).unwrap();
        let signed = secret.signed("msg_1", 1000, b"{}");
        let with = |stamp: &str, signature: &str, body: &str, now| {
            of(
                &[("webhook-id", "msg_1"), ("webhook-timestamp", stamp), ("webhook-signature", signature)],
                body,
                now,
            )
        };
        assert_eq!(with("1000", &signed, "{}", 1300), Ok(Some("i-msg_1".into())));
        assert_eq!(with("1000", &format!("v1a,xx {signed}"), "{}", 700), Ok(Some("i-msg_1".into())));
        assert_eq!(with("1000", &signed, "{}", 1301), Err(Doubt::Time(301)));
        assert_eq!(with("1000", &signed, "{}", 699), Err(Doubt::Time(-301)));
        assert_eq!(with("1001", &signed, "{}", 1000), Err(Doubt::Signature("webhook-signature")));
        assert_eq!(with("1000", &signed, "{ }", 1000), Err(Doubt::Signature("webhook-signature")));
        let own = secret.signed("g2-1", 1, b"{}");
        let own = [("webhook-id", "g2-1"), ("webhook-timestamp", "1"), ("webhook-signature", &own[..])];
        assert_eq!(of(&own, "{}", 1), Err(Doubt::Ours));
        // The same signature in the other form: its body would begin with the id and the time.
        let other = format!("sha256={}", hex(&STANDARD.decode(&signed[3..]).unwrap()));
        assert_eq!(of(&[("x-hub-signature-256", &other)], "msg_1.1000.{}", 9), Err(Doubt::NoJson));
        assert_eq!(with("soon", &signed, "{}", 1000), Err(Doubt::Header("webhook-timestamp")));
        assert_eq!(
            with(&i64::MIN.to_string(), &secret.signed("msg_1", i64::MIN, b"{}"), "{}", 1000),
            Err(Doubt::Time(i64::MAX))
        );
    }

    #[test]
    fn the_published_vector_of_standard_webhooks_is_signed_as_they_do() {
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        assert_eq!(
            secret.signed("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
        // GitHub has the same secret as it is typed.
        let typed = hex(&keyed(secret.word.as_bytes(), &[b"{}"]).finalize().into_bytes());
        let headers = BTreeMap::from([("x-hub-signature-256".to_owned(), format!("sha256={typed}"))]);
        assert!(check(&secret, None, &headers, b"{}", 0).is_ok());
        assert!(Secret::new("whsec_?").is_err() && Secret::new("short").is_err());
    }

    #[test]
    fn the_secret_itself_is_taken_as_a_bearer_a_password_a_token_of_gitlab_and_in_the_address() {
        let basic = format!("Basic {}", STANDARD.encode(format!("grafana:{WORD}")));
        let bearer = format!("Bearer {WORD}");
        for header in [("authorization", &bearer[..]), ("authorization", &basic), ("x-gitlab-token", WORD)] {
            assert_eq!(of(&[header], "x", 0), Ok(None), "{header:?}");
            assert_eq!(
                of(&[header, ("idempotency-key", "a b")], "x", 0),
                Ok(Some(hex(&Sha256::digest("a b")))),
                "{header:?}"
            );
        }
        let secret = Secret::new(WORD).unwrap();
        let none = BTreeMap::new();
        assert_eq!(check(&secret, Some(WORD), &none, b"x", 0), Ok(None));
        assert_eq!(check(&secret, Some("y"), &none, b"x", 0), Err(Doubt::Secret));
        assert_eq!(of(&[], "x", 0), Err(Doubt::None));
        for wrong in ["Bearer", "Bearer x", "Basic", "Basic ???", "Basic eA==", ""] {
            assert_eq!(of(&[("authorization", wrong)], "x", 0), Err(Doubt::Secret), "{wrong}");
        }
    }
}

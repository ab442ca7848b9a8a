//! The real key, read where it is kept, when it is needed. It is in no settings, no environment and no log.
#![expect(clippy::disallowed_methods, reason = "reads the host's own secrets, which no container can write")]

use std::{
    fmt, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use hyper::{
    HeaderMap,
    header::{AUTHORIZATION, HeaderName, HeaderValue},
};
use ipc_handlers::Time;
use serde::Deserialize;

use super::sought::Sought;
use crate::config::dotenv;
use crate::system::locked::Locked as _;

/// The longest file of secrets that is read, bytes.
const LONGEST: u64 = 1 << 20;
/// The longest key, bytes.
pub(super) const LONGEST_KEY: usize = 4096;
/// How many keys that were read are looked for in answers: a host may echo one that it was sent before.
const REMEMBERED: usize = 4;

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// How a key is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialKind {
    /// A key of the console, as `x-api-key`.
    ApiKey,
    /// The token of a login, as a bearer's. Its agent says in `anthropic-beta` that it is one.
    Login,
    /// Any other token, as a bearer's.
    Bearer,
}

impl CredentialKind {
    /// Returns the variable by which an agent is given a key of this kind.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Self::ApiKey => "ANTHROPIC_API_KEY",
            Self::Login => "CLAUDE_CODE_OAUTH_TOKEN",
            Self::Bearer => "ANTHROPIC_AUTH_TOKEN",
        }
    }
}

/// A key and how it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    pub kind: CredentialKind,
    secret: Secret,
    /// When it ends, if that is known.
    expires: Option<Time>,
}

impl Credential {
    /// Reads a key or token that somebody typed.
    ///
    /// # Errors
    /// Why it can be none, in words that do not repeat it.
    pub fn of_word(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.starts_with('{') || text.chars().any(|c| !c.is_ascii_graphic()) {
            return Err("a key is one word of ASCII characters");
        }
        if text.len() > LONGEST_KEY {
            return Err("a key has at most 4096 characters");
        }
        of_token_file(text)?.ok_or("the key is empty")
    }

    /// Puts the key into a request's headers.
    pub(super) fn sign(&self, headers: &mut HeaderMap) {
        let Secret(key) = &self.secret;
        let (name, value) = match self.kind {
            CredentialKind::ApiKey => (HeaderName::from_static("x-api-key"), key.clone()),
            CredentialKind::Login | CredentialKind::Bearer => (AUTHORIZATION, format!("Bearer {key}")),
        };
        // Checked when it was read.
        if let Ok(mut value) = HeaderValue::from_str(&value) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error(
        "no key is set; put ANTHROPIC_API_KEY=… (or CLAUDE_CODE_OAUTH_TOKEN=…) into {0}, or set gateway.token_file in g2.toml"
    )]
    None(PathBuf),
    #[error("{path} can't be read: {why}")]
    Read { path: PathBuf, why: std::io::Error },
    #[error("{path} holds no key: {why}")]
    Unusable { path: PathBuf, why: &'static str },
    #[error("the token in {path} has ended at {at}; log in anew, and it is taken at once")]
    Ended { path: PathBuf, at: Time },
}

/// Where the key is kept.
pub struct Credentials {
    /// v1's file of secrets.
    dotenv: PathBuf,
    /// The file that is used instead, when one is set.
    token_file: Option<PathBuf>,
    known: Mutex<Known>,
}

/// What was read of keys so far.
#[derive(Default)]
struct Known {
    /// What was read last, and from which state of the file.
    now: Option<(Stamp, Credential)>,
    /// The newest keys, oldest first.
    keys: Vec<Secret>,
    sought: Option<Arc<Sought>>,
}

impl Known {
    fn learn(&mut self, stamp: Stamp, credential: &Credential) {
        self.now = Some((stamp, credential.clone()));
        if self.keys.last() != Some(&credential.secret) {
            self.keys.retain(|key| *key != credential.secret);
            self.keys.push(credential.secret.clone());
            let more = self.keys.len().saturating_sub(REMEMBERED);
            self.keys.drain(..more);
            self.sought = Some(Arc::new(Sought::new(self.keys.iter().map(|Secret(key)| key.as_str()))));
        }
    }
}

/// Tells a file from what it was before.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

impl Credentials {
    /// The credentials of a root; nothing is read yet.
    #[must_use]
    pub fn new(dotenv: PathBuf, token_file: Option<PathBuf>) -> Self {
        Self { dotenv, token_file, known: Mutex::default() }
    }

    /// Returns the key as it is now; files are read again only when they have changed.
    ///
    /// # Errors
    /// [`CredentialError`] with the fix.
    pub fn current(&self, now: Time) -> Result<Credential, CredentialError> {
        let path = self.token_file.as_deref().unwrap_or(&self.dotenv);
        let stamp = match (stamp(path), &self.token_file) {
            (Ok(stamp), _) => stamp,
            (Err(error), None) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(CredentialError::None(path.to_owned()));
            }
            (Err(why), _) => return Err(CredentialError::Read { path: path.to_owned(), why }),
        };
        let known = self.known().now.clone().filter(|(of, _)| *of == stamp);
        let credential = match known {
            Some((_, credential)) => credential,
            None => {
                let credential = self.read(path)?;
                self.known().learn(stamp, &credential);
                credential
            }
        };
        match credential.expires {
            Some(at) if at <= now => Err(CredentialError::Ended { path: path.to_owned(), at }),
            Some(_) | None => Ok(credential),
        }
    }

    /// Returns what answers must not hold: the keys that were read so far.
    pub(super) fn sought(&self) -> Arc<Sought> {
        let mut known = self.known();
        Arc::clone(known.sought.get_or_insert_with(|| Arc::new(Sought::new([]))))
    }

    fn read(&self, path: &Path) -> Result<Credential, CredentialError> {
        let failed = |why| CredentialError::Read { path: path.to_owned(), why };
        if fs::metadata(path).map_err(failed)?.len() > LONGEST {
            return Err(CredentialError::Unusable { path: path.to_owned(), why: "it is too long" });
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        let found = if self.token_file.is_some() { of_token_file(&text) } else { Ok(of_dotenv(&text)) };
        let found = found.map_err(|why| CredentialError::Unusable { path: path.to_owned(), why })?;
        let credential = found.ok_or_else(|| CredentialError::None(path.to_owned()))?;
        let Secret(key) = &credential.secret;
        let is_word = (1..=LONGEST_KEY).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
        if !is_word {
            let why = "a key is one word of letters, digits and signs, at most 4096 of them";
            return Err(CredentialError::Unusable { path: path.to_owned(), why });
        }
        Ok(credential)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.locked()
    }
}

fn stamp(path: &Path) -> std::io::Result<Stamp> {
    let meta = fs::metadata(path)?;
    let (modified, changed) = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
    Ok((meta.dev(), meta.ino(), meta.len(), modified.0, modified.1, changed.0, changed.1))
}

/// v1's order: a key before tokens.
fn of_dotenv(text: &str) -> Option<Credential> {
    [CredentialKind::ApiKey, CredentialKind::Login, CredentialKind::Bearer].into_iter().find_map(|kind| {
        let secret = Secret(dotenv::value(text, kind.variable())?);
        Some(Credential { kind, secret, expires: None })
    })
}

/// The file in which Claude Code keeps what it was given at login.
#[derive(Deserialize)]
struct Login {
    #[serde(rename = "claudeAiOauth")]
    oauth: Oauth,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Oauth {
    access_token: String,
    /// Milliseconds since 1970.
    expires_at: Option<i64>,
}

/// A plain token, or the file of a login.
fn of_token_file(text: &str) -> Result<Option<Credential>, &'static str> {
    let text = text.trim();
    if text.starts_with('{') {
        let login: Login = serde_json::from_str(text)
            .map_err(|_| "it is no plain token, and no JSON with claudeAiOauth.accessToken")?;
        let secret = Secret(login.oauth.access_token.trim().to_owned());
        return Ok(Some(Credential {
            kind: CredentialKind::Login,
            secret,
            expires: login.oauth.expires_at.map(Time),
        }));
    }
    let kind = match text {
        key if key.starts_with("sk-ant-api") => CredentialKind::ApiKey,
        token if token.starts_with("sk-ant-oat") => CredentialKind::Login,
        _ => CredentialKind::Bearer,
    };
    Ok((!text.is_empty()).then(|| Credential { kind, secret: Secret(text.to_owned()), expires: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(credential: &Credential) -> (&str, CredentialKind) {
        (&credential.secret.0, credential.kind)
    }

    #[test]
    fn a_secret_shows_nothing() {
        let credential = of_dotenv("ANTHROPIC_API_KEY=sk-ant-api-xyz").unwrap();
        let mut headers = HeaderMap::new();
        credential.sign(&mut headers);
        for shown in [format!("{credential:?}"), format!("{credential:#?}"), format!("{headers:?}")] {
            assert!(!shown.contains("xyz"), "{shown}");
        }
    }

    #[test]
    fn of_several_keys_v1s_first_is_taken() {
        let all = "ANTHROPIC_AUTH_TOKEN=c\nCLAUDE_CODE_OAUTH_TOKEN='b'\nANTHROPIC_API_KEY=\"a\"\n";
        assert_eq!(key(&of_dotenv(all).unwrap()), ("a", CredentialKind::ApiKey));
        let tokens = all.replace("ANTHROPIC_API_KEY=\"a\"", "ANTHROPIC_API_KEY=");
        assert_eq!(key(&of_dotenv(&tokens).unwrap()), ("b", CredentialKind::Login));
        assert!(of_dotenv("TZ=UTC\n").is_none());
    }

    #[test]
    fn a_token_file_is_a_token_a_key_or_a_login() {
        for (text, expected) in [
            ("sk-ant-oat01-x\n", ("sk-ant-oat01-x", CredentialKind::Login)),
            ("of-a-proxy", ("of-a-proxy", CredentialKind::Bearer)),
            ("sk-ant-api03-x", ("sk-ant-api03-x", CredentialKind::ApiKey)),
            (
                r#"{"claudeAiOauth":{"accessToken":"t","refreshToken":"r","expiresAt":1}}"#,
                ("t", CredentialKind::Login),
            ),
        ] {
            assert_eq!(key(&of_token_file(text).unwrap().unwrap()), expected);
        }
        assert!(of_token_file("{\"other\":1}").is_err());
        assert!(of_token_file("  \n").unwrap().is_none());
    }

    #[test]
    fn a_key_that_somebody_types_is_one_word() {
        let kind = |text| Credential::of_word(text).map(|credential| credential.kind);
        assert_eq!(kind(" sk-ant-api03-x\n"), Ok(CredentialKind::ApiKey));
        assert_eq!(kind("sk-ant-oat01-x"), Ok(CredentialKind::Login));
        assert_eq!(kind("of-a-proxy"), Ok(CredentialKind::Bearer));
        for none in ["", " ", "two words", "kéy", "{\"a\":1}"] {
            assert!(kind(none).is_err(), "{none:?}");
        }
        assert!(kind(&"x".repeat(LONGEST_KEY + 1)).is_err());
    }

    #[test]
    fn a_replaced_file_is_read_again_and_an_ended_token_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let (credentials, now) = (Credentials::new(dir.path().join(".env"), Some(path.clone())), Time(2000));
        assert!(matches!(credentials.current(now), Err(CredentialError::Read { .. })));
        fs::write(&path, "one").unwrap();
        assert_eq!(key(&credentials.current(now).unwrap()).0, "one");
        fs::write(dir.path().join("new"), "two").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        assert_eq!(key(&credentials.current(now).unwrap()).0, "two");
        fs::write(&path, r#"{"claudeAiOauth":{"accessToken":"three","expiresAt":1000}}"#).unwrap();
        let error = credentials.current(now).unwrap_err().to_string();
        assert!(error.contains("1970-01-01T00:00:01.000Z") && !error.contains("three"), "{error}");
        fs::write(&path, "two words").unwrap();
        let error = credentials.current(now).unwrap_err().to_string();
        assert!(error.contains("one word") && !error.contains("two words"), "{error}");
    }

    #[test]
    fn without_a_key_it_is_said_where_to_put_one() {
        let dir = tempfile::tempdir().unwrap();
        let (credentials, now) = (Credentials::new(dir.path().join(".env"), None), Time(0));
        let error = credentials.current(now).unwrap_err().to_string();
        assert!(error.contains("ANTHROPIC_API_KEY") && error.contains(".env"), "{error}");
    }
}

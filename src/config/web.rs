//! `[web]`: which settings of the operator's page fit together.

use super::{ConfigError, Web};

impl Web {
    /// Returns the settings, if they fit together.
    pub(super) fn checked(self) -> Result<Self, ConfigError> {
        let bad = |name, value: &str, why| Err(ConfigError::Value { name, value: value.to_owned(), why });
        if let Some(listen) = self.listen.filter(|at| !at.ip().is_loopback() && !self.behind_proxy) {
            let why = "use 127.0.0.1, or a proxy with TLS and behind_proxy = true: docs/page.md";
            return bad("web.listen", &listen.to_string(), why);
        }
        match (&self.host, self.behind_proxy) {
            (None, true) => bad("web.host", "", "behind a proxy, say the name that browsers know it by"),
            (Some(host), false) => {
                bad("web.host", host, "a page without a proxy has a name of its own; behind_proxy = true")
            }
            (Some(host), true) if !is_name(host) => {
                bad("web.host", host, "use a name alone, such as g2.example.org or g2.example.org:8443")
            }
            (Some(_), true) | (None, false) => Ok(self),
        }
    }
}

/// Whether it is the name of a host, with a port or without.
fn is_name(host: &str) -> bool {
    host.len() <= 255 && host.chars().all(|c| c.is_ascii_alphanumeric() || "-.:".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(listen: &str, behind_proxy: bool, host: &str) -> Result<Web, String> {
        let text = format!("listen = {listen:?}\nbehind_proxy = {behind_proxy}\nhost = {host:?}\n");
        let web: Web = toml::from_str(&text).map_err(|error| error.to_string())?;
        web.checked().map_err(|error| error.to_string())
    }

    #[test]
    fn it_is_off_or_on_this_machine_unless_a_proxy_stands_before_it() {
        assert!(read("", false, "").unwrap().listen.is_none());
        for good in ["127.0.0.1:4747", "[::1]:4747"] {
            assert!(read(good, false, "").is_ok(), "{good}");
        }
        assert!(read("0.0.0.0:80", true, "g2.example.org").is_ok());
        for (listen, behind_proxy, host, part) in [
            ("0.0.0.0:4747", false, "", "web.listen"),
            ("192.168.0.2:4747", false, "", "behind_proxy"),
            ("localhost:4747", false, "", "127.0.0.1:4747"),
            ("127.0.0.1:4747", true, "", "web.host"),
            ("127.0.0.1:4747", false, "g2.example.org", "web.host"),
            ("127.0.0.1:4747", true, "https://g2.example.org", "a name alone"),
        ] {
            let error = read(listen, behind_proxy, host).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}

//! The proxy by which hosts outside are reached, on a network that lets nobody out otherwise.

use std::{fmt, net::IpAddr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use url::Url;

/// The longest list of hosts that are reached directly; what is behind is not read, entries.
const MOST_DIRECT: usize = 256;
/// Hosts that no proxy is asked for, as programs are told.
const OURS: &str = "localhost,127.0.0.1,::1";

/// A proxy that takes `CONNECT`, and the hosts that are reached without it.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// As it was written, with the name and password that may stand in it.
    url: String,
    host: String,
    port: u16,
    authorization: Option<String>,
    direct: Vec<Direct>,
    /// The hosts as they were written.
    no_proxy: String,
}

/// Hosts that are reached without the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Direct {
    All,
    /// A name and those below it, or an address; on one port, or on all.
    Named(String, Option<u16>),
    /// Addresses that begin with as many bits as this one.
    Within(IpAddr, u32),
}

impl Proxy {
    /// Reads `http://[USER:PASSWORD@]HOST[:PORT]`, and the hosts that it is not for, as `NO_PROXY` has them. `None`: there is
    /// no address.
    ///
    /// # Errors
    /// The fault of the address, without the address.
    pub fn parse(address: &str, no_proxy: &str) -> Result<Option<Self>, &'static str> {
        const FORM: &str = "it is an address such as http://proxy.example:3128";
        let address = address.trim();
        if address.is_empty() {
            return Ok(None);
        }
        let whole = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        let url = Url::parse(&whole).map_err(|_| FORM)?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(FORM)?;
        if url.scheme() != "http" {
            return Err("only proxies that speak plain HTTP are used: http://HOST[:PORT]");
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(FORM);
        }
        let (user, password) = (url.username(), url.password().unwrap_or_default());
        let has_name = !user.is_empty() || !password.is_empty();
        let authorization = has_name.then(|| {
            let pair = [decoded(user), b":".to_vec(), decoded(password)].concat();
            format!("Basic {}", STANDARD.encode(pair))
        });
        Ok(Some(Self {
            host: bare(host).to_owned(),
            port: url.port().unwrap_or(80),
            authorization,
            direct: direct(no_proxy),
            no_proxy: no_proxy.trim().to_owned(),
            url: whole,
        }))
    }

    /// Returns where it listens.
    #[must_use]
    pub fn place(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// Returns what it is told of who asks: the value of `Proxy-Authorization`.
    #[must_use]
    pub fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }

    /// Whether a host is reached by it. This machine never is.
    #[must_use]
    pub fn is_for(&self, host: &str, port: u16) -> bool {
        let host = bare(host).trim_end_matches('.').to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok();
        let is_ours = host == "localhost" || address.is_some_and(|address| address.is_loopback());
        !is_ours && !self.direct.iter().any(|direct| direct.is(&host, address, port))
    }

    /// Returns the variables by which other programs know of it.
    #[must_use]
    pub fn variables(&self) -> Vec<(String, String)> {
        let between = if self.no_proxy.is_empty() { "" } else { "," };
        let no_proxy = format!("{}{between}{OURS}", self.no_proxy);
        [("HTTPS_PROXY", &self.url), ("HTTP_PROXY", &self.url), ("NO_PROXY", &no_proxy)]
            .into_iter()
            .flat_map(|(name, value)| {
                [name.to_owned(), name.to_lowercase()].map(|name| (name, value.clone()))
            })
            .collect()
    }
}

/// Shows it without the name and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Proxy").field(&self.to_string()).finish()
    }
}

impl Direct {
    fn is(&self, host: &str, address: Option<IpAddr>, port: u16) -> bool {
        match self {
            Self::All => true,
            Self::Named(name, on) => {
                let is_below = || host.strip_suffix(name.as_str()).is_some_and(|above| above.ends_with('.'));
                on.is_none_or(|on| on == port) && (host == name || (address.is_none() && is_below()))
            }
            Self::Within(network, bits) => {
                address.is_some_and(|address| first_bits(address, *bits) == first_bits(*network, *bits))
            }
        }
    }
}

/// Reads a list as `NO_PROXY` has it. What can't be understood is left out.
fn direct(list: &str) -> Vec<Direct> {
    let entries = list.split([',', ' ', ';']).map(str::trim).filter(|entry| !entry.is_empty());
    entries.take(MOST_DIRECT).filter_map(one).collect()
}

fn one(entry: &str) -> Option<Direct> {
    if entry == "*" {
        return Some(Direct::All);
    }
    if let Some((network, bits)) = entry.split_once('/') {
        let (network, bits) = (bare(network).parse::<IpAddr>().ok()?, bits.parse::<u32>().ok()?);
        let most = if network.is_ipv4() { 32 } else { 128 };
        return (bits <= most).then_some(Direct::Within(network, bits));
    }
    if let Ok(address) = bare(entry).parse::<IpAddr>() {
        return Some(Direct::Named(address.to_string(), None));
    }
    let (name, port) = match entry.rsplit_once(':') {
        Some((name, port)) => (name, Some(port.parse().ok()?)),
        None => (entry, None),
    };
    let name = bare(name).trim_start_matches("*").trim_start_matches('.').trim_end_matches('.');
    (!name.is_empty()).then(|| Direct::Named(name.to_ascii_lowercase(), port))
}

/// Returns the first bits of an address, and of which kind it is.
fn first_bits(address: IpAddr, bits: u32) -> (bool, u128) {
    let (is_four, number, all) = match address {
        IpAddr::V4(address) => (true, u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (false, u128::from(address), 128),
    };
    (is_four, number.checked_shr(all - bits.min(all)).unwrap_or(0))
}

/// Returns a host without the brackets of an address of IPv6.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Returns the bytes of a name or password, with each `%41` as the byte that it stands for.
fn decoded(text: &str) -> Vec<u8> {
    let (mut bytes, mut found) = (text.bytes(), Vec::new());
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        match (byte, digit(ahead.next()), digit(ahead.next())) {
            (b'%', Some(high), Some(low)) => {
                found.push(u8::try_from(high * 16 + low).unwrap_or(byte));
                bytes = ahead;
            }
            (_, _, _) => found.push(byte),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(address: &str, no_proxy: &str) -> Proxy {
        Proxy::parse(address, no_proxy).unwrap().unwrap()
    }

    #[test]
    fn an_address_is_read_and_its_password_is_shown_nowhere() {
        for (address, place, authorization) in [
            ("http://proxy.example:3128", ("proxy.example", 3128), None),
            ("proxy.example:3128", ("proxy.example", 3128), None),
            ("http://proxy.example/", ("proxy.example", 80), None),
            (" http://[fd00::1]:8080 ", ("fd00::1", 8080), None),
            ("http://ada:p%40ss@10.0.0.1:1", ("10.0.0.1", 1), Some("Basic YWRhOnBAc3M=")),
            ("http://ada@10.0.0.1", ("10.0.0.1", 80), Some("Basic YWRhOg==")),
        ] {
            let read = proxy(address, "");
            assert_eq!((read.place(), read.authorization()), (place, authorization), "{address}");
            assert!(!format!("{read:?} {read}").contains("ada"), "{read:?}");
        }
        assert_eq!(decoded("p%40s%zz%"), b"p@s%zz%");
        for none in ["", "  "] {
            assert_eq!(Proxy::parse(none, "x"), Ok(None));
        }
        for wrong in
            ["https://p:1", "socks5://p:1", "http://", "http://p:99999", "http://p/x", "http://p?x", "a b"]
        {
            let why = Proxy::parse(wrong, "").unwrap_err();
            assert!(why.contains("http://"), "{wrong}: {why}");
        }
    }

    #[test]
    fn hosts_that_are_reached_directly_are_those_of_the_list_and_this_machine() {
        let list = "internal, .corp.example;*.lan,10.0.0.0/8 api.example:8443,192.168.1.7,fd00::/8,x/y,1.2.3.4/33,:,a:b";
        let some = proxy("http://p:1", list);
        for (host, port, is_for) in [
            ("api.anthropic.com", 443, true),
            ("internal", 443, false),
            ("host.internal", 443, false),
            ("notinternal", 443, true),
            ("corp.example", 443, false),
            ("A.Corp.Example.", 443, false),
            ("printer.lan", 80, false),
            ("10.200.3.4", 443, false),
            ("11.0.0.1", 443, true),
            ("api.example", 8443, false),
            ("api.example", 443, true),
            ("192.168.1.7", 443, false),
            ("192.168.1.70", 443, true),
            ("[fd12::1]", 443, false),
            ("[fe80::1]", 443, true),
            ("1.2.3.4", 443, true),
            ("localhost", 443, false),
            ("127.9.9.9", 443, false),
            ("[::1]", 443, false),
        ] {
            assert_eq!(some.is_for(host, port), is_for, "{host}:{port}");
        }
        assert!(!proxy("http://p:1", "*").is_for("api.anthropic.com", 443));
        assert!(!proxy("http://p:1", "0.0.0.0/0").is_for("8.8.8.8", 443));
        assert!(proxy("http://p:1", &"x,".repeat(100_000)).is_for("y", 443));
    }

    #[test]
    fn other_programs_are_told_of_it_by_the_usual_variables() {
        let told = proxy("p:1", "lan").variables();
        let of = |name: &str| told.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        for name in ["HTTPS_PROXY", "https_proxy", "http_proxy"] {
            assert_eq!(of(name), Some("http://p:1"), "{name}");
        }
        assert_eq!(of("no_proxy"), Some("lan,localhost,127.0.0.1,::1"));
        assert_eq!(proxy("p:1", "").variables()[5].1, OURS);
    }
}

//! Hosts outside that a container may reach: how they are written, which are allowed, and which addresses never are.
//!
//! An agent names a place in any form that it likes (`0x7f.1`, `[::ffff:10.0.0.1]`, `EXAMPLE.com.`, `bücher.example`). It is
//! brought into one form first, and only this form is judged, looked up and noted.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use ipc_handlers::{Folder, Time, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Host;

/// The most rules of one group.
pub const MOST_RULES: usize = 256;
/// How many refused places of a group are kept, the newest.
pub const KEPT_PLACES: usize = 100;
/// The ports of a rule that names none.
const WEB: [u16; 2] = [80, 443];
/// The longest name of a host.
const LONGEST: usize = 253;

/// A host in its one form: a name in small letters without a dot at its end, or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Named(String),
    Address(IpAddr),
}

/// Why a text names no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPlace {
    #[error("it names no host")]
    NoHost,
    #[error("it is a whole address: name its host alone, such as example.com")]
    Whole,
    #[error("its port is none: use 1 to 65535")]
    NoPort,
    #[error("a `*` stands only at the beginning, before a dot: *.example.com")]
    Star,
    #[error("it is an address of this machine, of its network, or of nobody; these are never reached")]
    NotOutside,
}

impl Name {
    fn parse(text: &str) -> Result<Self, BadPlace> {
        // Such a text is an IPv6 address only between brackets; other programs say it without.
        let bare = text.parse().map(Host::Ipv6);
        let host = bare.or_else(|_| Host::parse(text)).map_err(|_| BadPlace::NoHost)?;
        Ok(match host {
            Host::Ipv4(address) => Self::Address(address.into()),
            Host::Ipv6(address) => Self::Address(plain(address)),
            Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(&name);
                let has_bad_part = name.split('.').any(|part| part.is_empty() || part.len() > 63);
                let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                if has_bad_part || name.len() > LONGEST || !name.chars().all(fits) {
                    return Err(BadPlace::NoHost);
                }
                Self::Named(name.to_owned())
            }
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Returns an address of the older kind as such, however it is wrapped.
fn plain(address: Ipv6Addr) -> IpAddr {
    address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
}

/// A place that an agent wants to reach.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    host: Name,
    port: u16,
}

impl Place {
    /// # Errors
    /// [`BadPlace`]
    pub fn new(host: &str, port: u16) -> Result<Self, BadPlace> {
        if port == 0 {
            return Err(BadPlace::NoPort);
        }
        Ok(Self { host: Name::parse(host)?, port })
    }

    /// Returns the host as it is looked up; an address stands without brackets.
    #[must_use]
    pub fn host(&self) -> String {
        match &self.host {
            Name::Named(name) => name.clone(),
            Name::Address(address) => address.to_string(),
        }
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether a program means itself by it, inside its container too: a loopback address, or `localhost`.
    #[must_use]
    pub fn is_of_the_container(&self) -> bool {
        match &self.host {
            Name::Named(name) => name == "localhost" || name.ends_with(".localhost"),
            Name::Address(address) => address.is_loopback(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// `HOST[:PORT]` of a rule. `*.example.com` stands for every name below `example.com`, and not for that itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Pattern {
    host: Name,
    below: bool,
    /// `None`: 80 and 443.
    port: Option<u16>,
}

impl Pattern {
    fn covers(&self, place: &Place) -> bool {
        self.port.map_or(WEB.contains(&place.port), |port| port == place.port) && self.covers_host(place)
    }

    /// Whether it takes a place away: without a port it means all of them.
    fn bars(&self, place: &Place) -> bool {
        self.port.is_none_or(|port| port == place.port) && self.covers_host(place)
    }

    /// Whether it is about a place, `HOST:PORT`.
    #[must_use]
    pub fn is_about(&self, place: &str) -> bool {
        let place = place.rsplit_once(':').and_then(|(host, port)| Place::new(host, port.parse().ok()?).ok());
        place.is_some_and(|place| self.covers(&place))
    }

    fn covers_host(&self, place: &Place) -> bool {
        match (&self.host, &place.host, self.below) {
            (Name::Named(top), Name::Named(name), true) => {
                name.strip_suffix(top.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            (own, asked, false) => own == asked,
            (_, _, true) => false,
        }
    }
}

impl FromStr for Pattern {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<Self, BadPlace> {
        if text.contains('/') {
            return Err(BadPlace::Whole);
        }
        let (host, port) = match text.rsplit_once(':') {
            // An IPv6 address without brackets has no port.
            _ if text.parse::<Ipv6Addr>().is_ok() => (text, None),
            Some((host, port)) if !port.contains(']') => {
                let port = port.parse::<u16>().ok().filter(|port| *port > 0).ok_or(BadPlace::NoPort)?;
                (host, Some(port))
            }
            _ => (text, None),
        };
        let (host, below) = host.strip_prefix("*.").map_or((host, false), |top| (top, true));
        if host.contains('*') {
            return Err(BadPlace::Star);
        }
        let host = Name::parse(host)?;
        match &host {
            Name::Address(_) if below => Err(BadPlace::Star),
            Name::Address(address) if !is_outside(*address) => Err(BadPlace::NotOutside),
            Name::Address(_) | Name::Named(_) => Ok(Self { host, below, port }),
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = BadPlace;

    fn try_from(text: String) -> Result<Self, BadPlace> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.to_string()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.below { "*." } else { "" };
        write!(f, "{star}{}", self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

words! {
    /// What a group's rule says of its hosts.
    #[derive(JsonSchema)]
    pub enum Verdict: "verdict on a host" {
        Allow = "allow",
        /// Also what the settings allow to all groups.
        Deny = "deny",
    }
}

/// The rules of one group, on top of those of the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub all: Vec<Pattern>,
    pub own: Vec<(Pattern, Verdict)>,
}

/// Why a place is not reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoWay {
    NotAllowed,
    Denied,
    /// What the name stands for is no address outside.
    NotOutside(IpAddr),
}

impl NoWay {
    /// Says to an agent, and to people, why a place is not reached, and how that is mended.
    #[must_use]
    pub fn says(&self, place: &Place, group: &Folder) -> String {
        match self {
            Self::NotAllowed => format!(
                "{place} is not among the hosts that {group} may reach; the owner may allow it: g2 egress allow {place} --group {group}"
            ),
            Self::Denied => format!(
                "{place} is denied to {group}; the owner may take this back: g2 egress allow {place} --group {group}"
            ),
            Self::NotOutside(address) => format!(
                "{place} leads to {address}, which is an address of this machine, of its network, or of nobody; these are never reached"
            ),
        }
    }

    /// Returns the reason in a few words.
    #[must_use]
    pub fn short(&self) -> &'static str {
        match self {
            Self::NotAllowed => "not allowed",
            Self::Denied => "denied",
            Self::NotOutside(_) => "no address outside",
        }
    }
}

impl Rules {
    /// Judges a place by its name. A no of the group wins over every yes.
    ///
    /// # Errors
    /// [`NoWay`]
    pub fn judge(&self, place: &Place) -> Result<(), NoWay> {
        if let Name::Address(address) = &place.host {
            judge_address(*address)?;
        }
        let of = |verdict: Verdict| {
            self.own.iter().filter(move |(_, says)| *says == verdict).map(|(rule, _)| rule)
        };
        if of(Verdict::Deny).any(|rule| rule.bars(place)) {
            return Err(NoWay::Denied);
        }
        if of(Verdict::Allow).chain(&self.all).any(|rule| rule.covers(place)) {
            return Ok(());
        }
        Err(NoWay::NotAllowed)
    }
}

/// Judges the address that a place is reached at.
///
/// # Errors
/// [`NoWay::NotOutside`]
pub fn judge_address(address: IpAddr) -> Result<(), NoWay> {
    if is_outside(address) { Ok(()) } else { Err(NoWay::NotOutside(address)) }
}

/// Whether an address is one of the public internet: not of this machine, a network of its own, the machine's provider, or
/// of nobody.
#[must_use]
pub fn is_outside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_outside_v4(address),
        IpAddr::V6(address) => is_outside_v6(address),
    }
}

fn is_outside_v4(address: Ipv4Addr) -> bool {
    /// What IANA lists as reserved for other ends than a host of the internet.
    const INSIDE: [([u8; 4], u32); 16] = [
        ([0, 0, 0, 0], 8),
        ([10, 0, 0, 0], 8),
        ([100, 64, 0, 0], 10),
        ([127, 0, 0, 0], 8),
        ([169, 254, 0, 0], 16),
        ([172, 16, 0, 0], 12),
        ([192, 0, 0, 0], 24),
        ([192, 0, 2, 0], 24),
        ([192, 88, 99, 0], 24),
        ([192, 168, 0, 0], 16),
        ([198, 18, 0, 0], 15),
        ([198, 51, 100, 0], 24),
        ([203, 0, 113, 0], 24),
        ([224, 0, 0, 0], 4),
        ([240, 0, 0, 0], 4),
        // Azure's metadata, at an address that looks public.
        ([168, 63, 129, 16], 32),
    ];
    let bits = address.to_bits();
    !INSIDE.iter().any(|(net, length)| (bits ^ Ipv4Addr::from(*net).to_bits()) >> (32 - length) == 0)
}

fn is_outside_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_outside_v4(inner);
    }
    let parts = address.segments();
    match parts {
        // The well-known prefix of NAT64: an address of the older kind behind a translator.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_outside_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        // Teredo and other protocols of their own; 6to4, which wraps any address; documentation, twice.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [first, ..] => (0x2000..=0x3fff).contains(&first),
    }
}

/// What a group's connections may carry in an hour: hours begin when something is carried.
#[derive(Clone, Copy, Debug)]
pub struct Hour {
    most: u64,
    began: Time,
    carried: u64,
}

impl Hour {
    const MS: i64 = 3_600_000;

    #[must_use]
    pub fn new(most: u64, now: Time) -> Self {
        Self { most, began: now, carried: 0 }
    }

    /// From now on they may carry as much as this.
    pub fn set(&mut self, most: u64) {
        self.most = most;
    }

    /// Counts bytes that were carried.
    pub fn carry(&mut self, bytes: u64, now: Time) {
        // A clock that was set back begins an hour, too: it would last for too long otherwise.
        if !(0..Self::MS).contains(&now.ms_since(self.began)) {
            (self.began, self.carried) = (now, 0);
        }
        self.carried = self.carried.saturating_add(bytes);
    }

    /// Returns in how many ms more may be carried; 0: now.
    #[must_use]
    pub fn wait(&self, now: Time) -> i64 {
        let since = now.ms_since(self.began);
        if self.carried < self.most || !(0..Self::MS).contains(&since) { 0 } else { Self::MS - since }
    }
}

/// A rule of a group, or a place that it was refused, as `g2 egress list` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EgressRow {
    /// `None`: the settings, for every group.
    pub group: Option<Folder>,
    /// `HOST[:PORT]` of a rule, `HOST:PORT` of what was refused.
    pub host: String,
    pub state: EgressState,
    /// Why it was refused.
    pub why: Option<String>,
    /// How often it was refused.
    pub times: Option<u64>,
    /// The run that was refused it last.
    pub run: Option<i64>,
    /// When the rule was made, or the place refused last.
    #[serde(serialize_with = "rfc3339_or_null")]
    #[schemars(with = "Option<String>")]
    pub at: Option<Time>,
}

words! {
    /// What a row of `g2 egress list` is.
    #[derive(JsonSchema)]
    pub enum EgressState: "state of a host" {
        Allowed = "allowed",
        Denied = "denied",
        Refused = "refused",
    }
}

impl From<Verdict> for EgressState {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Allowed,
            Verdict::Deny => Self::Denied,
        }
    }
}

fn rfc3339_or_null<S: serde::Serializer>(at: &Option<Time>, to: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => crate::rows::rfc3339(at, to),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str) -> Result<String, BadPlace> {
        Place::new(host, 443).map(|place| place.to_string())
    }

    #[test]
    fn a_place_has_one_form_however_it_is_written() {
        for (written, form) in [
            ("example.com", "example.com:443"),
            ("EXAMPLE.Com.", "example.com:443"),
            ("bücher.example", "xn--bcher-kva.example:443"),
            ("ｅｘａｍｐｌｅ.com", "example.com:443"),
            ("ex%61mple.com", "example.com:443"),
            ("8.8.8.8", "8.8.8.8:443"),
            ("0x8.0x8.0x808", "8.8.8.8:443"),
            ("134744072", "8.8.8.8:443"),
            ("010.8.8.8", "8.8.8.8:443"),
            ("127.1", "127.0.0.1:443"),
            ("8.8.8.8.", "8.8.8.8:443"),
            ("１２７.０.０.１", "127.0.0.1:443"),
            ("[::ffff:8.8.8.8]", "8.8.8.8:443"),
            ("[2606:4700::1]", "[2606:4700::1]:443"),
            ("2606:4700::1", "[2606:4700::1]:443"),
        ] {
            assert_eq!(place(written).as_deref(), Ok(form), "{written}");
        }
        for none in [
            "",
            ".",
            "a..b",
            "a b",
            "a/b",
            "a\nb",
            "a@b",
            "[::1",
            "1.2.3.4.5",
            "256.1.1.1",
            "a:1",
            "*.a",
            &"a.".repeat(200),
        ] {
            assert_eq!(place(none), Err(BadPlace::NoHost), "{none:?}");
        }
        assert_eq!(Place::new("a.example", 0), Err(BadPlace::NoPort));
    }

    #[test]
    fn no_address_of_this_machine_of_its_network_or_of_nobody_is_outside() {
        for inside in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "203.0.113.9",
            "224.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "5f00::1",
        ] {
            assert!(!is_outside(inside.parse().unwrap()), "{inside}");
        }
        for outside in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "198.20.0.1",
            "223.255.255.254",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860:4860::8888",
        ] {
            assert!(is_outside(outside.parse().unwrap()), "{outside}");
        }
    }

    #[test]
    fn a_rule_covers_what_it_names() {
        for (rule, covered, not) in [
            (
                "example.com",
                vec!["example.com:443", "example.com:80"],
                vec!["example.com:22", "a.example.com:443", "badexample.com:443"],
            ),
            ("Example.COM.:8443", vec!["example.com:8443"], vec!["example.com:443"]),
            (
                "*.example.com",
                vec!["a.example.com:443", "b.a.example.com:80"],
                vec!["example.com:443", "aexample.com:443"],
            ),
            ("bücher.example", vec!["xn--bcher-kva.example:443"], vec![]),
            ("8.8.8.8:53", vec!["8.8.8.8:53"], vec!["8.8.8.8:443"]),
            ("[2606:4700::1]:443", vec!["[2606:4700::1]:443"], vec!["[2606:4700::1]:80"]),
            ("2606:4700::1", vec!["[2606:4700::1]:80"], vec![]),
        ] {
            let rules = Rules { all: vec![rule.parse().unwrap()], own: Vec::new() };
            let judge = |text: &str| {
                let (host, port) = text.rsplit_once(':').unwrap();
                rules.judge(&Place::new(host, port.parse().unwrap()).unwrap())
            };
            covered.iter().for_each(|text| assert_eq!(judge(text), Ok(()), "{rule} {text}"));
            not.iter().for_each(|text| assert_eq!(judge(text), Err(NoWay::NotAllowed), "{rule} {text}"));
            let again: Pattern = rules.all[0].to_string().parse().unwrap();
            assert_eq!(again, rules.all[0]);
        }
    }

    #[test]
    fn what_an_hour_may_carry_is_bounded_whatever_the_clock_does() {
        let start = Time(1_000_000);
        let mut hour = Hour::new(100, start);
        hour.carry(99, start.plus_ms(1));
        assert_eq!(hour.wait(start.plus_ms(2)), 0);
        hour.carry(1, start.plus_ms(3));
        assert_eq!(hour.wait(start.plus_ms(4)), 3_600_000 - 4);
        assert_eq!(hour.wait(start.plus_ms(3_600_000)), 0);
        assert_eq!(hour.wait(start.plus_ms(-1)), 0);
        hour.carry(100, start.plus_ms(-1));
        assert!(hour.wait(start) > 0);
    }

    #[test]
    fn a_rule_that_can_t_be_is_refused() {
        for (rule, why) in [
            ("", BadPlace::NoHost),
            ("*", BadPlace::Star),
            ("a.*.com", BadPlace::Star),
            ("*.8.8.8.8", BadPlace::Star),
            ("example.com:0", BadPlace::NoPort),
            ("example.com:65536", BadPlace::NoPort),
            ("https://example.com", BadPlace::Whole),
            ("example.com/path", BadPlace::Whole),
            ("127.0.0.1", BadPlace::NotOutside),
            ("0x7f.1:80", BadPlace::NotOutside),
            ("[::ffff:10.0.0.1]:80", BadPlace::NotOutside),
            ("169.254.169.254", BadPlace::NotOutside),
        ] {
            assert_eq!(rule.parse::<Pattern>(), Err(why), "{rule}");
        }
    }

    #[test]
    fn a_no_of_the_group_wins_and_an_address_inside_is_never_reached() {
        let rule = |text: &str| text.parse::<Pattern>().unwrap();
        let rules = Rules {
            all: vec![rule("*.example.com"), rule("localhost")],
            own: vec![(rule("bad.example.com"), Verdict::Deny), (rule("other.example"), Verdict::Allow)],
        };
        let judge = |host: &str| rules.judge(&Place::new(host, 443).unwrap());
        assert_eq!(judge("good.example.com"), Ok(()));
        assert_eq!(judge("other.example"), Ok(()));
        assert_eq!(judge("bad.example.com"), Err(NoWay::Denied));
        let rules = Rules { all: vec![rule("bad.example.com:22")], own: rules.own };
        assert_eq!(rules.judge(&Place::new("bad.example.com", 22).unwrap()), Err(NoWay::Denied));
        let rules = Rules { all: vec![rule("localhost")], own: rules.own };
        let judge = |host: &str| rules.judge(&Place::new(host, 443).unwrap());
        assert_eq!(judge("elsewhere.example"), Err(NoWay::NotAllowed));
        for inside in
            ["127.0.0.1", "2130706433", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"]
        {
            assert!(matches!(judge(inside), Err(NoWay::NotOutside(_))), "{inside}");
        }
    }
}

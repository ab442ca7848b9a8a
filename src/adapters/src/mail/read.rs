//! What a mail means: whose it is, to which thread it belongs, what it says. Pure.

use std::borrow::Cow;

use channel_protocol::{Attached, Kind, LONGEST_TITLE, MOST_REFERENCES};
use mail_parser::{Header, HeaderValue, Message, MessageParser, MimeHeaders as _, PartType};
use sha2::{Digest as _, Sha256};

use super::{addresses, imap::Raw, proof, said, settings::Settings, trouble::line};
use crate::kit::{below_one_another, cut};

/// How often a mail may name a type: that bounds how deep its parts lie in one another.
const MOST_TYPES: usize = 500;
/// How many of its lines may hold two dashes, as a line between two parts does: that bounds the parts.
const MOST_LINES: usize = 10_000;
/// How many of its lines may hold a colon, as the line of a header does.
const MOST_HEADERS: usize = 300_000;
/// The longest headers that are read where nothing of a mail's parts is, bytes.
const LONGEST_HEAD: usize = 1 << 20;
/// How many bytes may be looked at: for each type, the mail may be read to its end.
const MOST_WORK: usize = 4 << 30;
/// How many files of a mail are told.
const MOST_FILES: usize = 50;
/// How many others of a thread are answered.
const MOST_OTHERS: usize = 20;
/// How old a mail may be when it comes, seconds: a signed one could be sent again at any time.
const OLDEST: i64 = 7 * 24 * 3600;
/// Headers that a mail has once. A signature covers the lowest one of a name, so anybody could put another one above it.
const ONCE: [&str; 13] = [
    "From",
    "To",
    "Cc",
    "Subject",
    "Date",
    "Message-ID",
    "In-Reply-To",
    "References",
    "Reply-To",
    "Sender",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
];
/// Senders that are programs, by what stands before the `@`.
const PROGRAMS: [&str; 5] = ["mailer-daemon", "postmaster", "noreply", "no-reply", "donotreply"];
/// The longest id of a mail that others can name, bytes.
pub(super) const LONGEST_ID: usize = 250;

/// What a mail is for the account.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Read {
    Mail(Box<Mail>),
    /// Nobody hears of it, for this reason.
    Nothing(String),
}

/// A mail of a person.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Mail {
    /// Its `Message-ID` without brackets, or one of our own making where it has none.
    pub(super) id: String,
    /// Whether others can name it by its id.
    pub(super) has_id: bool,
    pub(super) address: String,
    /// Somebody vouches for the address.
    pub(super) proven: bool,
    pub(super) name: String,
    pub(super) thread: String,
    /// The mails that it continues, the newest last.
    pub(super) references: Vec<String>,
    /// The mail of ours that it answers.
    pub(super) answers_ours: Option<String>,
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) files: Vec<Attached>,
    /// Its other readers.
    pub(super) others: Vec<String>,
    /// Why nobody vouches for the sender; empty: somebody does.
    pub(super) doubt: String,
}

/// Returns the name of the thread that begins with a mail.
pub(super) fn thread_of(root: &str) -> String {
    let digest = Sha256::digest(root.as_bytes());
    let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("t{hex}")
}

/// Whether a word is a thread's name.
pub(super) fn is_thread(word: &str) -> bool {
    word.len() == 17 && word.starts_with('t') && word[1..].bytes().all(|b| b.is_ascii_hexdigit())
}

/// Returns the id of a mail of ours: of the key, and of the thread that it goes to.
pub(super) fn own_id(key: &str, thread: &str, domain: &str) -> String {
    let plain: String = key.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '.').collect();
    if thread.is_empty() { format!("g2.{plain}@{domain}") } else { format!("g2.{plain}.{thread}@{domain}") }
}

/// Whether an id is of a mail of ours.
fn is_own(id: &str, domain: &str) -> bool {
    id.starts_with("g2.") && addresses::domain(id) == domain
}

/// Returns the thread that an id of ours names.
fn thread_in(id: &str, domain: &str) -> Option<String> {
    let (local, _) = id.rsplit_once('@').filter(|_| is_own(id, domain))?;
    let (_, thread) = local.rsplit_once('.')?;
    is_thread(thread).then(|| thread.to_owned())
}

/// Counts how often a mail names a type. Blanks in the name of a header count for nothing to the parser.
fn types(bytes: &[u8]) -> usize {
    const NAME: &[u8] = b"content-type";
    let (mut count, mut at) = (0, 0);
    for b in bytes.iter().filter(|b| **b == b'\n' || !b.is_ascii_whitespace()) {
        at = match b.to_ascii_lowercase() {
            b if NAME.get(at) == Some(&b) => at + 1,
            b if b == NAME[0] => 1,
            _ => 0,
        };
        if at == NAME.len() {
            (count, at) = (count + 1, 0);
        }
    }
    count
}

/// Whether all parts of a mail can be read within bounds of work, memory and depth.
fn is_bounded(bytes: &[u8]) -> bool {
    let types = types(bytes);
    let lines = || bytes.split(|b| *b == b'\n');
    let between = lines().filter(|line| line.windows(2).any(|two| two == b"--"));
    let headers = lines().filter(|line| line.contains(&b':'));
    types <= MOST_TYPES
        && types.saturating_mul(bytes.len()) <= MOST_WORK
        && between.take(MOST_LINES + 1).count() <= MOST_LINES
        && headers.take(MOST_HEADERS + 1).count() <= MOST_HEADERS
}

/// Reads a mail, of which headers alone are read where it has too many parts.
fn parsed(bytes: &[u8]) -> Option<(Message<'_>, bool)> {
    let parser = MessageParser::default();
    match is_bounded(bytes) {
        true => Some((parser.parse(bytes)?, true)),
        false => {
            let head = &bytes[..bytes.len().min(LONGEST_HEAD)];
            // What stands below the cut could tell against what stands above it.
            let is_all = bytes.len() <= LONGEST_HEAD
                || head.windows(2).any(|end| end == b"\n\n")
                || head.windows(3).any(|end| end == b"\n\r\n");
            Some((parser.parse_headers(head).filter(|_| is_all)?, false))
        }
    }
}

/// Reads a mail.
pub(super) fn mail(raw: &Raw, validity: u32, settings: &Settings) -> Read {
    let nothing = |why: &str| Read::Nothing(why.to_owned());
    let Some((message, is_whole)) = parsed(&raw.bytes) else {
        return nothing("it has no headers, or too many");
    };
    let headers = Headers(&message);
    if let Some(why) = headers.automatic() {
        return Read::Nothing(why);
    }
    let Some((name, address)) = headers.author() else {
        return nothing("its sender is not one plain address");
    };
    if settings.is_us(&address) {
        return nothing("it is our own");
    }
    if PROGRAMS.iter().any(|name| address.split('@').next() == Some(name)) {
        return nothing("its sender is a program");
    }
    if !settings.wants(&address) {
        return nothing("its sender is not in only_from");
    }
    let ids = |name: &str| headers.ids(name);
    let own = ids("Message-ID").into_iter().next().filter(|id| id.len() <= LONGEST_ID);
    let (id, has_id) = match own {
        Some(id) => (id, true),
        None => (format!("h{}", &thread_of(&String::from_utf8_lossy(&raw.bytes))[1..]), false),
    };
    if is_own(&id, settings.domain()) {
        return nothing("it is our own");
    }
    let answered = ids("In-Reply-To");
    let mut references = ids("References");
    references.extend(answered.iter().filter(|id| !references.contains(id)).cloned().collect::<Vec<_>>());
    let domain = settings.domain();
    let named = references.iter().rev().find_map(|id| thread_in(id, domain));
    let thread = named.unwrap_or_else(|| thread_of(references.first().unwrap_or(&id)));
    let answers_ours = answered.into_iter().find(|id| is_own(id, domain));
    let is_answer = !references.is_empty();
    let doubt = headers.doubt(&address, raw.at.as_deref(), settings);
    let proven = doubt.is_empty();
    let subject = cut(message.subject().unwrap_or_default().trim(), LONGEST_TITLE);
    let subject: String = subject.chars().filter(|c| !c.is_control()).take(LONGEST_TITLE).collect();
    let words = if is_whole { said::words(&message, is_answer) } else { String::new() };
    let files = if is_whole { files(&message, raw, validity) } else { Vec::new() };
    let missing = match is_whole {
        false => "[mail with too many parts: nothing of them is read]".to_owned(),
        true if raw.size > raw.bytes.len() as u64 => {
            format!("[mail of {} MB: only its first {} MB are read]", raw.size >> 20, raw.bytes.len() >> 20)
        }
        true => String::new(),
    };
    let text = below_one_another(&[&words, &missing]);
    // A mail may say all in its subject.
    let text = if text.is_empty() && files.is_empty() { subject.clone() } else { text };
    let mut others: Vec<String> =
        headers.addresses(&["To", "Cc"]).filter(|one| !settings.is_us(one)).collect();
    others.retain(|one| *one != address);
    others.sort();
    others.dedup();
    others.truncate(MOST_OTHERS);
    let from = references.len().saturating_sub(MOST_REFERENCES);
    Read::Mail(Box::new(Mail {
        id,
        has_id,
        name: if name.trim().is_empty() { address.clone() } else { cut(name.trim(), 200) },
        address,
        proven,
        thread,
        references: references.split_off(from),
        answers_ours,
        subject,
        text,
        files,
        others,
        doubt,
    }))
}

fn files(message: &Message<'_>, raw: &Raw, validity: u32) -> Vec<Attached> {
    let all = message.attachments.iter().take(MOST_FILES);
    let told = all.filter_map(|index| {
        let part = message.part(*index)?;
        let mime = match part.content_type() {
            Some(kind) => {
                format!("{}/{}", kind.ctype(), kind.subtype().unwrap_or("octet-stream")).to_ascii_lowercase()
            }
            None => "application/octet-stream".to_owned(),
        };
        let kind = match mime.split('/').next() {
            Some("image") => Kind::Image,
            Some("video") => Kind::Video,
            Some("audio") => Kind::Audio,
            _ => Kind::Document,
        };
        let name =
            part.attachment_name().map(|name| name.chars().filter(|c| !c.is_control()).take(200).collect());
        // The end of what is read may be the middle of a file.
        let is_cut = raw.size > raw.bytes.len() as u64 && part.offset_end as usize >= raw.bytes.len();
        let problem = is_cut.then(|| {
            format!("the mail has {} MB, and {} MB of it are read", raw.size >> 20, raw.bytes.len() >> 20)
        });
        Some(Attached {
            fetch: problem.is_none().then(|| format!("{validity}.{}.{index}", raw.uid)),
            kind,
            mime: cut(&mime, 100),
            name,
            bytes: Some(contents(&part.body).len() as u64),
            problem,
            ..Attached::default()
        })
    });
    told.collect()
}

fn contents<'a>(body: &'a PartType<'_>) -> &'a [u8] {
    match body {
        PartType::Text(text) | PartType::Html(text) => text.as_bytes(),
        PartType::Binary(bytes) | PartType::InlineBinary(bytes) => bytes,
        PartType::Message(message) => &message.raw_message,
        PartType::Multipart(_) => &[],
    }
}

/// Which file of which mail is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) validity: u32,
    pub(super) uid: u32,
    index: u32,
}

impl Wanted {
    /// Reads the words by which [`mail`] names a file.
    pub(super) fn read(what: &str) -> Option<Self> {
        let mut numbers = what.split('.').map(str::parse);
        let wanted = Self {
            validity: numbers.next()?.ok()?,
            uid: numbers.next()?.ok()?,
            index: numbers.next()?.ok()?,
        };
        numbers.next().is_none().then_some(wanted)
    }

    /// Returns the file's bytes.
    pub(super) fn file(self, raw: &Raw) -> Option<Vec<u8>> {
        let (message, _) = parsed(&raw.bytes)?;
        message.part(self.index).map(|part| contents(&part.body).to_vec())
    }
}

/// The headers of a mail.
struct Headers<'a>(&'a Message<'a>);

impl<'a> Headers<'a> {
    /// Returns all headers of a name, from the top.
    fn named(&self, name: &str) -> impl Iterator<Item = &'a Header<'a>> {
        let headers = self.0.parts.first().map_or(&[][..], |part| &part.headers);
        headers.iter().filter(move |header| header.name.as_str().eq_ignore_ascii_case(name))
    }

    /// Returns the value of a header as it stands there; none is left out for its bytes.
    fn value(&self, header: &Header<'_>) -> Cow<'a, str> {
        let place = header.offset_start as usize..header.offset_end as usize;
        let raw: &'a [u8] = &self.0.raw_message;
        String::from_utf8_lossy(raw.get(place).unwrap_or_default().trim_ascii())
    }

    /// Returns the values of all headers of a name, from the top.
    fn all(&self, name: &str) -> impl Iterator<Item = Cow<'a, str>> {
        self.named(name).map(|header| self.value(header))
    }

    /// Returns what servers say about the sender, from the top. A name that others may read as another one is not theirs: its
    /// header can't be read.
    fn results(&self) -> Vec<Cow<'a, str>> {
        self.named("Authentication-Results")
            .map(|header| {
                let (raw, from) = (&self.0.raw_message, header.offset_field as usize);
                let name = raw.get(from..header.offset_start as usize).unwrap_or_default();
                let begins_line = from == 0 || raw.get(from - 1) == Some(&b'\n');
                match begins_line && name.eq_ignore_ascii_case(b"authentication-results:") {
                    true => self.value(header),
                    false => Cow::Borrowed(""),
                }
            })
            .collect()
    }

    /// Why nobody vouches for the sender, where the mail came at a time. Empty: somebody does.
    fn doubt(&self, address: &str, at: Option<&str>, settings: &Settings) -> String {
        // A signed mail to somebody else proves nothing here: anybody who has it can send it on, with a header more.
        let names_us = |name| self.addresses(&[name]).any(|address| settings.is_us(&address));
        if let Some(name) = ONCE.into_iter().find(|name| self.named(name).nth(1).is_some()) {
            return format!("it has two {name}");
        }
        if !names_us("To") {
            if !names_us("Cc") {
                return "neither To nor Cc names an address of the account".to_owned();
            }
            if !proof::all_cover(self.all("DKIM-Signature"), "cc") {
                return "Cc alone names an address of the account, and no signature covers it".to_owned();
            }
        }
        let came = at.and_then(|at| at.parse::<jiff::Timestamp>().ok());
        if let (Some(came), Some(written)) = (came, self.0.date())
            && came.as_second().saturating_sub(written.to_timestamp()) > OLDEST
        {
            return "it was written more than 7 days before it came".to_owned();
        }
        self.unvouched(address, settings)
    }

    /// Why no server that is named vouches for the sender.
    fn unvouched(&self, address: &str, settings: &Settings) -> String {
        let results = self.results();
        let all = results.iter().map(|one| &**one);
        if proof::vouched(all, &settings.authserv, addresses::domain(address)) {
            return String::new();
        }
        match results.first().map(|header| proof::server_of(header)) {
            Some(Some(server)) => format!("the topmost Authentication-Results are of {}", line(&server)),
            Some(None) => "the topmost Authentication-Results can't be read".to_owned(),
            None => "it has no Authentication-Results".to_owned(),
        }
    }

    /// Why nobody wrote it who waits for an answer. `None`: a person may have.
    fn automatic(&self) -> Option<String> {
        let words = |name: &str| -> Vec<String> {
            let first = |value: Cow<'_, str>| {
                let mut words = value.split(|c: char| c == ';' || c == '(' || c.is_whitespace());
                words.find(|word| !word.is_empty()).map(str::to_ascii_lowercase)
            };
            self.all(name).filter_map(first).collect()
        };
        if let Some(word) = words("Auto-Submitted").into_iter().find(|word| word != "no") {
            return Some(format!("it is automatic: Auto-Submitted: {}", cut(&word, 40)));
        }
        if let Some(word) = words("Precedence")
            .into_iter()
            .find(|word| ["list", "bulk", "junk", "auto_reply"].contains(&&word[..]))
        {
            return Some(format!("it is automatic: Precedence: {word}"));
        }
        let marks =
            ["List-Id", "List-Unsubscribe", "List-Post", "X-Autoreply", "X-Autoreply-From", "X-Autorespond"];
        if let Some(name) = marks.into_iter().find(|name| self.all(name).next().is_some()) {
            return Some(format!("it is a list's or automatic: {name}"));
        }
        if self.all("Return-Path").any(|path| path == "<>") {
            return Some("it is a bounce: its return path is empty".into());
        }
        let kind = self.0.content_type();
        kind.is_some_and(|kind| {
            kind.ctype().eq_ignore_ascii_case("multipart")
                && kind.subtype().is_some_and(|sub| sub.eq_ignore_ascii_case("report"))
        })
        .then(|| "it is a report of a mail server".into())
    }

    /// Returns the name and the address of the author, where that is one, and a plain one.
    fn author(&self) -> Option<(String, String)> {
        let mut all = self.0.header_values("From");
        let (Some(HeaderValue::Address(from)), None) = (all.next(), all.next()) else { return None };
        let mut of = from.iter();
        let (Some(one), None) = (of.next(), of.next()) else { return None };
        let name: String =
            one.name().unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect();
        Some((name, addresses::fit(one.address()?)?))
    }

    /// Returns the addresses of some headers.
    fn addresses(&self, names: &[&'static str]) -> impl Iterator<Item = String> {
        let values = names.iter().flat_map(|name| self.0.header_values(*name));
        let values = values.filter_map(HeaderValue::as_address).flat_map(|all| all.iter().take(200));
        values.filter_map(|one| addresses::fit(one.address()?)).collect::<Vec<_>>().into_iter()
    }

    /// Returns the ids that a header names, without brackets.
    fn ids(&self, name: &str) -> Vec<String> {
        let fits = |id: &&str| {
            !id.is_empty()
                && id.len() <= 500
                && id.bytes().all(|b| b.is_ascii_graphic() && b"<>\"\\".iter().all(|bad| *bad != b))
        };
        let Some(value) = self.all(name).next() else { return Vec::new() };
        let ids = value.split('<').skip(1).filter_map(|rest| Some(rest.split_once('>')?.0.trim()));
        let all: Vec<String> = ids.take(1000).filter(fits).map(str::to_owned).collect();
        // The first one names the thread.
        match all.len() {
            0..=100 => all,
            long => all[..1].iter().chain(&all[long - 99..]).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests;

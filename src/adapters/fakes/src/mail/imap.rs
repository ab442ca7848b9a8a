//! The mailbox.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    sync::PoisonError,
    time::Duration,
};

use super::{Fault, Folder, Shared, USER, World};

struct Talk<'a> {
    shared: &'a Shared,
    out: TcpStream,
    input: BufReader<TcpStream>,
    let_in: bool,
    /// The open folder: that of what was sent, or the inbox.
    open: Option<bool>,
    /// The number that the next mail had when the client was told of new ones last.
    known: u32,
}

pub(super) fn attend(shared: &Shared, connection: TcpStream) -> io::Result<()> {
    let input = BufReader::new(connection.try_clone()?);
    let mut talk = Talk { shared, out: connection, input, let_in: false, open: None, known: 0 };
    talk.say("* OK [CAPABILITY IMAP4rev1] ready")?;
    while talk.command()? {}
    Ok(())
}

/// Divides a command into words; quoted ones and lists stay one.
fn words(line: &str) -> Vec<String> {
    let (mut all, mut word, mut quoted, mut escaped, mut depth) =
        (Vec::new(), String::new(), false, false, 0);
    for c in line.chars() {
        match c {
            _ if escaped => {
                word.push(c);
                escaped = false;
            }
            '\\' if quoted => escaped = true,
            '"' if depth == 0 => {
                quoted = !quoted;
                if !quoted {
                    all.push(std::mem::take(&mut word));
                }
            }
            '(' | '[' if !quoted => {
                depth += 1;
                word.push(c);
            }
            ')' | ']' if !quoted => {
                depth -= 1;
                word.push(c);
            }
            ' ' if !quoted && depth == 0 => {
                if !word.is_empty() {
                    all.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        all.push(word);
    }
    all
}

/// Whether a number is in a set such as `3`, `1,4` or `5:*`; `last`: what `*` stands for.
fn is_in(uid: u32, set: &str, last: u32) -> bool {
    let number = |text: &str| if text == "*" { last } else { text.parse().unwrap() };
    set.split(',').any(|part| match part.split_once(':') {
        Some((from, to)) => {
            let (from, to) = (number(from), number(to));
            (from.min(to)..=from.max(to)).contains(&uid)
        }
        None => number(part) == uid,
    })
}

/// Writes a flag as servers do.
fn as_written(flag: &str) -> String {
    let lower = flag.to_ascii_lowercase();
    match lower.char_indices().nth(1) {
        Some((at, c)) => format!("{}{}{}", &lower[..at], c.to_ascii_uppercase(), &lower[at + 1..]),
        None => lower,
    }
}

impl Talk<'_> {
    fn say(&mut self, line: &str) -> io::Result<()> {
        self.out.write_all(format!("{line}\r\n").as_bytes())
    }

    fn folder<'w>(&self, world: &'w mut World) -> &'w mut Folder {
        if self.open == Some(true) { &mut world.sent } else { &mut world.inbox }
    }

    /// Answers a command. `false`: it was the last one.
    fn command(&mut self) -> io::Result<bool> {
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        let line = line.trim_end().to_owned();
        let (tag, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let words = words(rest);
        let upper: Vec<String> = words.iter().map(|word| word.to_ascii_uppercase()).collect();
        let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
        if upper.first() != Some(&"LOGIN") {
            self.shared.world().asked.push(rest.to_owned());
            self.shared.changed.notify_all();
        }
        let done = match &upper[..] {
            ["CAPABILITY"] => {
                let idle = if self.shared.world().idles { " IDLE" } else { "" };
                let keeps = if self.shared.world().keeps_sent { " X-GM-EXT-1" } else { "" };
                self.say(&format!("* CAPABILITY IMAP4rev1 UIDPLUS SPECIAL-USE{idle}{keeps}"))?;
                "OK done"
            }
            ["LOGIN", ..] => {
                self.let_in = words.get(1).map(String::as_str) == Some(USER)
                    && words.get(2) == Some(&self.shared.world().password);
                if self.let_in { "OK in" } else { "NO [AUTHENTICATIONFAILED] Authentication failed." }
            }
            ["LOGOUT"] => {
                self.say("* BYE")?;
                self.say(&format!("{tag} OK bye"))?;
                return Ok(false);
            }
            ["NOOP"] => "OK done",
            _ if !self.let_in => "NO log in first",
            ["SELECT", name] => {
                self.open = Some(*name == "SENT");
                if !["SENT", "INBOX"].contains(name) {
                    "NO there is none"
                } else {
                    let mut world = self.shared.world();
                    let folder = self.folder(&mut world);
                    let (count, validity, next) = (folder.mails.len(), folder.validity, folder.next);
                    drop(world);
                    self.known = next;
                    self.say(&format!(
                        "* {count} EXISTS\r\n* 0 RECENT\r\n* FLAGS (\\Seen \\Draft \\Deleted)"
                    ))?;
                    self.say(&format!("* OK [UIDVALIDITY {validity}] valid\r\n* OK [UIDNEXT {next}] next"))?;
                    "OK [READ-WRITE] open"
                }
            }
            ["LIST", "", "*"] => {
                self.say(
                    "* LIST (\\HasNoChildren) \"/\" INBOX\r\n* LIST (\\HasNoChildren \\Sent) \"/\" \"Sent\"",
                )?;
                "OK done"
            }
            ["APPEND", "SENT", flags, size] => {
                let size: usize = size.trim_matches(['{', '}']).parse().unwrap();
                if self.shared.world().fault(|fault| fault == Fault::NoCopy).is_some() {
                    "NO [OVERQUOTA] it is full"
                } else {
                    self.say("+ go on")?;
                    let mut mail = vec![0; size + 2];
                    self.input.read_exact(&mut mail)?;
                    let flags: Vec<String> =
                        flags.trim_matches(['(', ')']).split(' ').map(as_written).collect();
                    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
                    self.shared.world().sent.add(&mail[..size], &flags);
                    "OK kept"
                }
            }
            ["IDLE"] if self.shared.world().idles => {
                self.idle()?;
                "OK done"
            }
            ["UID", "SEARCH", ..]
                if self.shared.world().fault(|fault| fault == Fault::NoSearch).is_some() =>
            {
                "NO [UNAVAILABLE] not now"
            }
            ["UID", "SEARCH", "UID", set] => {
                let mut world = self.shared.world();
                let folder = self.folder(&mut world);
                let last = folder.mails.last().map_or(0, |mail| mail.uid);
                let found: Vec<String> = folder
                    .mails
                    .iter()
                    .filter(|mail| is_in(mail.uid, set, last))
                    .map(|mail| mail.uid.to_string())
                    .collect();
                drop(world);
                self.say(format!("* SEARCH {}", found.join(" ")).trim_end())?;
                "OK done"
            }
            ["UID", "SEARCH", "HEADER", "MESSAGE-ID", _] => {
                let mut world = self.shared.world();
                let line = format!("message-id: {}", words[4]).to_ascii_lowercase();
                let folder = self.folder(&mut world);
                let has = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_ascii_lowercase().contains(&line);
                let found: Vec<String> = folder
                    .mails
                    .iter()
                    .filter(|mail| has(&mail.bytes))
                    .map(|mail| mail.uid.to_string())
                    .collect();
                drop(world);
                self.say(format!("* SEARCH {}", found.join(" ")).trim_end())?;
                "OK done"
            }
            ["UID", "FETCH", set, what] => {
                self.fetch(set, what)?;
                "OK done"
            }
            ["UID", "STORE", set, change, flags] => {
                let flags: Vec<String> = flags.trim_matches(['(', ')']).split(' ').map(as_written).collect();
                let mut world = self.shared.world();
                for mail in
                    self.folder(&mut world).mails.iter_mut().filter(|mail| is_in(mail.uid, set, u32::MAX))
                {
                    match *change {
                        "+FLAGS.SILENT" => mail.flags.extend(flags.clone()),
                        "-FLAGS.SILENT" => mail.flags.retain(|flag| !flags.contains(flag)),
                        other => panic!("{other}"),
                    }
                }
                "OK done"
            }
            ["UID", "EXPUNGE", set] => {
                let mut world = self.shared.world();
                self.folder(&mut world)
                    .mails
                    .retain(|mail| !(mail.flags.contains("\\Deleted") && is_in(mail.uid, set, u32::MAX)));
                "OK done"
            }
            _ => "BAD what",
        };
        // Beside an answer to another command, as servers do.
        if upper.get(1) == Some(&"STORE") && self.open == Some(false) {
            let (next, count) = {
                let world = self.shared.world();
                (world.inbox.next, world.inbox.mails.len())
            };
            if next != self.known {
                self.known = next;
                self.say(&format!("* {count} EXISTS"))?;
            }
        }
        self.say(&format!("{tag} {done}"))?;
        self.shared.changed.notify_all();
        Ok(true)
    }

    fn fetch(&mut self, set: &str, what: &str) -> io::Result<()> {
        let mut world = self.shared.world();
        let half = world.fault(|fault| fault == Fault::HalfRead).is_some();
        if what.contains("BODY") && world.fault(|fault| fault == Fault::Silent).is_some() {
            drop(world);
            return self.out.shutdown(std::net::Shutdown::Both);
        }
        let gibberish = what.contains("BODY") && world.fault(|fault| fault == Fault::Gibberish).is_some();
        let mails: Vec<_> = self
            .folder(&mut world)
            .mails
            .iter()
            .filter(|mail| is_in(mail.uid, set, u32::MAX))
            .cloned()
            .collect();
        drop(world);
        for (n, mail) in mails.iter().enumerate() {
            let flags: Vec<&str> = mail.flags.iter().map(String::as_str).collect();
            let head = format!("* {} FETCH (UID {} FLAGS ({})", n + 1, mail.uid, flags.join(" "));
            if gibberish {
                self.say("* 1 FETCH (UID x)")?;
                continue;
            }
            if !what.contains("BODY.PEEK[]") {
                self.say(&format!("{head})"))?;
                continue;
            }
            let most: usize = what.split_once("<0.").unwrap().1.split_once('>').unwrap().0.parse().unwrap();
            let bytes = &mail.bytes[..mail.bytes.len().min(most)];
            let size = mail.bytes.len();
            let head = format!(
                "{head} RFC822.SIZE {size} INTERNALDATE \"30-Nov-2026 10:00:00 +0000\" BODY[]<0> {{{}}}\r\n",
                bytes.len()
            );
            self.out.write_all(head.as_bytes())?;
            if half {
                self.out.write_all(&bytes[..bytes.len() / 2])?;
                self.out.shutdown(std::net::Shutdown::Both)?;
                return Ok(());
            }
            self.out.write_all(bytes)?;
            self.say(")")?;
        }
        Ok(())
    }

    /// Tells of new mails until it is told to end.
    fn idle(&mut self) -> io::Result<()> {
        self.say("+ idling")?;
        let (shared, mut out) = (self.shared, self.out.try_clone()?);
        let ended = std::sync::atomic::AtomicBool::new(false);
        shared.world().idle += 1;
        shared.changed.notify_all();
        let known = self.known;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut world = shared.world();
                while !ended.load(std::sync::atomic::Ordering::SeqCst) {
                    if world.inbox.next != known {
                        let line = format!("* {} EXISTS\r\n", world.inbox.mails.len());
                        // A client that is gone is not told.
                        let _ = out.write_all(line.as_bytes());
                        return;
                    }
                    let waited = shared.changed.wait_timeout(world, Duration::from_millis(200));
                    world = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            });
            let mut line = String::new();
            let read = self.input.read_line(&mut line);
            ended.store(true, std::sync::atomic::Ordering::SeqCst);
            shared.world().idle -= 1;
            shared.changed.notify_all();
            read.map(drop)
        })?;
        self.known = shared.world().inbox.next;
        Ok(())
    }
}

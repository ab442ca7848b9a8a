//! A mail of ours, as it goes out. Pure, but for the time that it is given the date of.

use std::time::SystemTime;

use lettre::{
    Address, Message,
    message::{
        Attachment, Body, Mailbox, MultiPart, SinglePart,
        header::{ContentTransferEncoding, ContentType, Header, HeaderName, HeaderValue},
    },
};

use super::{notes::Note, settings::Settings};

/// The longest subject that is made of a text, characters.
const LONGEST_SUBJECT: usize = 70;

/// A mail to write.
pub(super) struct Draft<'a> {
    pub(super) settings: &'a Settings,
    /// Its `Message-ID`, without brackets.
    pub(super) id: &'a str,
    pub(super) to: &'a str,
    /// The thread that it goes to.
    pub(super) thread: Option<&'a Note>,
    /// The mail that it answers, where that is another one than the thread's newest.
    pub(super) answered: Option<&'a str>,
    /// Others who get it.
    pub(super) copies: &'a [String],
    pub(super) text: &'a str,
    pub(super) html: Option<&'a str>,
    pub(super) files: Vec<File>,
    pub(super) said_as: Option<&'a str>,
    pub(super) now: SystemTime,
}

/// A file of it.
pub(super) struct File {
    pub(super) name: String,
    pub(super) mime: String,
    pub(super) bytes: Vec<u8>,
}

/// Programs that answer by themselves leave a mail with these words alone.
#[derive(Clone)]
struct AutoSubmitted(String);
#[derive(Clone)]
struct SuppressAnswers(String);

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }
    fn parse(s: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self(s.to_owned()))
    }
    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), self.0.clone())
    }
}

impl Header for SuppressAnswers {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("X-Auto-Response-Suppress")
    }
    fn parse(s: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self(s.to_owned()))
    }
    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), self.0.clone())
    }
}

/// Writes a mail.
///
/// # Errors
/// What of it can't be written.
pub(super) fn write(draft: Draft<'_>) -> Result<Vec<u8>, String> {
    let bad = |error: &dyn std::fmt::Display| error.to_string();
    let address = |text: &str| text.parse::<Address>().map_err(|error| format!("{text}: {error}"));
    let name = draft.said_as.unwrap_or(&draft.settings.name);
    let name = Some(one_line(name)).filter(|name| !name.is_empty());
    let answers = draft.thread.is_some() || draft.answered.is_some();
    let mut mail = Message::builder()
        .from(Mailbox::new(name, address(&draft.settings.address)?))
        .to(Mailbox::new(None, address(draft.to)?))
        .subject(subject(draft.thread, draft.text))
        .date(draft.now)
        .message_id(Some(format!("<{}>", draft.id)))
        .header(AutoSubmitted(if answers { "auto-replied" } else { "auto-generated" }.into()))
        .header(SuppressAnswers("OOF, AutoReply".into()));
    for copy in draft.copies {
        mail = mail.cc(Mailbox::new(None, address(copy)?));
    }
    let parent = draft.answered.or(draft.thread.map(|note| &note.id[..]));
    if let Some(parent) = parent {
        let root = draft.thread.map(|note| &note.root[..]).filter(|root| !root.is_empty() && *root != parent);
        let references: Vec<String> = root.into_iter().chain([parent]).map(|id| format!("<{id}>")).collect();
        mail = mail.in_reply_to(format!("<{parent}>")).references(references.join(" "));
    }
    let plain = SinglePart::plain(draft.text.replace('\r', ""));
    let words = match draft.html {
        Some(html) => MultiPart::alternative()
            .singlepart(plain)
            .singlepart(SinglePart::html(format!("<html><body>{}</body></html>", html.replace('\r', "")))),
        None => MultiPart::mixed().singlepart(plain),
    };
    let body = if draft.files.is_empty() {
        words
    } else {
        let mut all = MultiPart::mixed().multipart(words);
        for file in draft.files {
            let kind = ContentType::parse(&file.mime)
                .or_else(|_| ContentType::parse("application/octet-stream"))
                .map_err(|error| bad(&error))?;
            // As they are, the lines of a file could end the mail for a server, and go on as commands.
            let body = Body::new_with_encoding(file.bytes, ContentTransferEncoding::Base64)
                .map_err(|_| "a file can't be written as base64".to_owned())?;
            all = all.singlepart(Attachment::new(one_line(&file.name)).body(body, kind));
        }
        all
    };
    Ok(mail.multipart(body).map_err(|error| bad(&error))?.formatted())
}

/// Returns the subject: the thread's, otherwise how the text begins.
fn subject(thread: Option<&Note>, text: &str) -> String {
    let of_thread = thread.map(|note| one_line(&note.subject)).unwrap_or_default();
    if !of_thread.is_empty() {
        let is_answer = of_thread.get(..3).is_some_and(|head| head.eq_ignore_ascii_case("re:"));
        return if is_answer { of_thread } else { format!("Re: {of_thread}") };
    }
    let first = text.lines().map(one_line).find(|line| !line.is_empty()).unwrap_or_default();
    let cut: String = first.chars().take(LONGEST_SUBJECT).collect();
    match cut.len() < first.len() {
        true => format!("{}…", cut.rsplit_once(' ').map_or(&cut[..], |(whole, _)| whole)),
        false => cut,
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings() -> Settings {
        let table =
            json!({"token": "x", "user": "agent@us.example", "imap": "x", "smtp": "x", "name": "G2 é"});
        Settings::read(table.as_object().unwrap()).unwrap()
    }

    fn written(thread: Option<&Note>, text: &str, files: Vec<File>) -> String {
        let settings = settings();
        let draft = Draft {
            settings: &settings,
            id: "g2.k.1@us.example",
            to: "ada@example.org",
            thread,
            answered: None,
            copies: &[],
            text,
            html: Some("<p>x</p>"),
            files,
            said_as: None,
            now: SystemTime::UNIX_EPOCH,
        };
        String::from_utf8(write(draft).unwrap()).unwrap()
    }

    #[test]
    fn an_answer_goes_into_its_thread_and_says_that_nobody_typed_it() {
        let note = Note {
            id: "b@x".into(),
            root: "a@x".into(),
            subject: "plans\r\nBcc: x@y.z".into(),
            ..Note::default()
        };
        let mail = written(Some(&note), "grün", Vec::new());
        for line in [
            "Message-ID: <g2.k.1@us.example>",
            "In-Reply-To: <b@x>",
            "References: <a@x> <b@x>",
            "Auto-Submitted: auto-replied",
            "Subject: Re: plans  Bcc: x@y.z",
            "To: ada@example.org",
        ] {
            assert!(mail.lines().any(|one| one == line), "{line}\n{mail}");
        }
        assert!(mail.contains("multipart/alternative") && mail.is_ascii());
        assert!(!mail.lines().any(|line| line.starts_with("Bcc:")));
    }

    #[test]
    fn a_mail_of_its_own_begins_a_thread_and_is_called_as_its_text_begins() {
        let mail = written(None, "\n\nThe weather\nis fine", Vec::new());
        assert!(
            mail.contains("\r\nSubject: The weather\r\n") && mail.contains("Auto-Submitted: auto-generated")
        );
        assert!(!mail.contains("In-Reply-To"));
        let long = subject(None, &"word ".repeat(50));
        assert!(long.ends_with("word…") && long.chars().count() <= LONGEST_SUBJECT + 1, "{long}");
        let note = |subject: &str| Note { subject: subject.into(), ..Note::default() };
        assert_eq!(subject(Some(&note("RE: x")), ""), "RE: x");
    }

    #[test]
    fn files_go_with_it() {
        let file =
            |name: &str, mime: &str| File { name: name.into(), mime: mime.into(), bytes: b"abc".to_vec() };
        let mail = written(None, "x", vec![file("a\r\nb.txt", "text/plain"), file("ü.bin", "no type")]);
        assert!(mail.contains("multipart/mixed") && mail.contains("filename=\"a  b.txt\""), "{mail}");
        assert!(mail.contains("application/octet-stream"));
    }

    #[test]
    fn no_line_of_a_text_or_a_file_is_a_command_to_the_server() {
        let hostile = "x\n.\nMAIL FROM:<agent@us.example>\rRCPT TO:<victim@example.org>\n.\r\n";
        let file = File { name: "a.txt".into(), mime: "text/plain".into(), bytes: hostile.into() };
        let mail = written(None, hostile, vec![file]);
        assert!(!mail.replace("\r\n", "").contains(['\r', '\n']), "{mail}");
        assert_eq!(mail.matches("MAIL FROM").count(), 1, "the text alone has it as it is");
    }
}

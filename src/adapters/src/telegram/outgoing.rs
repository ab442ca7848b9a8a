//! The way out: texts and files are sent, changed and fetched; a failure is judged.

use std::{
    fs,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::PoisonError,
    time::Duration,
};

use channel_protocol::{Amend, Fetch, File, Light, NotSent, Scope, Send};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Telegram,
    api::ANSWER,
    body::Part,
    judge::{self, Fault},
    read::LARGEST_IN,
    write::{self, Call},
};
use crate::kit::Outcome;

/// How often a change is tried again whose end is unknown: done twice it is the same.
const AMEND_TRIES: usize = 3;

impl Telegram {
    pub(super) async fn put(&self, send: &Send) -> Result<Outcome, Outcome> {
        let size =
            send.attachments.first().map(|file| self.open(file)).transpose()?.map_or(0, |(_, size)| size);
        let call = write::send(&self.start.prefix, send, size, self.ways)?;
        let mut done = self.ask(&call).await?;
        if let Err(fault) = &done
            && judge::takes_as_document(fault)
            && let Some(plain) = write::as_document(&call)
        {
            done = self.ask(&plain).await?;
        }
        Ok(match done {
            Ok(result) => Outcome::Sent(ids(&result)),
            Err(fault) => self.judge(&send.chat, &fault).await,
        })
    }

    pub(super) async fn change(&self, amend: &Amend) -> Result<Outcome, Outcome> {
        let mut call = write::amend(&self.start.prefix, amend, self.ways)?;
        let mut outcome = Outcome::Unknown(String::new());
        for _ in 0..AMEND_TRIES {
            let mut done = self.api.call(call.method, &call.params).await;
            if let Err(fault) = &done
                && judge::is_caption(fault)
                && let Some(beside) = write::as_caption(&call)
            {
                call = beside;
                done = self.api.call(call.method, &call.params).await;
            }
            outcome = match done {
                Ok(_) => Outcome::Sent(Vec::new()),
                Err(fault) => self.judge(&amend.chat, &fault).await,
            };
            if !matches!(outcome, Outcome::Unknown(_)) {
                break;
            }
        }
        Ok(outcome)
    }

    /// Makes a request with its files.
    async fn ask(&self, call: &Call) -> Result<Result<Value, Fault>, Outcome> {
        let mut parts = Vec::new();
        let mut bytes = 0;
        for (field, file) in &call.files {
            let (open, size) = self.open(file)?;
            bytes += size;
            let (name, mime) = (file.name.clone(), file.mime.clone());
            parts.push(Part { field: field.clone(), name, mime, file: open, size });
        }
        let most = write::LARGEST_OUT;
        if bytes > most {
            let text = format!("it has {bytes} bytes, and Telegram takes at most {most} from a bot");
            return Err(Outcome::refused("too_large", text, "send a link, or a smaller file"));
        }
        // Slow lines have 100 kB a second.
        let within = ANSWER + Duration::from_millis(bytes / 100);
        Ok(self.api.ask(call.method, &call.params, parts, within).await.map(|answer| answer.result))
    }

    /// Says what a failed request means, and does what follows from it.
    async fn judge(&self, chat: &str, fault: &Fault) -> Outcome {
        let mut scope = Scope::Chat;
        if let Fault::Told(told) = fault {
            if let Some(to) = told.parameters.migrate_to_chat_id {
                let to = format!("{}:{to}", self.start.prefix);
                let _ = self.host.moved(chat.to_owned(), to).await;
            }
            scope = self.note_busy(chat, told.parameters.retry_after);
        }
        let outcome = judge::outcome(fault, scope);
        let offline = matches!(outcome, Outcome::NotSent(NotSent::Offline));
        let outbound = if offline { Light::Waiting } else { Light::Ok };
        let _ = self.light(|state| state.outbound = outbound).await;
        outcome
    }

    /// Notes that Telegram wants to be left alone. Telegram does not say by whom: if a second chat is told so while the first
    /// one waits, it means the account.
    pub(super) fn note_busy(&self, chat: &str, seconds: Option<u64>) -> Scope {
        let Some(seconds) = seconds else { return Scope::Chat };
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let other = busy.as_ref().is_some_and(|(waits, until)| waits != chat && *until > now);
        *busy = Some((chat.to_owned(), now + Duration::from_secs(seconds.min(86_400))));
        if other { Scope::Account } else { Scope::Chat }
    }

    pub(super) fn has_to_wait(&self, chat: &str) -> bool {
        let busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.as_ref().is_some_and(|(waits, until)| waits == chat && *until > Instant::now())
    }

    /// Opens a file of the spool, and returns its size.
    fn open(&self, file: &File) -> Result<(fs::File, u64), Outcome> {
        let opened = rustix::fs::open(
            &self.start.spool,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .and_then(|spool| {
            let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            rustix::fs::openat2(spool, &file.file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty(), how)
        })
        .map_err(std::io::Error::from)
        .and_then(|fd| {
            let open = fs::File::from(fd);
            let size = open.metadata()?.len();
            Ok((open, size))
        });
        opened.map_err(|error| {
            Outcome::refused("no_file", format!("{:?} can't be read: {error}", file.file), "")
        })
    }

    /// Fetches a file into the spool.
    pub(super) async fn bring(&self, what: &Fetch) -> Result<String, String> {
        let params = json!({"file_id": what.what}).as_object().cloned().unwrap_or_default();
        let file = self.api.call("getFile", &params).await.map_err(|fault| fault.to_string())?;
        let path = file.get("file_path").and_then(Value::as_str).ok_or("Telegram says no place of it")?;
        let most = what.most.min(LARGEST_IN);
        if file.get("file_size").and_then(Value::as_u64).is_some_and(|size| size > most) {
            return Err(format!("it has more than {most} bytes"));
        }
        let name = format!("in/{}", what.r);
        let place: PathBuf = Path::new(&self.start.spool).join(&name);
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place);
        let mut into = made.map_err(|error| format!("it can't be stored: {error}"))?;
        let brought =
            tokio::time::timeout(Duration::from_secs(300), self.api.download(path, &mut into, most)).await;
        match brought.unwrap_or_else(|_| Err("it took more than 5 minutes".into())) {
            Ok(()) => Ok(name),
            Err(why) => {
                let _ = rustix::fs::unlink(&place);
                Err(why)
            }
        }
    }
}

/// The ids of what was sent: one message, or several of an album.
fn ids(result: &Value) -> Vec<String> {
    let id = |message: &Value| message.get("message_id").and_then(Value::as_i64).map(|id| id.to_string());
    match result {
        Value::Array(messages) => messages.iter().filter_map(id).collect(),
        message => id(message).into_iter().collect(),
    }
}

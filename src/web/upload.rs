//! Files that come with a message at the page: streamed into the folder of the message, where the local channel takes them.

use std::{
    fs::File,
    io::{ErrorKind, Write as _},
    sync::Arc,
};

use axum::{
    body::{Body, BodyDataStream},
    extract::FromRequest as _,
    http::{Request, Response, StatusCode, header},
    response::IntoResponse,
};
use tokio::sync::{OwnedSemaphorePermit as Place, Semaphore};

use super::{
    Visitor, Web,
    act::Fields,
    parted::{Head, Parts, Unreadable, boundary},
};
use crate::{
    channels::local::MOST_FILES,
    ops::{OpCode, OpError},
    root::Receiving,
    system::disk::free_bytes,
};

/// The longest texts of a form, all together, bytes.
const TEXTS: usize = 256 << 10;
/// How many texts a form may have, and how much of [`TEXTS`] one takes beside its bytes.
const MANY: usize = 32;
const EACH: usize = 64;
/// How many forms may be read at a time, and how many of them with files.
const FORMS: usize = 16;
const WITH_FILES: usize = 2;

/// The places for forms that are read, and for those with files.
pub(super) struct Places {
    forms: Arc<Semaphore>,
    with_files: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Self { forms: Arc::new(Semaphore::new(FORMS)), with_files: Arc::new(Semaphore::new(WITH_FILES)) }
    }
}

fn free(places: &Arc<Semaphore>) -> Option<Place> {
    Arc::clone(places).try_acquire_owned().ok()
}

/// A form with a message, and the files that came with it. The files lie there as long as this lives, and it has its place until they
/// are gone.
pub(super) struct Came {
    pub(super) fields: Fields,
    pub(super) files: Vec<String>,
    /// What tells this message from every other one; it names the folder of its files.
    pub(super) key: String,
    /// A file that can't be taken, and why; then nothing of the message is.
    pub(super) refused: Option<OpError>,
    _folder: Option<Receiving>,
    _places: [Option<Place>; 2],
}

/// Reads a form with a message.
///
/// # Errors
/// The answer to one that is not ours.
pub(super) async fn receive(
    web: &Arc<Web>,
    visitor: &Visitor,
    request: Request<Body>,
) -> Result<Came, Response<Body>> {
    let Some(boundary) = boundary(request.headers()).map(str::to_owned) else {
        let fields = Fields::from_request(request, web).await.map_err(IntoResponse::into_response)?;
        let key = key_of(web, fields.get("key")).map_err(keyless)?;
        return Ok(Came {
            fields,
            files: Vec::new(),
            key,
            refused: None,
            _folder: None,
            _places: [None, None],
        });
    };
    let Some(form) = free(&web.uploads.forms) else { return Err(busy()) };
    let largest = web.config.now().media.largest;
    let most = largest.saturating_mul(MOST_FILES as u64).saturating_add(1 << 20);
    let mut taking = Taking {
        web,
        parts: Parts::new(request.into_body().into_data_stream(), &boundary, most),
        largest,
        texts: Vec::new(),
        room: TEXTS,
        files: Vec::new(),
        folder: None,
        key: None,
        with_files: None,
    };
    let taken = taking.all(&visitor.forms).await;
    let Taking { mut parts, texts, files, mut folder, key, with_files, .. } = taking;
    let refused = match taken {
        Ok(()) => None,
        Err(NotTaken::Foreign) => return Err(foreign()),
        Err(NotTaken::Refused(refused)) => {
            drop(folder.take());
            parts.pass_over().await;
            Some(refused)
        }
    };
    let fields = Fields::of_parts(texts, &visitor.forms).ok_or_else(foreign)?;
    let key = match key {
        Some(key) => key,
        None => key_of(web, fields.get("key")).map_err(keyless)?,
    };
    Ok(Came { fields, files, key, refused, _folder: folder, _places: [Some(form), with_files] })
}

/// The answer while too many forms are read; nothing of this one is.
fn busy() -> Response<Body> {
    let text = "too many messages are on their way at the moment; send it again\n";
    let headers = [(header::RETRY_AFTER, "1"), (header::CONNECTION, "close")];
    (StatusCode::SERVICE_UNAVAILABLE, headers, text).into_response()
}

fn foreign() -> Response<Body> {
    (StatusCode::FORBIDDEN, "the form is of another session; load the page again\n").into_response()
}

/// Returns the key of a message. The same form sent twice is one message.
fn key_of(web: &Web, said: &str) -> std::io::Result<String> {
    let key = if said.is_empty() { web.world.id()? } else { said.to_owned() };
    Ok(format!("page-{key}"))
}

/// The answer where the kernel gives no random number.
fn keyless(error: std::io::Error) -> Response<Body> {
    let text = format!("reading a random number from the kernel: {error}\n");
    (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
}

/// Why a form is not taken.
enum NotTaken {
    /// It has not the token of the session.
    Foreign,
    Refused(OpError),
}

impl From<OpError> for NotTaken {
    fn from(error: OpError) -> Self {
        Self::Refused(error)
    }
}

impl From<Unreadable> for NotTaken {
    fn from(error: Unreadable) -> Self {
        OpError::invalid(error.to_string()).into()
    }
}

impl From<std::io::Error> for NotTaken {
    fn from(error: std::io::Error) -> Self {
        OpError::new(OpCode::Failed, format!("a file can’t be kept: {error}")).into()
    }
}

/// A form that is being read.
struct Taking<'a> {
    web: &'a Web,
    parts: Parts<BodyDataStream>,
    largest: u64,
    texts: Vec<(String, String)>,
    /// How many bytes of texts may still come.
    room: usize,
    files: Vec<String>,
    folder: Option<Receiving>,
    /// The key by which its folder is called.
    key: Option<String>,
    /// Its place among the forms with files, once it has one.
    with_files: Option<Place>,
}

impl Taking<'_> {
    async fn all(&mut self, forms: &str) -> Result<(), NotTaken> {
        // Nothing is kept of a foreign form: its token comes first.
        match self.parts.next().await {
            Ok(Some(Head { name, file: None })) if name == "token" => self.text(name).await.ok(),
            Ok(_) | Err(_) => None,
        };
        if self.said("token") != forms {
            return Err(NotTaken::Foreign);
        }
        while let Some(head) = self.parts.next().await? {
            match head {
                Head { name, file: None } => self.text(name).await?,
                // A form in which no file is chosen has one without a name.
                Head { file: Some(name), .. } if name.is_empty() => {}
                Head { file: Some(name), .. } => {
                    if self.with_files.is_none() {
                        let busy = OpError::refused("other files are on their way at the moment");
                        let place = free(&self.web.uploads.with_files);
                        self.with_files =
                            Some(place.ok_or_else(|| busy.hint("send these again when they have come"))?);
                    }
                    self.file(&name).await?;
                }
            }
        }
        Ok(())
    }

    fn said(&self, name: &str) -> &str {
        self.texts.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
    }

    async fn text(&mut self, name: String) -> Result<(), NotTaken> {
        let long = || OpError::invalid(format!("the message has more than {TEXTS} bytes"));
        if self.texts.len() >= MANY {
            return Err(OpError::invalid(format!("the form has more than {MANY} texts")).into());
        }
        self.room = self.room.checked_sub(name.len() + EACH).ok_or_else(long)?;
        let mut text = Vec::new();
        while let Some(piece) = self.parts.piece().await? {
            self.room = self.room.checked_sub(piece.len()).ok_or_else(long)?;
            text.extend(piece);
        }
        self.texts.push((name, String::from_utf8_lossy(&text).into_owned()));
        Ok(())
    }

    /// Takes a file, as it comes, to the folder of its message.
    async fn file(&mut self, told: &str) -> Result<(), NotTaken> {
        if self.files.len() >= MOST_FILES {
            return Err(OpError::invalid(format!("at most {MOST_FILES} files go with a message")).into());
        }
        let (data, world) = (self.web.root.join("data"), self.web.world.clone());
        let min_free = self.web.config.now().limits.min_free_bytes;
        let needs = min_free.saturating_add(self.largest);
        if free_bytes(&data).is_some_and(|free| free < needs) {
            return Err(OpError::new(OpCode::NoRoom, "there is no room on the disk for files").into());
        }
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => {
                // A message has the key of its folder: under another one its files would not be found.
                if self.said("key").is_empty() {
                    return Err(OpError::invalid("the form has no key before its files")
                        .hint("load the page again")
                        .into());
                }
                let key = key_of(self.web, self.said("key"))?;
                let folder = Receiving::begin(&data, &key).map_err(|error| match error.kind() {
                    ErrorKind::AlreadyExists => OpError::refused("this message is on its way already").into(),
                    _ => NotTaken::from(error),
                })?;
                self.key = Some(key);
                folder
            }
        };
        let (mut file, name) = self.folder.insert(folder).file(told)?;
        let mut left = self.largest;
        while let Some(piece) = self.parts.piece().await? {
            let large = || {
                OpError::invalid(format!(
                    "{name} has more than {} MiB; at most these are taken",
                    self.largest >> 20
                ))
            };
            left = left.checked_sub(piece.len() as u64).ok_or_else(large)?;
            file = world.tried(move || written(file, &piece)).await?;
        }
        self.files.push(name);
        Ok(())
    }
}

fn written(mut file: File, piece: &[u8]) -> std::io::Result<File> {
    file.write_all(piece)?;
    Ok(file)
}

//! The body of a request, which knows how far it was written.

use std::{
    collections::VecDeque,
    fs,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io::{self, Read as _},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use serde_json::{Map, Value};

use super::judge::Fault;

/// How much of a file is held at once.
const PIECE: usize = 64 * 1024;

/// How far a body was written, at most: what was handed on may not have left the machine.
#[derive(Clone, Default)]
pub(super) struct Written(Arc<AtomicU8>);

impl Written {
    const PART: u8 = 1;
    const WHOLE: u8 = 2;

    /// Says what a broken connection means.
    pub(super) fn fault(&self, why: String) -> Fault {
        match self.0.load(Ordering::SeqCst) {
            Self::WHOLE => Fault::NoAnswer(why),
            Self::PART => Fault::Cut(why),
            _ => Fault::Offline(why),
        }
    }
}

enum Piece {
    Bytes(Bytes),
    File(fs::File, u64),
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(_, left) => *left,
        }
    }
}

/// A body of known length.
pub(super) struct Upload {
    pieces: VecDeque<Piece>,
    left: u64,
    written: Written,
}

impl Upload {
    fn new(pieces: VecDeque<Piece>) -> Self {
        let left = pieces.iter().map(Piece::len).sum();
        Self { pieces, left, written: Written::default() }
    }

    pub(super) fn bytes(bytes: Vec<u8>) -> Self {
        Self::new(VecDeque::from([Piece::Bytes(bytes.into())]))
    }

    /// Makes a form of fields and files. Returns its content type, too.
    pub(super) fn form(fields: &Map<String, Value>, files: Vec<Part>) -> (Self, String) {
        let boundary = unguessed();
        let mut pieces = VecDeque::new();
        for (name, value) in fields {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let head =
                format!("--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
            pieces.push_back(Piece::Bytes(head.into()));
        }
        for part in files {
            let (field, name) = (&part.field, quoted(&part.name));
            let mime = if is_mime(&part.mime) { &part.mime } else { "application/octet-stream" };
            let head = format!(
                "--{boundary}\r\ncontent-disposition: form-data; name=\"{field}\"; filename=\"{name}\"\r\n\
                 content-type: {mime}\r\n\r\n"
            );
            pieces.push_back(Piece::Bytes(head.into()));
            pieces.push_back(Piece::File(part.file, part.size));
            pieces.push_back(Piece::Bytes(Bytes::from_static(b"\r\n")));
        }
        pieces.push_back(Piece::Bytes(format!("--{boundary}--\r\n").into()));
        (Self::new(pieces), format!("multipart/form-data; boundary={boundary}"))
    }

    pub(super) fn len(&self) -> u64 {
        self.left
    }

    pub(super) fn written(&self) -> Written {
        self.written.clone()
    }

    fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let Some(piece) = self.pieces.front_mut() else { return Ok(None) };
            let bytes = match piece {
                Piece::Bytes(bytes) => std::mem::take(bytes),
                Piece::File(_, 0) => Bytes::new(),
                Piece::File(file, left) => {
                    let mut buffer = vec![0; PIECE.min(usize::try_from(*left).unwrap_or(PIECE))];
                    let read = file.read(&mut buffer)?;
                    if read == 0 {
                        return Err(io::Error::other("the file became shorter"));
                    }
                    buffer.truncate(read);
                    *left -= read as u64;
                    buffer.into()
                }
            };
            if piece.len() == 0 {
                self.pieces.pop_front();
            }
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        Poll::Ready(match this.next() {
            Ok(Some(bytes)) => {
                this.left -= bytes.len() as u64;
                let far = if this.left == 0 { Written::WHOLE } else { Written::PART };
                this.written.0.store(far, Ordering::SeqCst);
                Some(Ok(Frame::data(bytes)))
            }
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A file of a form.
pub(super) struct Part {
    pub(super) field: String,
    pub(super) name: String,
    pub(super) mime: String,
    pub(super) file: fs::File,
    pub(super) size: u64,
}

/// A line that no file holds: who makes a file could end it otherwise, and go on with fields such as another chat.
fn unguessed() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("g2-{:016x}{:016x}", random(), random())
}

/// A name that stays within its quotes and its line.
fn quoted(name: &str) -> String {
    let name: String = name.chars().filter(|c| !c.is_control()).take(200).collect();
    let name = name.replace('\\', "_").replace('"', "%22");
    if name.is_empty() { "file".into() } else { name }
}

fn is_mime(mime: &str) -> bool {
    let fine = |c: u8| c.is_ascii_alphanumeric() || b"/+.-_".contains(&c);
    mime.len() < 100 && mime.contains('/') && mime.bytes().all(fine)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_form_has_the_length_that_it_says_and_names_keep_to_their_line() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b'x'; PIECE * 2 + 7]).unwrap();
        file.rewind().unwrap();
        let part = Part {
            field: "photo".into(),
            name: "a\"\r\nb.png".into(),
            mime: "image/png\r\nx: y".into(),
            size: PIECE as u64 * 2 + 7,
            file,
        };
        let fields = serde_json::json!({"chat_id": 5, "caption": "é"});
        let (body, kind) = Upload::form(fields.as_object().unwrap(), vec![part]);
        let (_, boundary) = kind.split_once("multipart/form-data; boundary=").unwrap();
        let (_, other) = Upload::form(&Map::new(), Vec::new());
        assert!(!other.contains(boundary), "nobody guesses it");
        let (len, written) = (body.len(), body.written());
        assert!(matches!(written.fault(String::new()), Fault::Offline(_)));
        let bytes = body.collect().await.unwrap().to_bytes();
        assert_eq!(bytes.len() as u64, len);
        assert!(matches!(written.fault(String::new()), Fault::NoAnswer(_)));
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains(
            "name=\"photo\"; filename=\"a%22b.png\"\r\ncontent-type: application/octet-stream\r\n"
        ));
        assert!(text.contains("name=\"chat_id\"\r\n\r\n5\r\n") && text.contains("\r\n\r\né\r\n"));
    }

    #[tokio::test]
    async fn a_body_that_was_not_whole_is_not_acted_on() {
        let file = tempfile::tempfile().unwrap();
        let part = Part { field: "f".into(), name: "n".into(), mime: "a/b".into(), size: 10, file };
        let (body, _) = Upload::form(&Map::new(), vec![part]);
        let written = body.written();
        assert!(body.collect().await.is_err(), "the file is shorter than it was");
        assert!(matches!(written.fault(String::new()), Fault::Cut(_)));
    }
}

//! A body in parts (`multipart/form-data`), as browsers send files: read as it comes, never held as a whole.

use std::time::Duration;

use axum::{
    body::Bytes,
    http::{HeaderMap, header},
};
use futures_util::{Stream, StreamExt as _};
use tokio::time::timeout;

use crate::domain::shown::errors::chain;

/// The longest head of a part, bytes.
const HEAD: usize = 4 << 10;
/// The longest boundary between parts, bytes.
const BOUNDARY: usize = 70;
/// How long nothing may come.
const SILENCE: Duration = Duration::from_secs(30);
/// How long what is not read may go on to come, and how much of it, bytes. Afterwards the connection ends, without an answer.
const PASSING: Duration = Duration::from_mins(1);
const PASSED: u64 = 256 << 20;

/// Why a body can't be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("the form ended before its end")]
    Cut,
    #[error("nothing more of the form came for {} s", SILENCE.as_secs())]
    Silent,
    #[error("the form has more than {0} bytes")]
    Long(u64),
    #[error("the form is not written as browsers write it")]
    Strange,
}

/// What stands before a part.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The name of the field.
    pub(super) name: String,
    /// The name of the file, if it is one.
    pub(super) file: Option<String>,
}

/// The parts of a body, one after the other.
pub(super) struct Parts<S> {
    body: S,
    /// What came last. It is cut off once for each piece that comes: a piece may hold very many parts.
    came: Vec<u8>,
    /// How much of it was read.
    read: usize,
    /// What stands between two parts.
    between: Vec<u8>,
    /// How much may still come, bytes, and how much there may be in all.
    left: u64,
    most: u64,
}

/// Returns what stands between the parts of a body with these headers; `None`: it has no parts.
pub(super) fn boundary(headers: &HeaderMap) -> Option<&str> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let rest = kind.strip_prefix("multipart/form-data")?;
    let said = rest.split(';').find_map(|part| part.trim().strip_prefix("boundary="))?;
    Some(said.trim_matches('"')).filter(|said| (1..=BOUNDARY).contains(&said.len()))
}

impl<S, E> Parts<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::error::Error,
{
    /// Reads at most `most` bytes.
    pub(super) fn new(body: S, boundary: &str, most: u64) -> Self {
        // The first boundary stands without the end of a line before it.
        let (came, between) = (b"\r\n".to_vec(), format!("\r\n--{boundary}").into_bytes());
        Self { body, came, read: 0, between, left: most, most }
    }

    /// What came and was not read yet.
    fn waiting(&self) -> &[u8] {
        &self.came[self.read..]
    }

    /// Reads the next bytes of what waits.
    fn take(&mut self, count: usize) -> &[u8] {
        let from = self.read;
        self.read += count;
        &self.came[from..self.read]
    }

    /// Goes on to the next part; what was not read of the last one is passed over. `None`: there is none.
    pub(super) async fn next(&mut self) -> Result<Option<Head>, Unreadable> {
        while self.piece().await?.is_some() {}
        self.read += self.between.len();
        while self.waiting().len() < 2 {
            self.more().await?;
        }
        match &self.waiting()[..2] {
            b"--" => return Ok(None),
            b"\r\n" => {}
            _ => return Err(Unreadable::Strange),
        }
        let end = loop {
            let waiting = self.waiting();
            match found(&waiting[..waiting.len().min(HEAD)], b"\r\n\r\n") {
                Some(end) => break end,
                None if waiting.len() >= HEAD => return Err(Unreadable::Strange),
                None => self.more().await?,
            }
        };
        read(&String::from_utf8_lossy(self.take(end + 4))).map(Some).ok_or(Unreadable::Strange)
    }

    /// Returns the next piece of the part. `None`: that is all of it.
    pub(super) async fn piece(&mut self) -> Result<Option<Vec<u8>>, Unreadable> {
        loop {
            let sure = match found(self.waiting(), &self.between) {
                Some(0) => return Ok(None),
                Some(end) => end,
                // The rest may be the beginning of what stands between.
                None => self.waiting().len().saturating_sub(self.between.len() - 1),
            };
            if sure > 0 {
                return Ok(Some(self.take(sure).to_vec()));
            }
            self.more().await?;
        }
    }

    /// Passes over what still comes, so that who sends it reads the answer. It is bounded in time and size.
    pub(super) async fn pass_over(&mut self) {
        self.left = self.left.min(PASSED);
        let all = async {
            loop {
                self.read = self.came.len();
                if self.more().await.is_err() {
                    return;
                }
            }
        };
        let _late = timeout(PASSING, all).await;
    }

    async fn more(&mut self) -> Result<(), Unreadable> {
        let came = timeout(SILENCE, self.body.next()).await.map_err(|_| Unreadable::Silent)?;
        let piece = came.ok_or(Unreadable::Cut)?.map_err(|error| {
            tracing::debug!(error = %chain(&error), "a form that was sent to the page broke off");
            Unreadable::Cut
        })?;
        self.left = self.left.checked_sub(piece.len() as u64).ok_or(Unreadable::Long(self.most))?;
        self.came.drain(..std::mem::take(&mut self.read));
        self.came.extend_from_slice(&piece);
        Ok(())
    }
}

fn found(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// Reads the head of a part.
fn read(head: &str) -> Option<Head> {
    let line = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-disposition").then_some(value)
    })?;
    // Browsers write a quotation mark in a name as `%22`.
    let value = |key: &str| {
        let (_, rest) = line.split_once(&format!("; {key}=\""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    Some(Head { name: value("name")?, file: value("filename") })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    const BODY: &str = "--xyz\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\nhel\r\n--xy lo\r\n--xyz\r\n\
                        content-disposition: form-data; name=\"file\"; filename=\"a b.txt\"\r\nContent-Type: text/plain\r\n\r\n\r\n\r\n--xyz\r\n\
                        Content-Disposition: form-data; name=\"file\"; filename=\"\"\r\n\r\n\r\n--xyz--\r\n";

    /// Reads a body that comes in pieces of this many bytes.
    async fn all(body: &str, size: usize, most: u64) -> Result<Vec<(Head, String)>, Unreadable> {
        let pieces: Vec<Result<Bytes, Infallible>> =
            body.as_bytes().chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let mut parts = Parts::new(stream::iter(pieces), "xyz", most);
        let mut all = Vec::new();
        while let Some(head) = parts.next().await? {
            let mut text = Vec::new();
            while let Some(piece) = parts.piece().await? {
                assert!(!piece.is_empty());
                text.extend(piece);
            }
            all.push((head, String::from_utf8(text).unwrap()));
        }
        Ok(all)
    }

    #[tokio::test]
    async fn parts_are_the_same_however_a_body_is_cut_into_pieces() {
        let head = |name: &str, file: Option<&str>| Head { name: name.into(), file: file.map(Into::into) };
        let expected = [
            (head("text", None), "hel\r\n--xy lo".to_owned()),
            (head("file", Some("a b.txt")), "\r\n".to_owned()),
            (head("file", Some("")), String::new()),
        ];
        for size in 1..BODY.len() {
            assert_eq!(all(BODY, size, 4096).await.as_deref(), Ok(&expected[..]), "{size}");
        }
    }

    #[tokio::test]
    async fn a_body_that_is_cut_long_or_strange_is_refused() {
        for end in 0..BODY.len() - 4 {
            assert_eq!(all(&BODY[..end], 7, 4096).await, Err(Unreadable::Cut), "{end}");
        }
        assert_eq!(all(BODY, 7, 100).await, Err(Unreadable::Long(100)));
        let long = format!("--xyz\r\n{}", "x".repeat(HEAD + 1));
        for strange in ["--xyz!!", "--xyz\r\nno head\r\n\r\n\r\n--xyz--", long.as_str()] {
            assert_eq!(all(strange, 1000, 1 << 20).await, Err(Unreadable::Strange), "{strange:.20}");
        }
    }

    #[tokio::test]
    async fn what_is_passed_over_is_bounded() {
        let body = stream::repeat(Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 1 << 20])));
        let mut parts = Parts::new(body, "xyz", u64::MAX);
        parts.pass_over().await;
        assert_eq!((parts.left, parts.waiting().len()), (0, 0));
    }

    #[tokio::test]
    async fn very_many_parts_in_one_piece_cost_no_more_than_their_bytes() {
        let part = "--xyz\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\n\r\n";
        let body = format!("{}--xyz--\r\n", part.repeat(50_000));
        assert_eq!(all(&body, body.len(), u64::MAX).await.map(|all| all.len()), Ok(50_000));
    }

    #[test]
    fn only_a_form_in_parts_has_a_boundary() {
        for (kind, is) in [
            ("multipart/form-data; boundary=----WebKit7", Some("----WebKit7")),
            ("multipart/form-data; charset=utf-8; boundary=\"a b\"", Some("a b")),
            ("multipart/form-data; boundary=", None),
            ("multipart/mixed; boundary=x", None),
            ("application/x-www-form-urlencoded", None),
        ] {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind.parse().unwrap())]);
            assert_eq!(boundary(&headers), is, "{kind}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_body_makes_it_panic(body in "(--xyz|\r\n|--|x|; name=\"a\"|Content-Disposition: form-data){0,30}", size in 1_usize..40) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let _ = runtime.block_on(all(&body, size, 1 << 16));
        }
    }
}

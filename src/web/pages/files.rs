//! Files beside messages and texts, to be saved. A browser shows none of them: to it each is bytes. Beside a picture stands a small one
//! that is made of its pixels.

use std::{fs::File, io::Read as _, sync::Arc};

use axum::{
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderValue, Response, header},
};
use futures_util::stream;

use crate::{
    domain::platforms::attachments::{Attachment, safe_name},
    ops::{OpCode, OpError},
    system::world::World,
    web::{Web, layout::Failed},
};

/// How much of a file is read at a time, bytes.
const PIECE: usize = 64 << 10;

/// Answers with a file beside a message that came in.
pub(in crate::web) async fn heard(
    State(web): State<Arc<Web>>,
    Path((seq, n)): Path<(i64, usize)>,
) -> Result<Response<Body>, Failed> {
    let files = web.desk.store.attachments(seq).await?;
    take_down(&web, &files, n).await
}

/// Answers with a file of a text in the outbox.
pub(in crate::web) async fn said(
    State(web): State<Arc<Web>>,
    Path((id, n)): Path<(i64, usize)>,
) -> Result<Response<Body>, Failed> {
    let files = web.desk.store.attachments_said(id).await?;
    take_down(&web, &files, n).await
}

/// Answers with a small picture of a file beside a message that came in.
pub(in crate::web) async fn small_heard(
    State(web): State<Arc<Web>>,
    Path((seq, n)): Path<(i64, usize)>,
) -> Result<Response<Body>, Failed> {
    let files = web.desk.store.attachments(seq).await?;
    small(&web, &files, n).await
}

/// Answers with a small picture of a file of a text in the outbox.
pub(in crate::web) async fn small_said(
    State(web): State<Arc<Web>>,
    Path((id, n)): Path<(i64, usize)>,
) -> Result<Response<Body>, Failed> {
    let files = web.desk.store.attachments_said(id).await?;
    small(&web, &files, n).await
}

/// Whether a file may have a small picture, by the type that its first bytes told.
pub(super) fn may_be_small(file: &Attachment) -> bool {
    file.digest.is_some() && ["image/png", "image/jpeg"].contains(&file.mime.as_str())
}

/// Pixels that a program of ours made, never the bytes of the file.
async fn small(web: &Web, files: &[Attachment], n: usize) -> Result<Response<Body>, Failed> {
    let file = n.checked_sub(1).and_then(|n| files.get(n)).filter(|file| may_be_small(file));
    let none = || Failed::not_found("there is no small picture of this file");
    let digest = file.and_then(|file| file.digest).ok_or_else(none)?;
    let media = Arc::clone(&web.media);
    let made = web.pictures.of(digest, move || media.read(&digest)).await.map_err(|error| {
        OpError::new(OpCode::Failed, format!("a small picture could not be made: {error}"))
    })?;
    let mut response = Response::new(Body::from(made.ok_or_else(none)?));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("image/png"));
    Ok(response)
}

async fn take_down(web: &Web, files: &[Attachment], n: usize) -> Result<Response<Body>, Failed> {
    let file = n.checked_sub(1).and_then(|n| files.get(n));
    let Some((file, digest)) = file.and_then(|file| Some((file, file.digest?))) else {
        return Err(Failed::not_found("there is no such file"));
    };
    let media = Arc::clone(&web.media);
    let opened = web
        .world
        .blocking(move || {
            let kept = media.read(&digest)?;
            let size = kept.metadata()?.len();
            std::io::Result::Ok((kept, size))
        })
        .await?;
    let (kept, size) = opened.map_err(|error| {
        OpError::new(OpCode::Failed, format!("{} can't be read: {error}", safe_name(&file.name)))
    })?;
    let mut response =
        Response::new(Body::from_stream(stream::try_unfold((web.world.clone(), kept, size), piece)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    headers.insert(header::CONTENT_DISPOSITION, disposition(&file.name));
    Ok(response)
}

/// A file that is read, and what is left of it.
type Reading = (World, File, u64);

/// Reads on, at most what is left of the size that was told.
async fn piece((world, mut file, left): Reading) -> std::io::Result<Option<(Bytes, Reading)>> {
    if left == 0 {
        return Ok(None);
    }
    let reads = move || {
        let mut piece = vec![0; PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
        let count = file.read(&mut piece)?;
        piece.truncate(count);
        std::io::Result::Ok((piece, file))
    };
    let (piece, file) = world.tried(reads).await?;
    if piece.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let left = left - piece.len() as u64;
    Ok(Some((Bytes::from(piece), (world, file, left))))
}

/// Says that the file is to be kept, under a name that is no path and hides nothing.
fn disposition(name: &str) -> HeaderValue {
    let name = safe_name(name);
    let plain: String = name.chars().map(|c| if c.is_ascii() { c } else { '_' }).collect();
    let exact: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
    HeaderValue::try_from(format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}"))
        .unwrap_or(HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_kept_under_a_name_that_leads_nowhere() {
        for (name, header) in [
            ("report.pdf", "attachment; filename=\"report.pdf\"; filename*=UTF-8''report.pdf"),
            ("../../.bashrc", "attachment; filename=\"_.._.bashrc\"; filename*=UTF-8''_.._.bashrc"),
            (
                "a\"; x=\"b\r\nSet-Cookie: c",
                "attachment; filename=\"a___x__b__Set-Cookie__c\"; filename*=UTF-8''a___x__b__Set-Cookie__c",
            ),
            ("Überblick.pdf", "attachment; filename=\"_berblick.pdf\"; filename*=UTF-8''%C3%9Cberblick.pdf"),
            ("txt.\u{202e}fdp", "attachment; filename=\"txt._fdp\"; filename*=UTF-8''txt._fdp"),
        ] {
            assert_eq!(disposition(name), header, "{name:?}");
        }
    }
}

//! How WhatsApp is reached: by its own hosts, or by the one that the account's `upstream` names.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
};

use async_trait::async_trait;
use whatsapp_rust::{
    anyhow::Result,
    http::{HttpClient, HttpRequest, HttpResponse, UreqHttpClient},
    transport::TokioWebSocketTransportFactory,
    wacore::{
        download::DownloadWriter,
        net::{StreamingHttpResponse, UploadBody},
    },
};

/// The largest file that is fetched, bytes.
pub(crate) const LARGEST: u64 = 100 << 20;

/// Opens sockets.
pub(crate) fn sockets(upstream: Option<&str>) -> TokioWebSocketTransportFactory {
    match upstream {
        Some(url) => TokioWebSocketTransportFactory::new().with_url(url),
        None => TokioWebSocketTransportFactory::new(),
    }
}

/// Fetches and brings files, and asks for the newest version.
pub(crate) struct Web {
    client: UreqHttpClient,
    /// What stands in the place of every host.
    instead: Option<String>,
}

impl Web {
    pub(crate) fn new(upstream: Option<&str>) -> Self {
        // What surrounds a file takes some bytes more.
        let client = UreqHttpClient::new().with_max_body_bytes(LARGEST + (1 << 20));
        Self { client, instead: upstream.map(base) }
    }

    fn at(&self, request: HttpRequest) -> HttpRequest {
        match &self.instead {
            Some(base) => HttpRequest { url: moved(base, &request.url), ..request },
            None => request,
        }
    }
}

/// Returns what the addresses of an upstream's files begin with.
fn base(upstream: &str) -> String {
    let (scheme, rest) = upstream.split_once("://").unwrap_or(("wss", upstream));
    let authority = rest.split('/').next().unwrap_or_default();
    format!("{}://{authority}", if scheme == "ws" { "http" } else { "https" })
}

/// Returns an address at another host.
fn moved(base: &str, url: &str) -> String {
    let path = url.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]));
    format!("{base}{}", path.unwrap_or("/"))
}

#[async_trait]
impl HttpClient for Web {
    async fn execute(&self, request: HttpRequest) -> Result<HttpResponse> {
        self.client.execute(self.at(request)).await
    }

    fn supports_streaming(&self) -> bool {
        self.client.supports_streaming()
    }

    fn execute_streaming(&self, request: HttpRequest) -> Result<StreamingHttpResponse> {
        self.client.execute_streaming(self.at(request))
    }

    fn supports_upload_streaming(&self) -> bool {
        self.client.supports_upload_streaming()
    }

    fn execute_upload(&self, request: HttpRequest, body: UploadBody, length: u64) -> Result<HttpResponse> {
        self.client.execute_upload(self.at(request), body, length)
    }
}

/// A file that takes no more than a number of bytes.
pub(crate) struct Bounded {
    file: File,
    most: u64,
    at: u64,
}

impl Bounded {
    pub(crate) fn new(file: File, most: u64) -> Self {
        Self { file, most, at: 0 }
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.at.saturating_add(bytes.len() as u64) > self.most {
            return Err(io::Error::other(format!("it has more than {} bytes", self.most)));
        }
        let written = self.file.write(bytes)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Bounded {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = self.file.seek(to)?;
        Ok(self.at)
    }
}

impl DownloadWriter for Bounded {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_by_the_upstream_and_keep_their_path() {
        let base = base("ws://127.0.0.1:9/ws/chat");
        assert_eq!(base, "http://127.0.0.1:9");
        assert_eq!(moved(&base, "https://mmg.whatsapp.net/v/t62?x=1"), "http://127.0.0.1:9/v/t62?x=1");
        assert_eq!(
            moved(&super::base("wss://relay.example.org/ws"), "https://web.whatsapp.com"),
            "https://relay.example.org/"
        );
    }

    #[test]
    fn a_file_takes_no_more_than_its_bound_also_at_a_second_try() {
        let mut file = Bounded::new(tempfile::tempfile().unwrap(), 4);
        file.write_all(b"abc").unwrap();
        assert!(file.write_all(b"de").unwrap_err().to_string().contains("4 bytes"));
        file.truncate(0).unwrap();
        file.rewind().unwrap();
        file.write_all(b"abcd").unwrap();
        assert!(file.write_all(b"e").is_err());
    }
}

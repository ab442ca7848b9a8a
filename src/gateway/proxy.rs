//! The way to a host by a proxy outside, by `CONNECT`.

use std::io;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::config::Proxy;

/// The longest head of a proxy's answer, bytes.
const LONGEST_HEAD: usize = 16 << 10;

/// Connects to a host by a proxy. What the host says first is not read yet. The caller bounds the time.
///
/// # Errors
/// The proxy can't be reached, or says no; with its name, and its words.
pub(super) async fn through(proxy: &Proxy, host: &str, port: u16) -> io::Result<TcpStream> {
    let failed = |why: String| io::Error::other(format!("the proxy {proxy} {why}"));
    let mut stream = TcpStream::connect(proxy.place())
        .await
        .map_err(|error| failed(format!("can't be reached: {error}")))?;
    stream.set_nodelay(true)?;
    let to = if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    let who = proxy.authorization().map(|who| format!("Proxy-Authorization: {who}\r\n")).unwrap_or_default();
    let asked = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{who}\r\n");
    stream.write_all(asked.as_bytes()).await.map_err(|error| failed(format!("broke off: {error}")))?;
    let mut head = Vec::new();
    // Byte by byte: bytes behind the head are the host's, and the caller reads them.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= LONGEST_HEAD {
            return Err(failed("gives an answer with too long a head".into()));
        }
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(error) => return Err(failed(format!("broke off: {error}"))),
        }
    }
    let first = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    match first.strip_prefix("HTTP/1.").and_then(|rest| rest.split_once(' ')) {
        Some((_, status)) if status.starts_with('2') => Ok(stream),
        Some((_, status)) => {
            let status: String = status.chars().filter(|c| !c.is_control()).take(100).collect();
            Err(failed(format!("does not let {to} be reached: {status}")))
        }
        None => Err(failed("gives no answer of HTTP".into())),
    }
}

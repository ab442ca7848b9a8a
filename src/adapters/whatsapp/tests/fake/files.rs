//! What WhatsApp serves over HTTP: its version, and files that are brought and fetched.

use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::Shared;

/// Answers one request after the other.
pub(super) async fn answer(shared: &Arc<Shared>, mut stream: TcpStream) {
    let mut held = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = held.windows(4).position(|end| end == b"\r\n\r\n") {
                break end + 4;
            }
            match stream.read_buf(&mut held).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        };
        let head = String::from_utf8_lossy(&held[..end]).into_owned();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let length = length.unwrap_or(0);
        if head.to_ascii_lowercase().contains("expect: 100-continue")
            && stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.is_err()
        {
            return;
        }
        while held.len() < end + length {
            match stream.read_buf(&mut held).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
        let body = held[end..end + length].to_vec();
        held.drain(..end + length);
        let mut words = head.split_whitespace();
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = path.split('?').next().unwrap_or_default().to_owned();
        let (status, said) = serve(shared, method, &path, body);
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", said.len());
        if stream.write_all(&[answer.as_bytes(), &said].concat()).await.is_err() {
            return;
        }
    }
}

fn serve(shared: &Arc<Shared>, method: &str, path: &str, body: Vec<u8>) -> (&'static str, Vec<u8>) {
    match method {
        "GET" if path == "/sw.js" => {
            ("200 OK", br#"self.x=JSON.parse("{\"client_revision\":1042742319}");"#.to_vec())
        }
        "GET" => match shared.world().files.get(path) {
            Some(bytes) => ("200 OK", bytes.clone()),
            None => ("404 Not Found", Vec::new()),
        },
        "POST" if body.is_empty() => ("200 OK", b"{}".to_vec()),
        "POST" => {
            let kept = format!("/kept{path}");
            let said = format!(r#"{{"url":"https://mmg.whatsapp.net{kept}","direct_path":"{kept}"}}"#);
            shared.change(|world| world.files.insert(kept, body));
            ("200 OK", said.into_bytes())
        }
        _ => ("405 No", Vec::new()),
    }
}

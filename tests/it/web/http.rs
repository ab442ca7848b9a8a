//! A client of HTTP that says exactly what it is told to.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use crate::support::DEADLINE;

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(header, _)| header == name).map_or("", |(_, value)| value)
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Connects to a port of this machine.
pub(super) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Asks, and reads the whole answer.
pub(super) fn ask(port: u16, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut stream = connect(port);
    say(&mut stream, method, path, headers, body);
    answer(stream)
}

/// Writes a request, after which the server is to close the connection.
pub(super) fn say(stream: &mut TcpStream, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    if method != "GET" {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
}

/// Reads a whole answer.
pub(super) fn answer(stream: TcpStream) -> Answer {
    let mut reader = BufReader::new(stream);
    let (status, headers) = head(&mut reader);
    let mut body = Vec::new();
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value.parse().unwrap());
    match length {
        Some(length) => drop(reader.take(length).read_to_end(&mut body).unwrap()),
        None => drop(reader.read_to_end(&mut body).unwrap()),
    }
    Answer { status, headers, body }
}

/// Reads the head of an answer.
pub(super) fn head(reader: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let mut lines = std::iter::from_fn(|| {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        Some(line.trim_end().to_owned()).filter(|line| !line.is_empty())
    });
    let status = lines.next().expect("an answer").split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    (status, headers.collect())
}

/// Waits for the next line of a stream of events that begins with one of these words.
pub(super) fn event(reader: &mut BufReader<TcpStream>, within: Duration) -> Option<String> {
    reader.get_ref().set_read_timeout(Some(within)).unwrap();
    let mut line = String::new();
    loop {
        line.clear();
        match reader.read_line(&mut line) {
            Ok(0) | Err(_) => return None,
            Ok(_) if line.starts_with("event:") || line.starts_with("data:") => {
                return Some(line.trim_end().to_owned());
            }
            Ok(_) => {}
        }
    }
}

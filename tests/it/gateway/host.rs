//! The model's host: reads requests byte by byte, keeps them as they came, and answers what the test says.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::super::support::DEADLINE;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The request line and the headers, in small letters.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

/// Returns the value of a header in a head.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .find(|(n, _)| *n == name)
        .map(|(_, v)| v.trim())
}

/// Writes an answer; the connection ends when it returns `false`.
pub(crate) type Answer = dyn Fn(&Seen, &mut dyn Write) -> bool + Send + Sync;

/// A model's host on a loopback port.
pub(crate) struct Host {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
}

impl Host {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn start(answer: impl Fn(&Seen, &mut dyn Write) -> bool + Send + Sync + 'static) -> Self {
        Self::listen(None, answer)
    }

    /// Answers every request with the same, over TLS.
    pub(crate) fn tls(config: ServerConfig, response: String) -> Self {
        Self::listen(Some(Arc::new(config)), move |_, out| out.write_all(response.as_bytes()).is_ok())
    }

    fn listen(
        tls: Option<Arc<ServerConfig>>,
        answer: impl Fn(&Seen, &mut dyn Write) -> bool + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (answer, all): (Arc<Answer>, _) = (Arc::new(answer), Arc::clone(&seen));
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::Relaxed);
                let (answer, all, tls) = (Arc::clone(&answer), Arc::clone(&all), tls.clone());
                thread::spawn(move || match tls.map(|tls| ServerConnection::new(tls).unwrap()) {
                    None => serve(stream, &*answer, &all),
                    Some(tls) => serve(StreamOwned::new(tls, stream), &*answer, &all),
                });
            }
        });
        Self { port, seen, connections }
    }

    /// Answers every request with the same.
    pub(crate) fn always(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::start(move |_, out| out.write_all(&response).is_ok())
    }

    /// Begins each answer with `start` and goes on with `rest` when the test says so.
    pub(crate) fn halting(start: String, rest: String) -> (Self, mpsc::Sender<()>) {
        let (go, gone_on) = mpsc::channel();
        let gone_on = Mutex::new(gone_on);
        let host = Self::start(move |_, out| {
            let said = out.write_all(start.as_bytes()).and_then(|()| out.flush()).is_ok();
            // A test that has ended sends nothing more.
            let _ = gone_on.lock().unwrap().recv_timeout(DEADLINE);
            said && out.write_all(rest.as_bytes()).is_ok()
        });
        (host, go)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Its address by name, over TLS.
    pub(crate) fn tls_url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// How many connections were made to it.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// What came so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The only request that came.
    pub(crate) fn one(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].clone()
    }
}

/// Reads requests off a connection and answers them, until either side is done.
fn serve(stream: impl Read + Write, answer: &Answer, all: &Mutex<Vec<Seen>>) {
    let mut stream = BufReader::new(stream);
    while let Some(seen) = read(&mut stream) {
        all.lock().unwrap().push(seen.clone());
        if !answer(&seen, stream.get_mut()) || stream.get_mut().flush().is_err() {
            return;
        }
    }
}

fn read(input: &mut impl BufRead) -> Option<Seen> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if input.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.trim_end().to_lowercase();
    let mut body = Vec::new();
    if header(&head, "transfer-encoding") == Some("chunked") {
        body = read_chunks(input)?;
    } else if let Some(length) = header(&head, "content-length") {
        body.resize(length.parse().ok()?, 0);
        input.read_exact(&mut body).ok()?;
    }
    Some(Seen { head, body })
}

/// Reads a chunked body to its last chunk; nothing when it breaks off.
pub(crate) fn read_chunks(input: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = read_chunk(input)? {
        body.extend(chunk);
    }
    Some(body)
}

/// Reads a chunk: `Some(None)` is the last one, nothing a body that breaks off.
pub(crate) fn read_chunk(input: &mut impl BufRead) -> Option<Option<Vec<u8>>> {
    let mut line = String::new();
    input.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let mut chunk = vec![0; usize::from_str_radix(line.trim(), 16).ok()? + 2];
    input.read_exact(&mut chunk).ok()?;
    chunk.truncate(chunk.len() - 2);
    Some(Some(chunk).filter(|chunk| !chunk.is_empty()))
}

/// A whole answer with a length.
pub(crate) fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// A JSON answer that says what was used.
pub(crate) fn message(model: &str, input: u32, output: u32) -> String {
    let body = serde_json::json!({
        "type": "message", "role": "assistant", "model": model, "content": [],
        "usage": { "input_tokens": input, "output_tokens": output, "cache_read_input_tokens": 3 },
    });
    response("200 OK", "content-type: application/json\r\n", &body.to_string())
}

/// A chunk of a body.
pub(crate) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// The head of a stream of events.
pub(crate) const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// The first event of a stream.
pub(crate) fn stream_start(model: &str, input: u32) -> String {
    format!(
        "event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{{\"model\":\"{model}\",\"usage\":{{\"input_tokens\":{input},\"output_tokens\":1}}}}}}\n\n"
    )
}

/// The last events of a stream.
pub(crate) fn stream_end(output: u32) -> String {
    format!(
        "event: message_delta\ndata: {{\"type\":\"message_delta\",\"usage\":{{\"output_tokens\":{output}}}}}\n\nevent: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
    )
}

/// Returns a port on which nobody listens.
pub(crate) fn no_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

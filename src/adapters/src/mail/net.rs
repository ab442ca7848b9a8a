//! Connections to servers of mail: TLS by the machine's own authorities, and a bound on what a server may say to one command.

use std::{
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use hyper_rustls::ConfigBuilderExt as _;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, crypto::ring, pki_types::ServerName},
};

use super::{
    settings::{Place, Way},
    trouble::{Trouble, line},
};

/// How long a connection may take to be made, with its TLS.
const CONNECT: Duration = Duration::from_secs(20);
/// How much a server may say before TLS, bytes.
const LONGEST_GREETING: usize = 16 << 10;

/// The protocol that is spoken on a connection: before TLS each asks for it in its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    Imap,
    Smtp,
}

/// A connection.
pub(super) struct Line {
    over: Over,
    /// What the reader is given before what the server says.
    first: &'static [u8],
    /// How many more bytes the server may say.
    left: u64,
}

enum Over {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}

impl Line {
    /// Connects, up to the point where the greeting is read.
    pub(super) async fn connect(place: &Place, speaks: Speaks) -> Result<Self, Trouble> {
        let away = |why: &dyn fmt::Display| Trouble::Away(format!("{}: {why}", place.host));
        let made = async {
            let tcp =
                TcpStream::connect((&place.host[..], place.port)).await.map_err(|error| away(&error))?;
            tcp.set_nodelay(true).map_err(|error| away(&error))?;
            let (over, first): (Over, &[u8]) = match place.way {
                Way::Plain => (Over::Plain(tcp), b""),
                Way::Tls => (tls(place, tcp).await?, b""),
                Way::StartTls => {
                    let tcp = start_tls(tcp, speaks).await.map_err(|why| away(&why))?;
                    // A server greets before TLS alone, and whatever reads here waits for a greeting.
                    let greeting: &[u8] = match speaks {
                        Speaks::Imap => b"* OK TLS\r\n",
                        Speaks::Smtp => b"220 TLS\r\n",
                    };
                    (tls(place, tcp).await?, greeting)
                }
            };
            Ok(Self { over, first, left: LONGEST_GREETING as u64 })
        };
        timeout(CONNECT, made).await.unwrap_or_else(|_| Err(away(&"it does not answer")))
    }

    /// Sets how many bytes the server may say from now on.
    pub(super) fn allow(&mut self, bytes: u64) {
        self.left = bytes;
    }
}

/// Puts TLS on a connection.
async fn tls(place: &Place, tcp: TcpStream) -> Result<Over, Trouble> {
    let own = |why: String| Trouble::Tls(format!("{}: {why}", place.host));
    let name = ServerName::try_from(place.host.clone()).map_err(|error| own(error.to_string()))?;
    let connector = TlsConnector::from(config().map_err(own)?);
    let made = connector.connect(name, tcp).await;
    made.map(|stream| Over::Tls(Box::new(stream))).map_err(|error| match error.get_ref() {
        Some(_) => own(line(&error.to_string())),
        None => Trouble::Away(format!("{}: {error}", place.host)),
    })
}

/// Returns the authorities of this machine, which are read once.
fn config() -> Result<Arc<ClientConfig>, String> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(Arc::clone(config));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_native_roots()
        .map_err(|error| format!("this machine has no root certificates: {error}"))?
        .with_no_client_auth();
    Ok(Arc::clone(CONFIG.get_or_init(|| Arc::new(config))))
}

/// Whether a line ends an answer.
type IsLast = fn(&str) -> bool;

/// Asks for TLS. What was said before it is forgotten: anybody could have said it.
async fn start_tls(mut tcp: TcpStream, speaks: Speaks) -> Result<TcpStream, String> {
    let mut budget = LONGEST_GREETING;
    let mut told = async |tcp: &mut TcpStream, is_last: IsLast| {
        let mut line = Vec::new();
        loop {
            budget = budget.checked_sub(1).ok_or("its greeting has no end")?;
            match tcp.read_u8().await.map_err(|error| error.to_string())? {
                b'\n' => {
                    let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                    if is_last(&text) {
                        return Ok::<_, String>(text);
                    }
                    line.clear();
                }
                byte => line.push(byte),
            }
        }
    };
    let asked: &[(&[u8], IsLast)] = match speaks {
        Speaks::Imap => {
            &[(b"", |line| line.starts_with("* ")), (b"a STARTTLS\r\n", |line| line.starts_with("a "))]
        }
        Speaks::Smtp => {
            let is_last = |line: &str| line.as_bytes().get(3) != Some(&b'-');
            &[(b"", is_last), (b"EHLO [127.0.0.1]\r\n", is_last), (b"STARTTLS\r\n", is_last)]
        }
    };
    let mut answer = String::new();
    for (said, is_last) in asked {
        tcp.write_all(said).await.map_err(|error| error.to_string())?;
        answer = told(&mut tcp, *is_last).await?;
    }
    let good = match speaks {
        Speaks::Imap => answer.to_ascii_lowercase().starts_with("a ok"),
        Speaks::Smtp => answer.starts_with("220"),
    };
    if good { Ok(tcp) } else { Err(format!("it has no STARTTLS: {}", line(&answer))) }
}

impl AsyncRead for Line {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.first.is_empty() {
            let part = this.first.len().min(buf.remaining());
            buf.put_slice(&this.first[..part]);
            this.first = &this.first[part..];
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let polled = match &mut this.over {
            Over::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Over::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        };
        if let Poll::Ready(Ok(())) = &polled {
            let read = (buf.filled().len() - before) as u64;
            match this.left.checked_sub(read) {
                Some(left) => this.left = left,
                None => return Poll::Ready(Err(io::Error::other("the server says too much"))),
            }
        }
        polled
    }
}

impl AsyncWrite for Line {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().over {
            Over::Plain(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Over::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().over {
            Over::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Over::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().over {
            Over::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Over::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

impl lettre::transport::smtp::client::AsyncTokioStream for Line {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.over {
            Over::Plain(tcp) => tcp.peer_addr(),
            Over::Tls(tls) => tls.get_ref().0.peer_addr(),
        }
    }
}

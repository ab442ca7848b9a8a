//! The connection to the engine: one door for every call, with its time-out and its errors put into our words.

use std::{error::Error as _, io::ErrorKind, time::Duration};

use bollard::{ClientVersion, Docker, errors::Error};
use tokio::{sync::OnceCell, time::timeout};

use crate::{domain::shown::screen, sandbox::SandboxError};

/// How long the engine may take over an answer.
pub(super) const ANSWER: Duration = Duration::from_secs(30);
/// How long it may take to make or start a container.
pub(super) const LAUNCH: Duration = Duration::from_secs(120);

const DEFAULT_SOCKET: &str = "/var/run/docker.sock";

/// Where the engine is, connected to at the first call: a daemon may start before its engine does.
#[derive(Debug)]
pub(super) struct Engine {
    socket: String,
    client: OnceCell<Docker>,
}

/// A call that failed, with the engine's status when it answered.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) status: Option<u16>,
    pub(super) error: SandboxError,
}

impl From<Fault> for SandboxError {
    fn from(fault: Fault) -> Self {
        fault.error
    }
}

impl Engine {
    /// `host` is `DOCKER_HOST`: a Unix socket, as `unix:///path` or a bare path. Without one: the usual place.
    pub(super) fn new(host: Option<&str>) -> Result<Self, SandboxError> {
        let socket = match host.map(str::trim).filter(|host| !host.is_empty()) {
            None => DEFAULT_SOCKET,
            Some(host) => match host.strip_prefix("unix://").unwrap_or(host) {
                path if path.starts_with('/') => path,
                _ => {
                    return Err(SandboxError::Engine {
                        doing: format!("reading DOCKER_HOST={}", screen::address(host)),
                        why: "only Unix sockets are spoken to; write unix:///path/to/docker.sock".to_owned(),
                    });
                }
            },
        };
        Ok(Self { socket: socket.to_owned(), client: OnceCell::new() })
    }

    /// Returns the client, after having asked the engine for its version the first time.
    pub(super) async fn client(&self) -> Result<&Docker, SandboxError> {
        let connect = async || {
            // The version is a ceiling for the negotiation; requests of this release go out unversioned.
            let newest = ClientVersion { major_version: 1, minor_version: 53 };
            let docker = Docker::connect_with_unix(&self.socket, ANSWER.as_secs(), &newest)
                .map_err(|error| self.fault("connecting", &error).error)?;
            Ok(self.ask("asking for its version", ANSWER, docker.negotiate_version()).await?)
        };
        self.client.get_or_try_init(connect).await
    }

    /// Returns a client whose own time-out is `within`: it covers the time to the answer's first bytes.
    pub(super) async fn patient(&self, within: Duration) -> Result<Docker, SandboxError> {
        Ok(self.client().await?.clone().with_timeout(within))
    }

    /// Waits for `call`, `within` at most.
    pub(super) async fn ask<T>(
        &self,
        doing: &str,
        within: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Fault> {
        match timeout(within, call).await {
            Ok(answer) => answer.map_err(|error| self.fault(doing, &error)),
            Err(_) => Err(self.silent(doing, within)),
        }
    }

    /// As [`Engine::ask`], about container `id`: one that the engine does not know is [`SandboxError::Gone`].
    pub(super) async fn ask_about<T>(
        &self,
        id: &str,
        doing: &str,
        within: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Fault> {
        self.ask(&format!("{doing} container {id}"), within, call).await.map_err(|fault| match fault.status {
            Some(404) => Fault { error: SandboxError::Gone { id: id.to_owned() }, ..fault },
            _ => fault,
        })
    }

    /// Puts an error of a call into our words.
    pub(super) fn fault(&self, doing: &str, error: &Error) -> Fault {
        let engine = |why: String| SandboxError::Engine { doing: doing.to_owned(), why };
        match error {
            Error::DockerResponseServerError { message, .. } if is_the_machines(message) => {
                let (doing, why) = (doing.to_owned(), message.trim().to_owned());
                Fault { status: None, error: SandboxError::Machine { doing, why } }
            }
            Error::DockerResponseServerError { status_code, message } => {
                Fault { status: Some(*status_code), error: engine(message.trim().to_owned()) }
            }
            Error::SocketNotFoundError(_) => self.unreachable("no such socket; is Docker running?"),
            Error::RequestTimeoutError => self.silent(doing, ANSWER),
            Error::HyperLegacyError { .. } | Error::HyperResponseError { .. } | Error::IOError { .. } => self
                .unreachable(match io_kind(error) {
                    Some(ErrorKind::PermissionDenied) => {
                        "permission denied; add this user to the group docker, or set DOCKER_HOST"
                    }
                    Some(ErrorKind::NotFound) => "no such socket; is Docker running?",
                    Some(ErrorKind::ConnectionRefused) => "connection refused; is Docker running?",
                    _ => "the connection broke",
                }),
            other => Fault { status: None, error: engine(other.to_string()) },
        }
    }

    fn silent(&self, doing: &str, within: Duration) -> Fault {
        self.unreachable(&format!("no answer within {} s ({doing})", within.as_secs()))
    }

    fn unreachable(&self, why: &str) -> Fault {
        let error = SandboxError::Unreachable { at: self.socket.clone(), why: why.to_owned() };
        Fault { status: None, error }
    }
}

/// Whether an answer of the engine tells of the machine: what it lacks no container could have.
fn is_the_machines(message: &str) -> bool {
    const LACKS: [&str; 8] = [
        "no space left on device",
        "disk quota exceeded",
        "too many open files",
        "cannot allocate memory",
        "resource temporarily unavailable",
        "read-only file system",
        "input/output error",
        "toomanyrequests",
    ];
    let message = message.to_ascii_lowercase();
    // A mount that the group asked for has a path in its words, which may say anything.
    let of_a_mount = message.contains("mount config") || message.contains("mount source path");
    let no_network = message.contains("network") && message.contains("not found");
    !of_a_mount && (no_network || LACKS.iter().any(|lacks| message.contains(lacks)))
}

/// Finds the I/O error at the bottom of `error`.
fn io_kind(error: &Error) -> Option<ErrorKind> {
    let mut source = error.source();
    if let Error::IOError { err } = error {
        return Some(err.kind());
    }
    while let Some(error) = source {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return Some(io.kind());
        }
        source = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_lacks_is_told_from_what_a_group_asked_for() {
        for (message, expected) in [
            ("mkdir /var/lib/docker/overlay2/ab-init: no space left on device", true),
            (
                "failed to create shim: OCI runtime create failed: fork: Resource temporarily unavailable",
                true,
            ),
            ("network bridge not found", true),
            ("error creating overlay mount to /var/lib/docker: read-only file system", true),
            ("No such image: g2-agent:latest", false),
            (
                "invalid mount config for type \"bind\": bind source path does not exist: /no space left on device",
                false,
            ),
            ("error while creating mount source path '/x': mkdir /x: read-only file system", false),
            ("OCI runtime create failed: exec: \"sh\": executable file not found in $PATH", false),
            ("Duplicate mount point: /workspace/extra/a", false),
        ] {
            assert_eq!(is_the_machines(message), expected, "{message}");
        }
    }

    #[test]
    fn the_host_is_a_unix_socket_or_refused() {
        for (host, socket) in [
            (None, DEFAULT_SOCKET),
            (Some(""), DEFAULT_SOCKET),
            (Some("unix:///run/user/1000/docker.sock"), "/run/user/1000/docker.sock"),
            (Some("/tmp/d.sock"), "/tmp/d.sock"),
        ] {
            assert_eq!(Engine::new(host).unwrap().socket, socket);
        }
        for (host, shown) in [
            ("tcp://1.2.3.4:2375", "tcp://1.2.3.4:2375"),
            ("ssh://me:pw@there", "ssh://…@there"),
            ("unix://relative", "unix://relative"),
            ("docker.sock", "docker.sock"),
        ] {
            let error = Engine::new(Some(host)).unwrap_err().to_string();
            assert!(error.contains(&format!("DOCKER_HOST={shown}")) && error.contains("unix:///"), "{error}");
        }
    }
}

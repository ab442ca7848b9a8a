//! The way to Telegram is TLS, by the authorities of the machine.

use std::sync::Arc;

use channel_protocol::NotSent;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivateKeyDer},
};

use super::*;

/// Puts TLS before a server, for `name`. Returns its port, and the authority that says so, as PEM.
fn before(fake: &Fake, name: &str) -> (u16, String) {
    let (key, own) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = authority.self_signed(&key).unwrap().pem();
    let signed = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let signed = signed.signed_by(&own, &Issuer::new(authority, key)).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![signed.der().clone()], PrivateKeyDer::Pkcs8(own.serialize_der().into()))
        .unwrap();
    let runtime = fake.runtime();
    let listener = runtime.block_on(net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (acceptor, inner) = (TlsAcceptor::from(Arc::new(config)), fake.url.replace("http://", ""));
    runtime.spawn(async move {
        while let Ok((outer, _)) = listener.accept().await {
            let (acceptor, inner) = (acceptor.clone(), inner.clone());
            tokio::spawn(async move {
                let Ok(mut outer) = acceptor.accept(outer).await else { return };
                let mut inner = net::TcpStream::connect(inner).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
            });
        }
    });
    (port, pem)
}

fn start(port: u16, pem: &str) -> Account {
    start_at(&format!("https://localhost:{port}"), pem, &[])
}

fn start_at(url: &str, pem: &str, more: &[(&str, &str)]) -> Account {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("authorities.pem");
    std::fs::write(&file, pem).unwrap();
    let file = file.display().to_string();
    let variables = [&[("SSL_CERT_FILE", file.as_str())], more].concat();
    Account::start_at(url, &variables, json!({"token": TOKEN}), BTreeMap::new(), home)
}

/// A proxy that answers each `CONNECT` with a status, and leads it to one port of this machine where that is 200. Returns its port,
/// and what it is asked for.
fn proxy(fake: &Fake, status: &'static str, to: u16) -> (u16, Receiver<String>) {
    let runtime = fake.runtime();
    let listener = runtime.block_on(net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, asked) = channel();
    runtime.spawn(async move {
        while let Ok((mut outer, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(outer.read_u8().await.unwrap());
            }
            let _ = tell.send(String::from_utf8(head).unwrap());
            outer.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).await.unwrap();
            if status.starts_with("200") {
                tokio::spawn(async move {
                    let mut inner = net::TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
                });
            }
        }
    });
    (port, asked)
}

#[test]
fn behind_a_proxy_it_is_asked_for_the_way_and_sees_the_host_alone() {
    let fake = Fake::start();
    let (port, pem) = before(&fake, "telegram.example");
    let (proxy, asked) = proxy(&fake, "200 OK", port);
    let way = format!("http://ada:hush@127.0.0.1:{proxy}");
    let mut account = start_at("https://telegram.example", &pem, &[("HTTPS_PROXY", &way)]);
    account.hello();
    fake.text(GROUP, "in");
    assert_eq!(account.event().text, "in");
    let asked = asked.recv().unwrap();
    assert!(asked.starts_with("CONNECT telegram.example:443 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.to_ascii_lowercase().contains("proxy-authorization: basic ywrhomh1c2g=\r\n"), "{asked}");
    assert!(!asked.contains(TOKEN), "{asked}");
}

#[test]
fn a_proxy_that_says_no_is_waited_for_and_one_that_is_not_for_the_host_is_not_asked() {
    let fake = Fake::start();
    let (port, pem) = before(&fake, "localhost");
    let (proxy, asked) = proxy(&fake, "403 Forbidden", port);
    let way = format!("http://127.0.0.1:{proxy}");
    let url = format!("https://localhost:{port}");
    let mut account = start_at(&url, &pem, &[("HTTPS_PROXY", &way)]);
    let state = account.state(|state| state.transport == Light::Waiting && state.why.contains("tunnel"));
    assert!(!state.why.contains(TOKEN), "{state:?}");
    assert!(asked.recv().unwrap().contains(&format!("CONNECT localhost:{port} ")));
    drop(account);
    while asked.try_recv().is_ok() {}
    let mut account = start_at(&url, &pem, &[("HTTPS_PROXY", &way), ("NO_PROXY", "a.example,localhost")]);
    account.hello();
    assert!(asked.try_recv().is_err());
}

#[test]
fn a_server_that_an_authority_of_the_machine_vouches_for_is_spoken_to() {
    let fake = Fake::start();
    let (port, pem) = before(&fake, "localhost");
    let mut account = start(port, &pem);
    account.hello();
    fake.text(GROUP, "in");
    assert_eq!(account.event().text, "in");
    account.sent(GROUP, "out");
    assert_eq!(fake.said()[0]["text"], "out");
}

#[test]
fn a_server_that_nobody_vouches_for_is_told_no_token() {
    let fake = Fake::start();
    for (name, other) in [("localhost", true), ("api.telegram.org", false)] {
        let (port, own) = before(&fake, name);
        let pem = if other { before(&fake, name).1 } else { own };
        let mut account = start(port, &pem);
        let state = account.state(|state| state.transport == Light::Waiting);
        assert!(state.why.contains("certificate"), "{state:?}");
        let done = account.send(GROUP, json!({"text": "x"}));
        assert_eq!(done.not, Some(NotSent::Offline));
    }
    assert_eq!(fake.calls("getMe"), 0);
}

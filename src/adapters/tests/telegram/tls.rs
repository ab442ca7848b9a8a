//! The way to Telegram is TLS, by the authorities of the machine.

use std::sync::Arc;

use channel_protocol::NotSent;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::net;
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
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("authorities.pem");
    std::fs::write(&file, pem).unwrap();
    let file = file.display().to_string();
    let url = format!("https://localhost:{port}");
    Account::start_at(&url, Some(&file), json!({"token": TOKEN}), BTreeMap::new(), home)
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

//! TLS to the model's host, with an authority of the machine's own.
#![expect(clippy::disallowed_methods, reason = "tests play the user")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_rustls::rustls::{ServerConfig, pki_types::PrivateKeyDer};

use super::{
    super::support::Root,
    daemon::{AWAKE, awake},
    host::{Host, message},
    scene::{Whole, ask},
};

/// A host whose certificate is for `name`, and the authority that says so, as PEM.
pub(super) fn host(name: &str) -> (Host, String) {
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
    (Host::tls(config, message("m", 1, 2)), pem)
}

/// Asks a host while the machine trusts `authorities`.
fn asked(host: &Host, authorities: &str) -> Whole {
    let root = Root::new(AWAKE);
    let file = root.path().join("authorities.pem");
    fs::write(&file, authorities).unwrap();
    let environment = [("ANTHROPIC_BASE_URL", host.tls_url()), ("SSL_CERT_FILE", file.display().to_string())];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let (_daemon, socket) = awake(&root, &environment);
    ask(&socket, "{}")
}

#[test]
fn a_certificate_of_the_machines_own_authority_is_taken() {
    let (host, authority) = host("localhost");
    assert_eq!(asked(&host, &authority).status, 200);
    assert_eq!(host.seen().len(), 1);
}

#[test]
fn a_certificate_of_another_authority_or_for_another_host_is_refused_and_no_key_is_sent() {
    let ((right, authority), (other, others)) = (host("localhost"), host("model.example"));
    for (host, trusted) in [(&right, &others), (&other, &others)] {
        let answer = asked(host, trusted);
        let (kind, text) = answer.error();
        assert_eq!((answer.status, kind.as_str()), (502, "api_error"));
        assert!(text.contains("certificate"), "{text}");
        assert!(host.seen().is_empty());
    }
    drop(authority);
}

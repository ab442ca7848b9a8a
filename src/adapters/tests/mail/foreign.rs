//! Servers that others wrote: Dovecot and Postfix of Debian.

use g2_fakes::mail::{mail, real::Real};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::*;

/// Both servers, and the file with the authority of their certificate.
fn servers(home: &tempfile::TempDir) -> Option<(Real, String)> {
    let (key, own) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = authority.self_signed(&key).unwrap().pem();
    let signed = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let signed = signed.signed_by(&own, &Issuer::new(authority, key)).unwrap();
    let file = home.path().join("authorities.pem");
    std::fs::write(&file, pem).unwrap();
    Some((Real::start(&signed.pem(), &own.serialize_pem())?, file.display().to_string()))
}

fn start(imap: String, smtp: String, authorities: &str) -> Adapter {
    let config = json!({"token": PASSWORD, "user": USER, "imap": imap, "smtp": smtp, "authserv": SERVER, "sure_after_s": 0});
    let account = json!({"instance": "mail", "prefix": "mail", "config": config, "cursor": {}});
    let variables = vec![("SSL_CERT_FILE", authorities.to_owned())];
    Adapter::start_in(env!("CARGO_BIN_EXE_g2-adapters"), account, variables)
}

#[test]
fn the_adapter_does_all_on_dovecot_and_postfix() {
    let home = tempfile::tempdir().unwrap();
    let Some((real, authorities)) = servers(&home) else { return };
    let (imap, smtp) = (format!("imap://127.0.0.1:{}", real.imap), format!("smtp://127.0.0.1:{}", real.smtp));
    let mut adapter = start(imap, smtp, &authorities);
    let cursor = ready(&mut adapter, BTreeMap::new());
    let deliver = |text: &str| real.deliver(text);
    let got = |count: usize| real.got(ADA, count);
    suite::does_all(suite::Servers { adapter, cursor, deliver: &deliver, got: &got });
}

#[test]
fn the_way_is_tls_and_a_server_that_ends_is_come_back_to() {
    let home = tempfile::tempdir().unwrap();
    let Some((real, authorities)) = servers(&home) else { return };
    let places = [
        (format!("localhost:{}", real.imaps), format!("localhost:{}", real.smtps)),
        (format!("starttls://localhost:{}", real.imap), format!("starttls://localhost:{}", real.smtp)),
    ];
    for (n, (imap, smtp)) in places.into_iter().enumerate() {
        let state = start(imap.clone(), smtp.clone(), "/dev/null").state();
        assert!(state.transport != Light::Ok && state.why.contains("imap"), "{state:?}");
        let mut adapter = start(imap, smtp, &authorities);
        ready(&mut adapter, BTreeMap::new());
        real.deliver(&mail(ADA, &format!("{n}@example.org"), "plans", "Tea?"));
        let event = adapter.next_event();
        assert_eq!(event.chat, "mail:ada@example.org");
        let done = adapter.done(&send(&format!("k.{n}"), &event.chat, &event.thread, "Yes."));
        assert!(done.ids.is_some(), "{done:?}");
        assert!(real.got(ADA, n + 1)[n].contains("Yes."));
        assert!(adapter.memory() < 12 << 10, "{} KiB", adapter.memory());
        if n == 0 {
            real.restart_dovecot();
            while adapter.state().transport != Light::Waiting {}
            real.deliver(&mail(ADA, "late@example.org", "plans", "back?"));
            assert_eq!(adapter.next_event().text, "back?");
        }
    }
}

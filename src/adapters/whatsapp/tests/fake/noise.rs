//! The server's side of a connection: frames, and Noise XX with a certificate that a root of our own has signed.

use whatsapp_rust::{
    prelude::{MessageField, wa},
    wacore::{
        framing::encode_frame,
        libsignal::protocol::KeyPair,
        noise::{NoiseCipher, NoiseHandshake},
    },
    wacore_binary::{
        Node,
        consts::{NOISE_PATTERN_XX, WA_CONN_HEADER},
        marshal::{marshal, unmarshal_ref},
        util::unpack,
    },
    waproto::whatsapp::cert_chain::{NoiseCertificate, noise_certificate::Details},
};

use super::signal::{decoded, encoded, rng};

/// Who the server is.
pub(crate) struct Identity {
    pub(crate) root: KeyPair,
    pair: KeyPair,
    chain: Vec<u8>,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let (root, middle, pair) =
            (KeyPair::generate(&mut rng()), KeyPair::generate(&mut rng()), KeyPair::generate(&mut rng()));
        let signed = |by: &KeyPair, serial: u32, issuer: u32, key: &KeyPair| {
            // It ends in the past, so that each connection begins with the whole handshake.
            let details = encoded(&Details {
                serial: Some(serial),
                issuer_serial: Some(issuer),
                key: Some(key.public_key.public_key_bytes().to_vec()),
                not_before: Some(1),
                not_after: Some(2),
            });
            let signature = by.calculate_signature(&details, &mut rng()).unwrap().to_vec();
            MessageField::some(NoiseCertificate { details: Some(details), signature: Some(signature) })
        };
        let chain = encoded(&wa::CertChain {
            intermediate: signed(&root, 1, 0, &middle),
            leaf: signed(&middle, 2, 1, &pair),
        });
        Self { root, pair, chain }
    }
}

/// Finds frames in what comes.
#[derive(Default)]
pub(crate) struct Frames {
    held: Vec<u8>,
    begun: bool,
}

impl Frames {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        if !self.begun {
            if self.held.len() < WA_CONN_HEADER.len() {
                return None;
            }
            assert_eq!(self.held[..2], WA_CONN_HEADER[..2], "a client greets with its version");
            self.held.drain(..WA_CONN_HEADER.len());
            self.begun = true;
        }
        let head = self.held.get(..3)?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let frame = self.held.get(3..3 + length)?.to_vec();
        self.held.drain(..3 + length);
        Some(frame)
    }
}

pub(crate) fn frame(bytes: &[u8]) -> Vec<u8> {
    encode_frame(bytes, None).unwrap()
}

/// A handshake under way.
pub(crate) struct Handshake {
    noise: NoiseHandshake,
    ephemeral: KeyPair,
}

impl Handshake {
    /// Answers the first frame.
    pub(crate) fn hello(identity: &Identity, first: &[u8]) -> (Self, Vec<u8>) {
        let hello: wa::HandshakeMessage = decoded(first);
        let theirs = hello.client_hello.into_option().unwrap().ephemeral.unwrap();
        let mut noise = NoiseHandshake::new(NOISE_PATTERN_XX, &WA_CONN_HEADER).unwrap();
        noise.authenticate(&theirs);
        let ephemeral = KeyPair::generate(&mut rng());
        let public = ephemeral.public_key.public_key_bytes().to_vec();
        noise.authenticate(&public);
        noise.mix_shared_secret(ephemeral.private_key.serialize(), &theirs).unwrap();
        let key = noise.encrypt(identity.pair.public_key.public_key_bytes()).unwrap();
        noise.mix_shared_secret(identity.pair.private_key.serialize(), &theirs).unwrap();
        let payload = noise.encrypt(&identity.chain).unwrap();
        let hello = wa::HandshakeMessage {
            server_hello: MessageField::some(wa::handshake_message::ServerHello {
                ephemeral: Some(public),
                r#static: Some(key),
                payload: Some(payload),
                ..Default::default()
            }),
            ..Default::default()
        };
        (Self { noise, ephemeral }, frame(&encoded(&hello)))
    }

    /// Reads the second frame: which client it is.
    pub(crate) fn finish(mut self, second: &[u8]) -> (Pipe, wa::ClientPayload) {
        let finish: wa::HandshakeMessage = decoded(second);
        let finish = finish.client_finish.into_option().unwrap();
        let theirs = self.noise.decrypt(&finish.r#static.unwrap()).unwrap();
        self.noise.mix_shared_secret(self.ephemeral.private_key.serialize(), &theirs).unwrap();
        let payload = self.noise.decrypt(&finish.payload.unwrap()).unwrap();
        // The client's way out is our way in.
        let (theirs, ours) = self.noise.finish().unwrap();
        (Pipe { ours, theirs, sent: 0, came: 0 }, decoded(&payload))
    }
}

/// A connection after its handshake.
pub(crate) struct Pipe {
    ours: NoiseCipher,
    theirs: NoiseCipher,
    sent: u32,
    came: u32,
}

impl Pipe {
    pub(crate) fn write(&mut self, node: &Node) -> Vec<u8> {
        let sealed = self.ours.encrypt_with_counter(self.sent, &marshal(node).unwrap()).unwrap();
        self.sent += 1;
        frame(&sealed)
    }

    pub(crate) fn read(&mut self, mut sealed: Vec<u8>) -> Node {
        self.theirs.decrypt_in_place_with_counter(self.came, &mut sealed).unwrap();
        self.came += 1;
        let plain = unpack(&sealed).unwrap();
        unmarshal_ref(&plain).unwrap().to_owned()
    }
}

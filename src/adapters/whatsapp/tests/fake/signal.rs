//! A device with keys of Signal's: it reads what is encrypted for it, and encrypts for others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use rand::rngs::StdRng;
use whatsapp_rust::{
    prelude::{MessageField, wa},
    wacore::{
        libsignal::protocol::{
            CiphertextMessage, DeviceId, Direction, GenericSignedPreKey as _, IdentityChange, IdentityKey,
            IdentityKeyPair, IdentityKeyStore, KeyPair, PreKeyBundle, PreKeyId, PreKeyRecord,
            PreKeySignalMessage, PreKeyStore, ProtocolAddress, SenderKeyDistributionMessage, SenderKeyName,
            SenderKeyRecord, SenderKeyStore, SessionRecord, SessionStore, SignalMessage, SignalProtocolError,
            SignedPreKeyId, SignedPreKeyRecord, SignedPreKeyStore, UsePQRatchet,
            create_sender_key_distribution_message, error::Result, group_decrypt, group_encrypt,
            message_decrypt, message_encrypt, process_prekey_bundle, process_sender_key_distribution_message,
        },
        messages::{MessageUtils, decode_plaintext},
    },
};

/// The one device that talks with all others.
const COMPANION: &str = "companion";

/// The keys of a device. Clones are the same ones.
#[derive(Clone)]
pub(crate) struct Keys(Arc<Mutex<Inner>>);

struct Inner {
    identity: IdentityKeyPair,
    signed: SignedPreKeyRecord,
    prekeys: HashMap<u32, PreKeyRecord>,
    sessions: HashMap<String, SessionRecord>,
    sender_keys: HashMap<String, SenderKeyRecord>,
    next: u32,
}

/// What others need to write to a device.
#[derive(Clone, Debug)]
pub(crate) struct Bundle {
    pub(crate) registration: u32,
    pub(crate) identity: [u8; 32],
    pub(crate) signed: (u32, [u8; 32], Vec<u8>),
    pub(crate) one_time: Option<(u32, [u8; 32])>,
}

pub(crate) fn rng() -> StdRng {
    rand::make_rng()
}

fn address() -> ProtocolAddress {
    ProtocolAddress::new(COMPANION, DeviceId::from(0))
}

impl Keys {
    pub(crate) fn new() -> Self {
        let mut rng = rng();
        let identity = IdentityKeyPair::generate(&mut rng);
        let pair = KeyPair::generate(&mut rng);
        let signature =
            identity.private_key().calculate_signature(&pair.public_key.serialize(), &mut rng).unwrap();
        let signed = SignedPreKeyRecord::new(1.into(), signed_at(), &pair, &signature);
        Self(Arc::new(Mutex::new(Inner {
            identity,
            signed,
            prekeys: HashMap::new(),
            sessions: HashMap::new(),
            sender_keys: HashMap::new(),
            next: 1,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn identity(&self) -> IdentityKeyPair {
        self.lock().identity.clone()
    }

    /// Returns what others need, with a key that is used once.
    pub(crate) fn bundle(&self) -> Bundle {
        let mut inner = self.lock();
        let id = inner.next;
        inner.next += 1;
        let pair = KeyPair::generate(&mut rng());
        inner.prekeys.insert(id, PreKeyRecord::new(id.into(), &pair));
        let raw = |key: &[u8]| <[u8; 32]>::try_from(key).unwrap();
        let signed = inner.signed.key_pair().unwrap();
        Bundle {
            registration: 7,
            identity: raw(inner.identity.public_key().public_key_bytes()),
            signed: (1, raw(signed.public_key.public_key_bytes()), inner.signed.signature().unwrap()),
            one_time: Some((id, raw(pair.public_key.public_key_bytes()))),
        }
    }

    pub(crate) fn has_session(&self) -> bool {
        self.lock().sessions.contains_key(address().as_str())
    }

    /// Forgets the session, as after a new installation.
    pub(crate) fn forget(&self) {
        self.lock().sessions.clear();
    }

    pub(crate) async fn begin(&self, with: &Bundle) {
        let public = |key: &[u8; 32]| {
            whatsapp_rust::wacore::libsignal::protocol::PublicKey::from_djb_public_key_bytes(key).unwrap()
        };
        let bundle = PreKeyBundle::new(
            with.registration,
            DeviceId::from(0),
            with.one_time.as_ref().map(|(id, key)| (PreKeyId::from(*id), public(key))),
            SignedPreKeyId::from(with.signed.0),
            public(&with.signed.1),
            with.signed.2.clone(),
            IdentityKey::new(public(&with.identity)),
        )
        .unwrap();
        let (mut sessions, mut identities) = (self.clone(), self.clone());
        process_prekey_bundle(
            &address(),
            &mut sessions,
            &mut identities,
            &bundle,
            &mut rng(),
            UsePQRatchet::No,
        )
        .await
        .unwrap();
    }

    /// Encrypts a message for the companion; the session has begun. Returns the kind and the bytes.
    pub(crate) async fn encrypt(&self, message: &wa::Message) -> (&'static str, Vec<u8>) {
        let padded = MessageUtils::encode_and_pad(message);
        let (mut sessions, mut identities) = (self.clone(), self.clone());
        match message_encrypt(&padded, &address(), &mut sessions, &mut identities).await.unwrap() {
            CiphertextMessage::SignalMessage(sent) => ("msg", sent.serialized().to_vec()),
            CiphertextMessage::PreKeySignalMessage(sent) => ("pkmsg", sent.serialized().to_vec()),
            _ => unreachable!("a session makes no other"),
        }
    }

    /// Encrypts a message as if the companion had the session already.
    pub(crate) async fn encrypt_without_greeting(&self, message: &wa::Message) -> Vec<u8> {
        let (kind, bytes) = self.encrypt(message).await;
        assert_eq!(kind, "pkmsg");
        PreKeySignalMessage::try_from(&bytes[..]).unwrap().message().serialized().to_vec()
    }

    pub(crate) async fn decrypt(&self, kind: &str, bytes: &[u8]) -> wa::Message {
        let sent = match kind {
            "pkmsg" => CiphertextMessage::PreKeySignalMessage(PreKeySignalMessage::try_from(bytes).unwrap()),
            _ => CiphertextMessage::SignalMessage(SignalMessage::try_from(bytes).unwrap()),
        };
        let (mut sessions, mut identities, mut prekeys) = (self.clone(), self.clone(), self.clone());
        let read = message_decrypt(
            &sent,
            &address(),
            &mut sessions,
            &mut identities,
            &mut prekeys,
            &self.clone(),
            &mut rng(),
            UsePQRatchet::No,
        )
        .await
        .unwrap();
        decode_plaintext(&read.plaintext, 2).unwrap()
    }

    fn own(group: &str) -> SenderKeyName {
        SenderKeyName::new(group.to_owned(), "self".to_owned())
    }

    /// Returns the message by which the companion learns how to read this device's messages to a group.
    pub(crate) async fn distribution(&self, group: &str) -> wa::Message {
        let mut store = self.clone();
        let made =
            create_sender_key_distribution_message(&Self::own(group), &mut store, &mut rng()).await.unwrap();
        wa::Message {
            sender_key_distribution_message: MessageField::some(wa::message::SenderKeyDistributionMessage {
                group_id: Some(group.to_owned()),
                axolotl_sender_key_distribution_message: Some(made.serialized().to_vec()),
            }),
            ..Default::default()
        }
    }

    pub(crate) async fn group_encrypt(&self, group: &str, message: &wa::Message) -> Vec<u8> {
        let padded = MessageUtils::encode_and_pad(message);
        let mut store = self.clone();
        let sent = group_encrypt(&mut store, &Self::own(group), &padded, &mut rng()).await.unwrap();
        sent.serialized().to_vec()
    }

    /// Learns how to read the companion's messages to a group.
    pub(crate) async fn learn(&self, group: &str, message: &wa::Message) {
        let Some(told) = message.sender_key_distribution_message.as_option() else { return };
        let bytes = told.axolotl_sender_key_distribution_message.clone().unwrap();
        let told = SenderKeyDistributionMessage::try_from(&bytes[..]).unwrap();
        let name = SenderKeyName::new(group.to_owned(), COMPANION.to_owned());
        process_sender_key_distribution_message(&name, &told, &mut self.clone()).await.unwrap();
    }

    /// Reads a message to a group. `None`: this device has not learnt how to.
    pub(crate) async fn group_decrypt(&self, group: &str, bytes: &[u8]) -> Option<wa::Message> {
        let name = SenderKeyName::new(group.to_owned(), COMPANION.to_owned());
        let read = group_decrypt(bytes, &mut self.clone(), &name).await.ok()?;
        Some(decode_plaintext(&read, 2).unwrap())
    }
}

fn signed_at() -> whatsapp_rust::wacore::libsignal::protocol::Timestamp {
    whatsapp_rust::wacore::libsignal::protocol::Timestamp::from_epoch_millis(1_790_000_000_000)
}

/// Encodes a message of protobuf.
pub(crate) fn encoded(message: &impl whatsapp_rust::buffa::Message) -> Vec<u8> {
    message.encode_to_vec()
}

/// Decodes one; a message that is none panics, as what a client sends here has to be right.
pub(crate) fn decoded<M: whatsapp_rust::buffa::Message>(bytes: &[u8]) -> M {
    M::decode_from_slice(bytes).unwrap()
}

#[async_trait]
impl IdentityKeyStore for Keys {
    async fn get_identity_key_pair(&self) -> Result<IdentityKeyPair> {
        Ok(self.lock().identity.clone())
    }

    async fn get_local_registration_id(&self) -> Result<u32> {
        Ok(7)
    }

    async fn save_identity(&mut self, _: &ProtocolAddress, _: &IdentityKey) -> Result<IdentityChange> {
        Ok(IdentityChange::NewOrUnchanged)
    }

    async fn is_trusted_identity(&self, _: &ProtocolAddress, _: &IdentityKey, _: Direction) -> Result<bool> {
        Ok(true)
    }

    async fn get_identity(&self, _: &ProtocolAddress) -> Result<Option<IdentityKey>> {
        Ok(None)
    }
}

#[async_trait]
impl PreKeyStore for Keys {
    async fn get_pre_key(&self, id: PreKeyId) -> Result<PreKeyRecord> {
        self.lock().prekeys.get(&u32::from(id)).cloned().ok_or(SignalProtocolError::InvalidPreKeyId)
    }

    async fn save_pre_key(&mut self, id: PreKeyId, record: &PreKeyRecord) -> Result<()> {
        self.lock().prekeys.insert(id.into(), record.clone());
        Ok(())
    }

    async fn remove_pre_key(&mut self, id: PreKeyId) -> Result<()> {
        self.lock().prekeys.remove(&u32::from(id));
        Ok(())
    }
}

#[async_trait]
impl SignedPreKeyStore for Keys {
    async fn get_signed_pre_key(&self, _: SignedPreKeyId) -> Result<SignedPreKeyRecord> {
        Ok(self.lock().signed.clone())
    }

    async fn save_signed_pre_key(&mut self, _: SignedPreKeyId, record: &SignedPreKeyRecord) -> Result<()> {
        self.lock().signed = record.clone();
        Ok(())
    }
}

#[async_trait]
impl SessionStore for Keys {
    async fn load_session(&self, of: &ProtocolAddress) -> Result<Option<SessionRecord>> {
        Ok(self.lock().sessions.get(of.as_str()).cloned())
    }

    async fn has_session(&self, of: &ProtocolAddress) -> Result<bool> {
        Ok(self.lock().sessions.contains_key(of.as_str()))
    }

    async fn store_session(&mut self, of: &ProtocolAddress, record: SessionRecord) -> Result<()> {
        self.lock().sessions.insert(of.as_str().to_owned(), record);
        Ok(())
    }
}

#[async_trait]
impl SenderKeyStore for Keys {
    async fn store_sender_key(&mut self, name: &SenderKeyName, record: SenderKeyRecord) -> Result<()> {
        self.lock().sender_keys.insert(name.cache_key().to_owned(), record);
        Ok(())
    }

    async fn load_sender_key(&self, name: &SenderKeyName) -> Result<Option<SenderKeyRecord>> {
        Ok(self.lock().sender_keys.get(name.cache_key()).cloned())
    }
}

//! Ids that nobody else makes.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

/// Returns 64 bits that can't be guessed; the standard library's hash keys are the system's randomness.
fn bits() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one(COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Returns a random UUID (version 4).
pub(crate) fn uuid() -> String {
    let high = bits() & !0xf000 | 0x4000;
    let low = bits() & !(0b11 << 62) | (0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

/// Returns a new id for a command that wants a reply.
pub(crate) fn request_id() -> String {
    format!("tool-{:016x}", bits())
}

/// Returns whether `id` has the shape of a UUID.
pub(crate) fn is_uuid(id: &str) -> bool {
    id.len() == 36
        && id.bytes().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn uuids_have_their_shape_and_never_repeat() {
        let all: HashSet<String> = (0..1000).map(|_| uuid()).collect();
        assert_eq!(all.len(), 1000);
        for id in &all {
            assert!(is_uuid(id) && &id[14..15] == "4" && "89ab".contains(&id[19..20]), "{id}");
        }
        for other in ["", "scripted-7", &"a".repeat(36), "00000000-0000-4000-8000-00000000000"] {
            assert!(!is_uuid(other), "{other}");
        }
    }

    #[test]
    fn request_ids_are_taken_by_the_host() {
        assert!(ipc_handlers::RequestId::parse(&request_id()).is_ok());
        assert_ne!(request_id(), request_id());
    }
}

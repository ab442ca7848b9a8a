//! Whether an answer is text as far as it came: UTF-8, and no control characters that no JSON and no stream of events has. What
//! is packed, by whatever program, is not, and could not be looked through for the key. Pure.

/// A body that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct Plain {
    /// The beginning of a character that the next piece goes on with.
    cut: Vec<u8>,
}

impl Plain {
    /// Takes in the next piece; returns whether all is text so far.
    pub(super) fn push(&mut self, piece: &[u8]) -> bool {
        let joined;
        let bytes = if self.cut.is_empty() {
            piece
        } else {
            joined = [std::mem::take(&mut self.cut).as_slice(), piece].concat();
            joined.as_slice()
        };
        if bytes.iter().any(|byte| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x7f)) {
            return false;
        }
        match std::str::from_utf8(bytes) {
            Ok(_) => true,
            Err(error) if error.error_len().is_none() => {
                self.cut = bytes.get(error.valid_up_to()..).unwrap_or_default().to_vec();
                true
            }
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether all pieces are text.
    fn is_text(pieces: &[&[u8]]) -> bool {
        let mut plain = Plain::default();
        pieces.iter().all(|piece| plain.push(piece))
    }

    #[test]
    fn text_is_text_wherever_it_is_cut() {
        let text = "data: {\"text\":\"zwölf € 🦀\u{7f}\"}\r\n\n\t".as_bytes();
        for cut in 0..=text.len() {
            assert!(is_text(&[&text[..cut], &text[cut..]]), "{cut}");
        }
        let each: Vec<&[u8]> = text.chunks(1).collect();
        assert!(is_text(&each) && is_text(&[]));
    }

    #[test]
    fn what_is_packed_is_not_text_wherever_it_is_cut() {
        let packed: [(&str, &[u8]); 7] = [
            ("gzip", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]),
            ("compress", &[0x1f, 0x9d, 0x90]),
            ("zlib", &[0x78, 0x9c, 0xab, 0x56]),
            ("zstd", &[0x28, 0xb5, 0x2f, 0xfd, 4]),
            ("xz", &[0xfd, b'7', b'z', b'X', b'Z', 0]),
            ("brotli", &[0x8b, 0x02, 0x80, b'{', b'}', 3]),
            ("utf-16", &[b'{', 0, b'}', 0]),
        ];
        for (name, bytes) in packed {
            for cut in 0..bytes.len() {
                assert!(!is_text(&[&bytes[..cut], &bytes[cut..]]), "{name} cut after {cut}");
            }
        }
    }
}

//! Deflated bytes (RFC 1951, in the wrapper of RFC 1950), inflated up to a bound.

use super::NoPicture;

/// The longest code of a letter, bits.
const LONGEST: usize = 15;
/// Lengths of repeats, and how many further bits each has.
const LENGTHS: [(u16, u8); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];
/// The same of distances.
const DISTANCES: [(u16, u8); 30] = [
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 0),
    (5, 1),
    (7, 1),
    (9, 2),
    (13, 2),
    (17, 3),
    (25, 3),
    (33, 4),
    (49, 4),
    (65, 5),
    (97, 5),
    (129, 6),
    (193, 6),
    (257, 7),
    (385, 7),
    (513, 8),
    (769, 8),
    (1025, 9),
    (1537, 9),
    (2049, 10),
    (3073, 10),
    (4097, 11),
    (6145, 11),
    (8193, 12),
    (12289, 12),
    (16385, 13),
    (24577, 13),
];
/// The order in which the lengths of codes for lengths stand.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Inflates exactly `wanted` bytes; what follows them is not looked at.
pub(super) fn inflate(bytes: &[u8], wanted: usize) -> Result<Vec<u8>, NoPicture> {
    let (head, body) = bytes.split_at_checked(2).ok_or(NoPicture::Broken)?;
    let is_deflate =
        head[0] & 15 == 8 && head[1] & 32 == 0 && u16::from_be_bytes([head[0], head[1]]) % 31 == 0;
    if !is_deflate {
        return Err(NoPicture::Broken);
    }
    let mut bits = Bits { bytes: body, at: 0, held: 0, count: 0 };
    let mut out = Vec::with_capacity(wanted.min(1 << 20));
    loop {
        let is_last = bits.take(1)? == 1;
        match bits.take(2)? {
            0 => stored(&mut bits, &mut out, wanted)?,
            1 => {
                let mut lengths = [8_u8; 288];
                lengths[144..256].fill(9);
                lengths[256..280].fill(7);
                coded(&mut bits, &mut out, wanted, &Codes::new(&lengths)?, &Codes::new(&[5; 30])?)?;
            }
            2 => {
                let (letters, distances) = tables(&mut bits)?;
                coded(&mut bits, &mut out, wanted, &letters, &distances)?;
            }
            _ => return Err(NoPicture::Broken),
        }
        if out.len() >= wanted {
            out.truncate(wanted);
            return Ok(out);
        }
        if is_last {
            return Err(NoPicture::Broken);
        }
    }
}

/// The bits of bytes, the lowest of each first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    held: u32,
    count: u32,
}

impl Bits<'_> {
    fn take(&mut self, count: u32) -> Result<usize, NoPicture> {
        while self.count < count {
            let byte = *self.bytes.get(self.at).ok_or(NoPicture::Broken)?;
            self.at += 1;
            self.held |= u32::from(byte) << self.count;
            self.count += 8;
        }
        let taken = self.held & ((1 << count) - 1);
        self.held >>= count;
        self.count -= count;
        Ok(taken as usize)
    }
}

/// Codes by their lengths: how many there are of each, and the letters in order.
struct Codes {
    counts: [u16; LONGEST + 1],
    letters: Vec<u16>,
}

impl Codes {
    fn new(lengths: &[u8]) -> Result<Self, NoPicture> {
        let mut counts = [0_u16; LONGEST + 1];
        lengths.iter().for_each(|length| counts[usize::from(*length)] += 1);
        counts[0] = 0;
        let mut left = 1_i32;
        for count in &counts[1..] {
            left = left * 2 - i32::from(*count);
            if left < 0 {
                return Err(NoPicture::Broken);
            }
        }
        let mut letters = Vec::new();
        for length in 1..=LONGEST {
            let of = lengths.iter().zip(0_u16..).filter(|(one, _)| usize::from(**one) == length);
            letters.extend(of.map(|(_, letter)| letter));
        }
        Ok(Self { counts, letters })
    }

    fn read(&self, bits: &mut Bits<'_>) -> Result<usize, NoPicture> {
        let (mut code, mut first, mut index) = (0_usize, 0_usize, 0_usize);
        for count in &self.counts[1..] {
            code |= bits.take(1)?;
            let count = usize::from(*count);
            if code < first + count {
                return self
                    .letters
                    .get(index + code - first)
                    .map(|letter| usize::from(*letter))
                    .ok_or(NoPicture::Broken);
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        Err(NoPicture::Broken)
    }
}

fn stored(bits: &mut Bits<'_>, out: &mut Vec<u8>, wanted: usize) -> Result<(), NoPicture> {
    // It begins with a whole byte, and whole bytes that are held were not used yet.
    bits.at -= (bits.count / 8) as usize;
    (bits.held, bits.count) = (0, 0);
    let length = bits.take(16)?;
    if bits.take(16)? != length ^ 0xffff {
        return Err(NoPicture::Broken);
    }
    let piece = bits.bytes.get(bits.at..bits.at + length).ok_or(NoPicture::Broken)?;
    out.extend_from_slice(&piece[..piece.len().min(wanted - out.len())]);
    bits.at += length;
    Ok(())
}

fn tables(bits: &mut Bits<'_>) -> Result<(Codes, Codes), NoPicture> {
    let (letters, distances, count) = (bits.take(5)? + 257, bits.take(5)? + 1, bits.take(4)? + 4);
    let mut lengths = [0_u8; 19];
    for place in &ORDER[..count] {
        lengths[*place] = bits.take(3)? as u8;
    }
    let codes = Codes::new(&lengths)?;
    let mut lengths = Vec::with_capacity(letters + distances);
    while lengths.len() < letters + distances {
        let (length, times) = match codes.read(bits)? {
            16 => (*lengths.last().ok_or(NoPicture::Broken)?, bits.take(2)? + 3),
            17 => (0, bits.take(3)? + 3),
            18 => (0, bits.take(7)? + 11),
            length => (length as u8, 1),
        };
        lengths.extend(std::iter::repeat_n(length, times));
    }
    if lengths.len() > letters + distances {
        return Err(NoPicture::Broken);
    }
    Ok((Codes::new(&lengths[..letters])?, Codes::new(&lengths[letters..])?))
}

fn coded(
    bits: &mut Bits<'_>,
    out: &mut Vec<u8>,
    wanted: usize,
    letters: &Codes,
    distances: &Codes,
) -> Result<(), NoPicture> {
    while out.len() < wanted {
        let letter = letters.read(bits)?;
        if letter < 256 {
            out.push(letter as u8);
            continue;
        }
        if letter == 256 {
            return Ok(());
        }
        let (length, more) = *LENGTHS.get(letter - 257).ok_or(NoPicture::Broken)?;
        let length = usize::from(length) + bits.take(u32::from(more))?;
        let (distance, more) = *DISTANCES.get(distances.read(bits)?).ok_or(NoPicture::Broken)?;
        let distance = usize::from(distance) + bits.take(u32::from(more))?;
        let from = out.len().checked_sub(distance).ok_or(NoPicture::Broken)?;
        for at in from..from + length {
            out.push(out[at]);
        }
    }
    Ok(())
}

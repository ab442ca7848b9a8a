//! A scan of a JPEG: numbers of some of its colours, by codes.

use super::{Frame, Known, NoPicture, ORDER, Plane};

/// Codes of at most 16 bits.
pub(super) struct Huffman {
    counts: [u8; 16],
    letters: Vec<u8>,
}

impl Huffman {
    pub(super) fn new(counts: &[u8], letters: &[u8]) -> Result<Self, NoPicture> {
        let counts: [u8; 16] = counts.try_into().map_err(|_| NoPicture::Broken)?;
        Ok(Self { counts, letters: letters.to_vec() })
    }

    fn read(&self, bits: &mut Bits<'_>) -> Result<u8, NoPicture> {
        let (mut code, mut first, mut index) = (0_usize, 0_usize, 0_usize);
        for count in self.counts {
            code |= bits.bit()?;
            let count = usize::from(count);
            if code < first + count {
                return self.letters.get(index + code.wrapping_sub(first)).copied().ok_or(NoPicture::Broken);
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        Err(NoPicture::Broken)
    }
}

/// The bits of a scan, the highest of each byte first, up to a marker.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    held: u8,
    count: u8,
}

impl Bits<'_> {
    fn bit(&mut self) -> Result<usize, NoPicture> {
        if self.count == 0 {
            let byte = *self.bytes.get(self.at).ok_or(NoPicture::Broken)?;
            if byte == 0xff && self.bytes.get(self.at + 1) != Some(&0) {
                return Err(NoPicture::Broken);
            }
            self.at += if byte == 0xff { 2 } else { 1 };
            (self.held, self.count) = (byte, 8);
        }
        self.count -= 1;
        Ok(usize::from(self.held >> self.count & 1))
    }

    fn take(&mut self, count: u8) -> Result<i32, NoPicture> {
        let mut taken = 0;
        for _ in 0..count {
            taken = taken << 1 | i32::from(self.bit()? == 1);
        }
        Ok(taken)
    }

    /// A number of some bits; those that begin with 0 are below nothing.
    fn number(&mut self, bits: u8) -> Result<i32, NoPicture> {
        if bits > 15 {
            return Err(NoPicture::Broken);
        }
        let taken = self.take(bits)?;
        let is_below = bits > 0 && taken < 1 << (bits - 1);
        Ok(if is_below { taken - (1 << bits) + 1 } else { taken })
    }

    /// Begins anew behind the next marker of a restart.
    fn restart(&mut self) -> Result<(), NoPicture> {
        self.count = 0;
        match self.bytes.get(self.at..self.at + 2) {
            Some([0xff, 0xd0..=0xd7]) => {
                self.at += 2;
                Ok(())
            }
            _ => Err(NoPicture::Broken),
        }
    }
}

/// What a scan tells of each block.
#[derive(Clone, Copy)]
struct Part {
    from: usize,
    to: usize,
    /// The bit that was told before, or 0; and the one that is told now.
    before: u8,
    now: u8,
    is_progressive: bool,
}

/// Reads a scan; returns how many bytes it has.
pub(super) fn scan(head: &[u8], bytes: &[u8], known: &mut Known) -> Result<usize, NoPicture> {
    let Known { frame, first, rest, restart, .. } = known;
    let frame = frame.as_mut().ok_or(NoPicture::Broken)?;
    let [count, told @ ..] = head else { return Err(NoPicture::Broken) };
    let (told, part) = told.split_at_checked(2 * usize::from(*count)).ok_or(NoPicture::Broken)?;
    let [from, to, bits] = *part else { return Err(NoPicture::Broken) };
    let part = Part {
        from: usize::from(from),
        to: usize::from(to),
        before: bits >> 4,
        now: bits & 15,
        is_progressive: frame.is_progressive,
    };
    if part.to > 63 || part.from > part.to || part.now > 13 {
        return Err(NoPicture::Broken);
    }
    if usize::from(*count) > frame.planes.len() {
        return Err(NoPicture::Broken);
    }
    let mut planes = Vec::new();
    for one in told.chunks_exact(2) {
        let n = frame.planes.iter().position(|plane| plane.id == one[0]).ok_or(NoPicture::Broken)?;
        frame.planes[n].codes = (usize::from(one[1] >> 4), usize::from(one[1] & 15));
        frame.planes[n].last = 0;
        planes.push(n);
    }
    let units = match planes[..] {
        [one] => (frame.planes[one].seen_wide, frame.planes[one].seen_high),
        [] => return Err(NoPicture::Broken),
        _ => (frame.wide.div_ceil(8 * frame.across), frame.high.div_ceil(8 * frame.down)),
    };
    let mut reading = Reading { bits: Bits { bytes, at: 0, held: 0, count: 0 }, first, rest, part, left: 0 };
    for n in 0..units.0 * units.1 {
        if *restart > 0 && n > 0 && n % *restart == 0 {
            reading.bits.restart()?;
            reading.left = 0;
            frame.planes.iter_mut().for_each(|plane| plane.last = 0);
        }
        unit(frame, &planes, (n % units.0, n / units.0), &mut reading)?;
    }
    Ok(reading.bits.at)
}

/// Reads the blocks of a unit.
fn unit(
    frame: &mut Frame,
    planes: &[usize],
    (x, y): (usize, usize),
    reading: &mut Reading<'_>,
) -> Result<(), NoPicture> {
    if let [one] = planes {
        return reading.block(&mut frame.planes[*one], x, y);
    }
    for n in planes {
        let plane = &mut frame.planes[*n];
        let (wide, high) = (plane.across, plane.down);
        for n in 0..wide * high {
            reading.block(plane, x * wide + n % wide, y * high + n / wide)?;
        }
    }
    Ok(())
}

struct Reading<'a> {
    bits: Bits<'a>,
    first: &'a [Option<Huffman>; 4],
    rest: &'a [Option<Huffman>; 4],
    part: Part,
    /// How many further blocks have nothing new.
    left: i32,
}

impl Reading<'_> {
    fn block(&mut self, plane: &mut Plane, x: usize, y: usize) -> Result<(), NoPicture> {
        let at = (y * plane.wide + x) * 64;
        let Part { from, to, before, now, is_progressive } = self.part;
        let (codes, last) = (plane.codes, &mut plane.last);
        let block = plane.numbers.get_mut(at..at + 64).ok_or(NoPicture::Broken)?;
        if from == 0 && before > 0 {
            block[0] |= i16::from(self.bits.bit()? == 1) << now;
            return Ok(());
        }
        if from == 0 {
            let codes = self.first.get(codes.0).and_then(Option::as_ref).ok_or(NoPicture::Broken)?;
            let bits = codes.read(&mut self.bits)?;
            *last = last.wrapping_add(self.bits.number(bits)?);
            block[0] = (*last << now) as i16;
        }
        if to == 0 {
            return Ok(());
        }
        let from = from.max(1);
        let codes = self.rest.get(codes.1).and_then(Option::as_ref).ok_or(NoPicture::Broken)?;
        match (is_progressive, before) {
            (true, 1..) => self.again(codes, block, from, to),
            _ => self.numbers(codes, block, from, to),
        }
    }

    /// Reads numbers for the first time.
    fn numbers(
        &mut self,
        codes: &Huffman,
        block: &mut [i16],
        from: usize,
        to: usize,
    ) -> Result<(), NoPicture> {
        if self.left > 0 {
            self.left -= 1;
            return Ok(());
        }
        let mut k = from;
        while k <= to {
            let letter = codes.read(&mut self.bits)?;
            let (run, bits) = (letter >> 4, letter & 15);
            match (run, bits) {
                (15, 0) => k += 16,
                (_, 0) => {
                    self.left = (1 << run) - 1 + self.bits.take(run)?;
                    return Ok(());
                }
                _ => {
                    k += usize::from(run);
                    let place = *ORDER.get(k).ok_or(NoPicture::Broken)?;
                    block[usize::from(place)] = (self.bits.number(bits)? << self.part.now) as i16;
                    k += 1;
                }
            }
        }
        Ok(())
    }

    /// Reads a further bit of numbers.
    fn again(&mut self, codes: &Huffman, block: &mut [i16], from: usize, to: usize) -> Result<(), NoPicture> {
        let bit = 1_i16 << self.part.now;
        let mut k = from;
        while self.left == 0 && k <= to {
            let letter = codes.read(&mut self.bits)?;
            let (mut run, bits) = (letter >> 4, letter & 15);
            let new = match (run, bits) {
                (15, 0) => 0,
                (_, 0) => {
                    self.left = (1 << run) + self.bits.take(run)?;
                    break;
                }
                _ => {
                    if self.bits.bit()? == 1 {
                        bit
                    } else {
                        -bit
                    }
                }
            };
            while k <= to {
                let number = &mut block[usize::from(ORDER[k])];
                k += 1;
                if *number != 0 {
                    refine(&mut self.bits, number, bit)?;
                } else if run == 0 {
                    *number = new;
                    break;
                } else {
                    run -= 1;
                }
            }
        }
        if self.left > 0 {
            for place in ORDER.get(k..=to).unwrap_or_default() {
                let number = &mut block[usize::from(*place)];
                if *number != 0 {
                    refine(&mut self.bits, number, bit)?;
                }
            }
            self.left -= 1;
        }
        Ok(())
    }
}

fn refine(bits: &mut Bits<'_>, number: &mut i16, bit: i16) -> Result<(), NoPicture> {
    if bits.bit()? == 1 && *number & bit == 0 {
        *number = number.wrapping_add(if *number > 0 { bit } else { -bit });
    }
    Ok(())
}

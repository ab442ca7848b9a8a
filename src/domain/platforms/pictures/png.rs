//! PNG, read and written.

use super::{NoPicture, Picture, bounded, inflate::inflate};

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

pub(super) fn is_png(bytes: &[u8]) -> bool {
    bytes.starts_with(SIGNATURE)
}

/// How pixels are written.
#[derive(Clone, Copy)]
struct Form {
    wide: usize,
    high: usize,
    depth: usize,
    colour: u8,
}

impl Form {
    fn read(head: &[u8]) -> Result<Self, NoPicture> {
        let number = |at: usize| {
            let bytes =
                head.get(at..at + 4).and_then(|four| four.try_into().ok()).ok_or(NoPicture::Broken)?;
            Ok::<_, NoPicture>(u32::from_be_bytes(bytes) as usize)
        };
        let [depth, colour, 0, 0, interlaced] = *head.get(8..13).ok_or(NoPicture::Broken)? else {
            return Err(NoPicture::Broken);
        };
        let fits = match colour {
            0 => [1, 2, 4, 8, 16].contains(&depth),
            3 => [1, 2, 4, 8].contains(&depth),
            2 | 4 | 6 => [8, 16].contains(&depth),
            _ => false,
        };
        if !fits {
            return Err(NoPicture::Broken);
        }
        if interlaced != 0 {
            return Err(NoPicture::Kind);
        }
        let (wide, high) = bounded(number(0)?, number(4)?)?;
        Ok(Self { wide, high, depth: usize::from(depth), colour })
    }

    /// How many values a pixel has.
    fn values(self) -> usize {
        match self.colour {
            2 => 3,
            4 => 2,
            6 => 4,
            _ => 1,
        }
    }

    /// How many bytes a line has.
    fn line(self) -> usize {
        (self.wide * self.values() * self.depth).div_ceil(8)
    }
}

pub(super) fn read(bytes: &[u8]) -> Result<Picture, NoPicture> {
    let mut rest = bytes.strip_prefix(SIGNATURE).ok_or(NoPicture::Kind)?;
    let (mut form, mut palette, mut clear, mut data) = (None, &[][..], &[][..], Vec::new());
    while let Some((head, behind)) = rest.split_at_checked(8) {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let part = behind.get(..length).ok_or(NoPicture::Broken)?;
        match &head[4..] {
            b"IHDR" => form = Some(Form::read(part)?),
            b"PLTE" => palette = part,
            b"tRNS" => clear = part,
            b"IDAT" => data.extend_from_slice(part),
            b"IEND" => break,
            _ => {}
        }
        rest = behind.get(length + 4..).unwrap_or_default();
    }
    let form = form.ok_or(NoPicture::Broken)?;
    let line = form.line();
    let mut raw = inflate(&data, (line + 1) * form.high)?;
    let pixel = (form.values() * form.depth).div_ceil(8);
    let mut rgb = Vec::with_capacity(form.wide * form.high * 3);
    for y in 0..form.high {
        let (before, now) = raw.split_at_mut(y * (line + 1));
        let above = before.len().checked_sub(line).map(|from| &before[from..]);
        let (kind, now) = now[..=line].split_first_mut().ok_or(NoPicture::Broken)?;
        unfilter(*kind, now, above, pixel)?;
        colours(form, now, (palette, clear), &mut rgb)?;
    }
    Ok(Picture { wide: form.wide, high: form.high, rgb })
}

/// Takes back what a line was written with: the difference to its neighbours.
fn unfilter(kind: u8, line: &mut [u8], above: Option<&[u8]>, pixel: usize) -> Result<(), NoPicture> {
    for at in 0..line.len() {
        let left = at.checked_sub(pixel).map_or(0, |at| line[at]);
        let up = above.map_or(0, |above| above[at]);
        let corner = at.checked_sub(pixel).and_then(|at| above.map(|above| above[at])).unwrap_or(0);
        let guess = match kind {
            0 => 0,
            1 => left,
            2 => up,
            3 => u8::midpoint(left, up),
            4 => paeth(left, up, corner),
            _ => return Err(NoPicture::Broken),
        };
        line[at] = line[at].wrapping_add(guess);
    }
    Ok(())
}

fn paeth(left: u8, up: u8, corner: u8) -> u8 {
    let guess = i16::from(left) + i16::from(up) - i16::from(corner);
    let far = |value: u8| (guess - i16::from(value)).abs();
    if far(left) <= far(up) && far(left) <= far(corner) {
        left
    } else if far(up) <= far(corner) {
        up
    } else {
        corner
    }
}

/// Adds a line of pixels; what is clear stands on white.
fn colours(
    form: Form,
    line: &[u8],
    (palette, clear): (&[u8], &[u8]),
    rgb: &mut Vec<u8>,
) -> Result<(), NoPicture> {
    let largest = (1_usize << form.depth.min(8)) - 1;
    // Of 16 bits the first 8 are enough.
    let value = |n: usize| match form.depth {
        8 => usize::from(line[n]),
        16 => usize::from(line[2 * n]),
        depth => {
            let bit = n * depth;
            usize::from(line[bit / 8]) >> (8 - depth - bit % 8) & largest
        }
    };
    let on_white = |value: usize, alpha: usize| ((value * alpha + 255 * (255 - alpha)) / 255) as u8;
    for x in 0..form.wide {
        let at = x * form.values();
        let grey = |alpha: usize| [on_white(value(at) * 255 / largest, alpha); 3];
        let pixel = match form.colour {
            0 => grey(255),
            4 => grey(value(at + 1)),
            2 => [0, 1, 2].map(|n| value(at + n) as u8),
            6 => [0, 1, 2].map(|n| on_white(value(at + n), value(at + 3))),
            _ => {
                let n = value(at);
                let colour = palette.get(3 * n..3 * n + 3).ok_or(NoPicture::Broken)?;
                let alpha = clear.get(n).map_or(255, |alpha| usize::from(*alpha));
                [0, 1, 2].map(|part: usize| on_white(usize::from(colour[part]), alpha))
            }
        };
        rgb.extend_from_slice(&pixel);
    }
    Ok(())
}

/// Writes a picture, without making it shorter: it is small.
pub(super) fn write(picture: &Picture) -> Vec<u8> {
    let mut raw = Vec::with_capacity((picture.wide * 3 + 1) * picture.high);
    for line in picture.rgb.chunks(picture.wide * 3) {
        raw.push(0);
        raw.extend_from_slice(line);
    }
    let mut data = vec![0x78, 0x01];
    let mut pieces = raw.chunks(0xffff).peekable();
    while let Some(piece) = pieces.next() {
        let length = piece.len() as u16;
        data.push(u8::from(pieces.peek().is_none()));
        data.extend_from_slice(&length.to_le_bytes());
        data.extend_from_slice(&(!length).to_le_bytes());
        data.extend_from_slice(piece);
    }
    data.extend_from_slice(&adler(&raw).to_be_bytes());
    let mut png = SIGNATURE.to_vec();
    let mut head = Vec::new();
    head.extend_from_slice(&(picture.wide as u32).to_be_bytes());
    head.extend_from_slice(&(picture.high as u32).to_be_bytes());
    head.extend_from_slice(&[8, 2, 0, 0, 0]);
    for (name, part) in [(b"IHDR", &head), (b"IDAT", &data), (b"IEND", &Vec::new())] {
        png.extend_from_slice(&(part.len() as u32).to_be_bytes());
        let from = png.len();
        png.extend_from_slice(name);
        png.extend_from_slice(part);
        let sum = crc(&png[from..]);
        png.extend_from_slice(&sum.to_be_bytes());
    }
    png
}

fn adler(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1_u32, 0_u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    high << 16 | low
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(
            sum ^ u32::from(*byte),
            |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 },
        )
    })
}

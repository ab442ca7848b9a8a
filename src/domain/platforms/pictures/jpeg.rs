//! JPEG, read: baseline and progressive, grey or in colours, 8 bits.

use super::{NoPicture, Picture, bounded};

mod scan;
use scan::Huffman;

/// Where the nth number of a block stands in it.
const ORDER: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47, 55, 62, 63,
];
/// The most scans of a picture: each walks through all of it.
const SCANS: usize = 64;

pub(super) fn is_jpeg(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xd8, 0xff])
}

/// One of the colours of a picture.
struct Plane {
    id: u8,
    /// How many blocks of it a unit has, side by side and one above the other.
    across: usize,
    down: usize,
    table: usize,
    /// How many blocks it has, with those that fill the last units; and how many of them are seen.
    wide: usize,
    high: usize,
    seen_wide: usize,
    seen_high: usize,
    numbers: Vec<i16>,
    /// The last first number of a block.
    last: i32,
    /// The tables of codes for the scan at hand.
    codes: (usize, usize),
}

struct Frame {
    wide: usize,
    high: usize,
    is_progressive: bool,
    planes: Vec<Plane>,
    /// The most blocks that a unit has of a colour.
    across: usize,
    down: usize,
}

/// What is known of a picture before its scans.
#[derive(Default)]
struct Known {
    frame: Option<Frame>,
    tables: [Option<[u16; 64]>; 4],
    first: [Option<Huffman>; 4],
    rest: [Option<Huffman>; 4],
    /// How many units have codes before these begin anew.
    restart: usize,
    is_rgb: bool,
    turned: u8,
}

pub(super) fn read(bytes: &[u8]) -> Result<Picture, NoPicture> {
    let (mut known, mut at, mut scans) = (Known::default(), 2, 0);
    loop {
        // Between two parts there may be anything.
        at += bytes
            .get(at..)
            .and_then(|rest| rest.iter().position(|byte| *byte == 0xff))
            .ok_or(NoPicture::Broken)?;
        let marker = *bytes.get(at + 1).ok_or(NoPicture::Broken)?;
        at += if marker == 0xff { 1 } else { 2 };
        if matches!(marker, 0 | 1 | 0xd0..=0xd8 | 0xff) {
            continue;
        }
        if marker == 0xd9 {
            break;
        }
        let length = usize::from(two(bytes, at)?);
        let part = bytes.get(at + 2..at + length).ok_or(NoPicture::Broken)?;
        at += length;
        match marker {
            0xc0..=0xc2 => known.frame = Some(frame(part, marker == 0xc2)?),
            0xc4 => codes(part, &mut known)?,
            0xc3 | 0xc5..=0xcf => return Err(NoPicture::Kind),
            0xdb => tables(part, &mut known)?,
            0xdd => known.restart = usize::from(two(part, 0)?),
            0xe1 => known.turned = turned(part).unwrap_or(1),
            0xee => known.is_rgb = part.starts_with(b"Adobe") && part.get(11) == Some(&0),
            0xda => {
                scans += 1;
                if scans > SCANS {
                    return Err(NoPicture::Broken);
                }
                at += scan::scan(part, bytes.get(at..).unwrap_or_default(), &mut known)?;
            }
            _ => {}
        }
    }
    let turned = known.turned;
    Ok(paint(known)?.turned(turned))
}

fn two(bytes: &[u8], at: usize) -> Result<u16, NoPicture> {
    let two = bytes.get(at..at + 2).ok_or(NoPicture::Broken)?;
    Ok(u16::from_be_bytes([two[0], two[1]]))
}

fn frame(part: &[u8], is_progressive: bool) -> Result<Frame, NoPicture> {
    let [8, _, _, _, _, count, ref planes @ ..] = *part else { return Err(NoPicture::Kind) };
    let (wide, high) = bounded(usize::from(two(part, 3)?), usize::from(two(part, 1)?))?;
    let planes: Vec<[u8; 3]> =
        planes.chunks_exact(3).take(usize::from(count)).map(|plane| [plane[0], plane[1], plane[2]]).collect();
    if planes.len() != usize::from(count) || ![1, 3].contains(&count) {
        return Err(NoPicture::Kind);
    }
    let factors = |plane: &[u8; 3]| (usize::from(plane[1] >> 4), usize::from(plane[1] & 15));
    if planes.iter().any(|plane| {
        !(1..=4).contains(&factors(plane).0) || !(1..=4).contains(&factors(plane).1) || plane[2] > 3
    }) {
        return Err(NoPicture::Broken);
    }
    let across = planes.iter().map(|plane| factors(plane).0).max().unwrap_or(1);
    let down = planes.iter().map(|plane| factors(plane).1).max().unwrap_or(1);
    let units = (wide.div_ceil(8 * across), high.div_ceil(8 * down));
    let plane = |plane: &[u8; 3]| {
        let (a, d) = factors(plane);
        let (blocks_wide, blocks_high) = (units.0 * a, units.1 * d);
        Plane {
            id: plane[0],
            across: a,
            down: d,
            table: usize::from(plane[2]),
            wide: blocks_wide,
            high: blocks_high,
            seen_wide: (wide * a).div_ceil(across).div_ceil(8),
            seen_high: (high * d).div_ceil(down).div_ceil(8),
            numbers: vec![0; blocks_wide * blocks_high * 64],
            last: 0,
            codes: (0, 0),
        }
    };
    Ok(Frame { wide, high, is_progressive, planes: planes.iter().map(plane).collect(), across, down })
}

/// Reads tables of codes.
fn codes(mut part: &[u8], known: &mut Known) -> Result<(), NoPicture> {
    while let [head, rest @ ..] = part {
        let (counts, rest) = rest.split_at_checked(16).ok_or(NoPicture::Broken)?;
        let count = counts.iter().map(|count| usize::from(*count)).sum();
        let (letters, rest) = rest.split_at_checked(count).ok_or(NoPicture::Broken)?;
        let of = if head >> 4 == 0 { &mut known.first } else { &mut known.rest };
        *of.get_mut(usize::from(head & 15)).ok_or(NoPicture::Broken)? = Some(Huffman::new(counts, letters)?);
        part = rest;
    }
    Ok(())
}

/// Reads tables by which numbers are multiplied.
fn tables(mut part: &[u8], known: &mut Known) -> Result<(), NoPicture> {
    while let [head, rest @ ..] = part {
        let size = if head >> 4 == 0 { 1 } else { 2 };
        let (numbers, rest) = rest.split_at_checked(64 * size).ok_or(NoPicture::Broken)?;
        let mut table = [0; 64];
        for (place, number) in ORDER.iter().zip(numbers.chunks_exact(size)) {
            table[usize::from(*place)] = number.iter().fold(0, |all, byte| all << 8 | u16::from(*byte));
        }
        *known.tables.get_mut(usize::from(head & 15)).ok_or(NoPicture::Broken)? = Some(table);
        part = rest;
    }
    Ok(())
}

/// How a camera says that it was held: 1 to 8.
fn turned(part: &[u8]) -> Option<u8> {
    let tiff = part.strip_prefix(b"Exif\0\0")?;
    let is_little = tiff.starts_with(b"II");
    let two = |at: usize| {
        let bytes = tiff.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(usize::from(if is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }))
    };
    let four = |at: usize| {
        let bytes = tiff.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) } as usize)
    };
    let list = four(4)?;
    let entry = (0..two(list)?).map(|n| list + 2 + 12 * n).find(|at| two(*at) == Some(0x0112))?;
    u8::try_from(two(entry + 8)?).ok()
}

/// Makes pixels of the numbers.
fn paint(known: Known) -> Result<Picture, NoPicture> {
    let frame = known.frame.ok_or(NoPicture::Broken)?;
    let waves = waves();
    let mut planes = Vec::new();
    for plane in &frame.planes {
        let table = known.tables[plane.table].as_ref().ok_or(NoPicture::Broken)?;
        let mut samples = vec![0_u8; plane.wide * plane.high * 64];
        for (n, block) in plane.numbers.chunks_exact(64).enumerate() {
            let (x, y) = (n % plane.wide * 8, n / plane.wide * 8);
            let painted = block_of(block, table, &waves);
            for (row, line) in painted.chunks_exact(8).enumerate() {
                let at = (y + row) * plane.wide * 8 + x;
                samples[at..at + 8].copy_from_slice(line);
            }
        }
        planes.push(samples);
    }
    let mut rgb = Vec::with_capacity(frame.wide * frame.high * 3);
    for y in 0..frame.high {
        for x in 0..frame.wide {
            let sample = |n: usize| {
                let plane = &frame.planes[n];
                let (x, y) = (x * plane.across / frame.across, y * plane.down / frame.down);
                f32::from(planes[n][y * plane.wide * 8 + x])
            };
            let first = sample(0);
            rgb.extend_from_slice(&match (frame.planes.len(), known.is_rgb) {
                (1, _) => [first as u8; 3],
                (_, true) => [first as u8, sample(1) as u8, sample(2) as u8],
                (_, false) => {
                    let (blue, red) = (sample(1) - 128.0, sample(2) - 128.0);
                    let parts = [
                        first + 1.402 * red,
                        first - 0.344_136 * blue - 0.714_136 * red,
                        first + 1.772 * blue,
                    ];
                    parts.map(|part| part.round().clamp(0.0, 255.0) as u8)
                }
            });
        }
    }
    Ok(Picture { wide: frame.wide, high: frame.high, rgb })
}

/// How much each wave counts at each of eight places.
fn waves() -> [[f32; 8]; 8] {
    let mut waves = [[0.0; 8]; 8];
    for (place, line) in waves.iter_mut().enumerate() {
        for (wave, share) in line.iter_mut().enumerate() {
            let scale = if wave == 0 { std::f32::consts::FRAC_1_SQRT_2 } else { 1.0 };
            *share = scale / 2.0 * ((2 * place + 1) as f32 * wave as f32 * std::f32::consts::PI / 16.0).cos();
        }
    }
    waves
}

fn block_of(block: &[i16], table: &[u16; 64], waves: &[[f32; 8]; 8]) -> [u8; 64] {
    let mut lines = [0.0_f32; 64];
    for row in 0..8 {
        for (x, waves) in waves.iter().enumerate() {
            let line = row * 8..row * 8 + 8;
            let terms = block[line.clone()].iter().zip(&table[line]).zip(waves);
            lines[row * 8 + x] =
                terms.map(|((number, times), wave)| f32::from(*number) * f32::from(*times) * wave).sum();
        }
    }
    let mut painted = [0; 64];
    for (y, waves) in waves.iter().enumerate() {
        for x in 0..8 {
            let sum: f32 = waves.iter().enumerate().map(|(row, wave)| lines[row * 8 + x] * wave).sum();
            painted[y * 8 + x] = (sum + 128.0).round().clamp(0.0, 255.0) as u8;
        }
    }
    painted
}

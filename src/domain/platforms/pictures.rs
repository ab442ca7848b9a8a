//! Small pictures of pictures: PNG and JPEG are read, brought to a size that fits beside a message, and written anew as PNG. Of the
//! original bytes nothing stays but how its pixels look.
//!
//! A picture may be an enemy's: its size is bounded before its pixels are read, and each fault is an error.

use std::io::Cursor;

use png::{BitDepth, ColorType, Transformations};
use zune_jpeg::{
    JpegDecoder,
    zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions},
};

/// The most pixels of a picture that is read.
const PIXELS: usize = 16 << 20;
/// What the notes, palettes and the like of a PNG may take, bytes.
const NOTES: usize = 16 << 20;
/// The longest side of a small picture.
pub const SMALL: usize = 320;

/// Why there is no small picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPicture {
    #[error("it is no PNG or JPEG")]
    Kind,
    #[error("it has more than {PIXELS} pixels")]
    Large,
    #[error("it is not written as its kind is")]
    Broken,
}

/// Pixels, of three bytes each, line by line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Picture {
    wide: usize,
    high: usize,
    rgb: Vec<u8>,
}

/// Returns a small picture of a picture, as PNG.
///
/// # Errors
/// [`NoPicture`].
pub fn small(bytes: &[u8]) -> Result<Vec<u8>, NoPicture> {
    of_png(&read(bytes)?.shrunk(SMALL))
}

fn read(bytes: &[u8]) -> Result<Picture, NoPicture> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => png(bytes),
        [0xff, 0xd8, 0xff, ..] => jpeg(bytes),
        _ => Err(NoPicture::Kind),
    }
}

/// Reads a PNG. What shines through is on white.
fn png(bytes: &[u8]) -> Result<Picture, NoPicture> {
    let limits = png::Limits { bytes: NOTES };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(Transformations::normalize_to_color8());
    let broken = |_| NoPicture::Broken;
    let head = decoder.read_header_info().map_err(broken)?;
    let (wide, high) = bounded(head.width as usize, head.height as usize)?;
    let mut reader = decoder.read_info().map_err(broken)?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or(NoPicture::Large)?];
    let frame = reader.next_frame(&mut pixels).map_err(broken)?;
    let on_white = |[value, alpha]: [u8; 2]| {
        let (value, alpha) = (u16::from(value), u16::from(alpha));
        ((value * alpha + 255 * (255 - alpha)) / 255) as u8
    };
    let pixels = &pixels[..frame.buffer_size()];
    let rgb = match frame.color_type {
        ColorType::Rgb => pixels.to_vec(),
        ColorType::Rgba => {
            let rgba = pixels.as_chunks::<4>().0.iter();
            rgba.flat_map(|[r, g, b, alpha]| [r, g, b].map(|value| on_white([*value, *alpha]))).collect()
        }
        ColorType::Grayscale => pixels.iter().flat_map(|grey| [*grey; 3]).collect(),
        ColorType::GrayscaleAlpha => {
            pixels.as_chunks::<2>().0.iter().flat_map(|grey| [on_white(*grey); 3]).collect()
        }
        ColorType::Indexed => return Err(NoPicture::Broken),
    };
    Ok(Picture { wide, high, rgb })
}

/// Reads a JPEG, upright.
fn jpeg(bytes: &[u8]) -> Result<Picture, NoPicture> {
    let options = DecoderOptions::new_safe()
        .set_max_width(PIXELS)
        .set_max_height(PIXELS)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|_| NoPicture::Broken)?;
    let (wide, high) = decoder.dimensions().ok_or(NoPicture::Broken)?;
    let (wide, high) = bounded(wide, high)?;
    let rgb = decoder.decode().map_err(|_| NoPicture::Broken)?;
    if rgb.len() != wide * high * 3 {
        return Err(NoPicture::Broken);
    }
    let way = decoder.exif().and_then(|note| held(note)).unwrap_or(1);
    Ok(Picture { wide, high, rgb }.turned(way))
}

/// Writes a picture as PNG.
fn of_png(picture: &Picture) -> Result<Vec<u8>, NoPicture> {
    let mut bytes = Vec::new();
    let side = |side| u32::try_from(side).map_err(|_| NoPicture::Large);
    let mut encoder = png::Encoder::new(&mut bytes, side(picture.wide)?, side(picture.high)?);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(&picture.rgb)?;
        writer.finish()
    });
    written.map(|()| bytes).map_err(|_| NoPicture::Broken)
}

/// How a camera says that it was held: 1 to 8.
fn held(note: &[u8]) -> Option<u8> {
    let tiff = note.strip_prefix(b"Exif\0\0").unwrap_or(note);
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

/// Checks a size.
fn bounded(wide: usize, high: usize) -> Result<(usize, usize), NoPicture> {
    match wide.checked_mul(high) {
        None => Err(NoPicture::Large),
        Some(0) => Err(NoPicture::Broken),
        Some(pixels) if pixels > PIXELS => Err(NoPicture::Large),
        Some(_) => Ok((wide, high)),
    }
}

impl Picture {
    /// Returns it with no side longer than `most`: each pixel is the mean of those that it stands for.
    fn shrunk(self, most: usize) -> Self {
        let longest = self.wide.max(self.high);
        if longest <= most {
            return self;
        }
        let (wide, high) = ((self.wide * most / longest).max(1), (self.high * most / longest).max(1));
        let mut rgb = Vec::with_capacity(wide * high * 3);
        for y in 0..high {
            let rows = y * self.high / high..((y + 1) * self.high).div_ceil(high);
            for x in 0..wide {
                let columns = x * self.wide / wide..((x + 1) * self.wide).div_ceil(wide);
                let mut sums = [0_usize; 3];
                for row in rows.clone() {
                    let line = row * self.wide;
                    for pixel in
                        self.rgb[(line + columns.start) * 3..(line + columns.end) * 3].chunks_exact(3)
                    {
                        sums.iter_mut().zip(pixel).for_each(|(sum, part)| *sum += usize::from(*part));
                    }
                }
                let count = rows.len() * columns.len();
                rgb.extend(sums.map(|sum| (sum / count) as u8));
            }
        }
        Self { wide, high, rgb }
    }

    /// Returns it upright, where a camera was held in one of eight ways.
    fn turned(self, way: u8) -> Self {
        let (wide, high) = (self.wide, self.high);
        let (new_wide, new_high) = if way >= 5 { (high, wide) } else { (wide, high) };
        if !(2..=8).contains(&way) {
            return self;
        }
        let mut rgb = Vec::with_capacity(self.rgb.len());
        for y in 0..new_high {
            for x in 0..new_wide {
                let (from_x, from_y) = match way {
                    2 => (wide - 1 - x, y),
                    3 => (wide - 1 - x, high - 1 - y),
                    4 => (x, high - 1 - y),
                    5 => (y, x),
                    6 => (y, high - 1 - x),
                    7 => (wide - 1 - y, high - 1 - x),
                    _ => (wide - 1 - y, x),
                };
                let at = (from_y * wide + from_x) * 3;
                rgb.extend_from_slice(&self.rgb[at..at + 3]);
            }
        }
        Self { wide: new_wide, high: new_high, rgb }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BASELINE: &[u8] = include_bytes!("pictures/samples/baseline.jpg");
    const PROGRESSIVE: &[u8] = include_bytes!("pictures/samples/progressive.jpg");
    const FILTERS: &[u8] = include_bytes!("pictures/samples/filters.png");
    const PALETTE: &[u8] = include_bytes!("pictures/samples/palette.png");

    fn pixel(picture: &Picture, x: usize, y: usize) -> [usize; 3] {
        let at = (y * picture.wide + x) * 3;
        [0, 1, 2].map(|part| usize::from(picture.rgb[at + part]))
    }

    #[test]
    fn a_jpeg_is_the_same_in_one_scan_and_in_many_and_close_to_the_pixels_that_it_was_made_of() {
        let one = read(BASELINE).unwrap();
        assert_eq!(one, read(PROGRESSIVE).unwrap());
        assert_eq!((one.wide, one.high), (52, 37));
        // Away from edges, where blocks blur.
        for (x, y) in [(5, 5), (18, 5), (30, 20), (45, 32), (6, 18)] {
            let blue = if (x / 13 + y / 13) % 2 == 1 { 200 } else { 40 };
            for (is, was) in pixel(&one, x, y).into_iter().zip([x * 5, y * 6, blue]) {
                assert!(is.abs_diff(was) <= 16, "{x} {y}: {is} {was}");
            }
        }
    }

    #[test]
    fn a_png_has_the_pixels_that_it_was_made_of_and_stands_on_white() {
        let picture = read(FILTERS).unwrap();
        assert_eq!((picture.wide, picture.high), (40, 30));
        for (x, y) in (0..40).flat_map(|x| (0..30).map(move |y| (x, y))) {
            let alpha = if x < 20 { 255 } else { y * 8 };
            let on_white = |value: usize| (value * alpha + 255 * (255 - alpha)) / 255;
            assert_eq!(pixel(&picture, x, y), [x * 6, y * 8, x * y % 256].map(on_white), "{x} {y}");
        }
        let picture = read(PALETTE).unwrap();
        for (x, y) in (0..40).flat_map(|x| (0..30).map(move |y| (x, y))) {
            let n = (x + y) % 16;
            let alpha = [0, 128].get(n).copied().unwrap_or(255);
            let on_white = |value: usize| (value * alpha + 255 * (255 - alpha)) / 255;
            assert_eq!(pixel(&picture, x, y), [n * 17, 255 - n * 17, n * 9].map(on_white), "{x} {y}");
        }
    }

    #[test]
    fn a_small_picture_is_small_and_written_anew() {
        let stripes = |wide: usize, high: usize| Picture {
            wide,
            high,
            rgb: (0..wide * high)
                .flat_map(|at| [if (at % wide).is_multiple_of(2) { 0 } else { 200 }; 3])
                .collect(),
        };
        for ((wide, high), expected) in
            [((640, 400), (320, 200)), ((1000, 2), (320, 1)), ((320, 5), (320, 5)), ((1, 900), (1, 320))]
        {
            let large = of_png(&stripes(wide, high)).unwrap();
            let small = read(&small(&large).unwrap()).unwrap();
            assert_eq!((small.wide, small.high), expected);
        }
        // Each pixel is the mean of those that it stands for.
        assert_eq!(pixel(&stripes(640, 400).shrunk(SMALL), 7, 7), [100; 3]);
        let told = |bytes: &[u8]| bytes.windows(6).any(|six| six == b"secret");
        let mut tricky = FILTERS.to_vec();
        tricky.extend_from_slice(b"secret");
        assert!(told(&tricky) && !told(&small(&tricky).unwrap()));
    }

    #[test]
    fn a_picture_stands_upright_however_the_camera_was_held() {
        // 1 2
        // 3 4
        // 5 6
        let picture = Picture { wide: 2, high: 3, rgb: (1..=6).flat_map(|n| [n; 3]).collect() };
        for (way, wide, expected) in [
            (0, 2, [1, 2, 3, 4, 5, 6]),
            (1, 2, [1, 2, 3, 4, 5, 6]),
            (2, 2, [2, 1, 4, 3, 6, 5]),
            (3, 2, [6, 5, 4, 3, 2, 1]),
            (4, 2, [5, 6, 3, 4, 1, 2]),
            (5, 3, [1, 3, 5, 2, 4, 6]),
            (6, 3, [5, 3, 1, 6, 4, 2]),
            (7, 3, [6, 4, 2, 5, 3, 1]),
            (8, 3, [2, 4, 6, 1, 3, 5]),
            (9, 2, [1, 2, 3, 4, 5, 6]),
        ] {
            let turned = picture.clone().turned(way);
            let is: Vec<u8> = turned.rgb.iter().copied().step_by(3).collect();
            assert_eq!((turned.wide, is), (wide, expected.to_vec()), "{way}");
        }
        // A camera's note stands before the picture, in bytes of either order.
        let little = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        let big = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        for note in [&little[..], &big[..]] {
            let mut held = BASELINE[..2].to_vec();
            held.extend_from_slice(&[0xff, 0xe1, 0, u8::try_from(note.len() + 2).unwrap()]);
            held.extend_from_slice(note);
            held.extend_from_slice(&BASELINE[2..]);
            let read = read(&held).unwrap();
            assert_eq!((read.wide, read.high), (37, 52));
        }
    }

    #[test]
    fn what_is_no_picture_or_too_large_or_cut_is_refused() {
        // Its head alone, as a picture of many more bytes would have it.
        let mut large = Vec::new();
        png::Encoder::new(&mut large, 1 << 14, 1 << 14).write_header().unwrap();
        for (bytes, why) in [
            (&b"GIF89a"[..], NoPicture::Kind),
            (b"", NoPicture::Kind),
            (&large, NoPicture::Large),
            (&FILTERS[..FILTERS.len() / 2], NoPicture::Broken),
            (&BASELINE[..300], NoPicture::Broken),
            (&PROGRESSIVE[..300], NoPicture::Broken),
            (b"\xff\xd8\xff\xd9", NoPicture::Broken),
        ] {
            assert_eq!(small(bytes), Err(why));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            which in 0_usize..4,
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..8),
            end in any::<proptest::sample::Index>(),
        ) {
            let mut bytes = [BASELINE, PROGRESSIVE, FILTERS, PALETTE][which].to_vec();
            let length = bytes.len();
            for (at, byte) in changes {
                bytes[at.index(length)] = byte;
            }
            bytes.truncate(length - end.index(length) / 4);
            if let Ok(small) = small(&bytes) {
                prop_assert!(read(&small).is_ok());
            }
        }
    }
}

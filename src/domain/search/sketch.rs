//! A sketch of a text: which runs of letters may be in it, in a fraction of its size. What a sketch says is not there is
//! not there, so that most texts need not be read to know that a word is not in them.
//!
//! Sketches are stored. Whoever changes how they are made, or how text is folded, makes all of them anew in a migration.

use super::fold;

/// The longest run that is looked at, characters. Three letters of a word are in nearly every long text, five are not.
const LONGEST: usize = 5;
/// The largest sketch: 128 KiB, for 1 MiB that was said. The size is a power of two.
const MOST_BITS: usize = 1 << 20;
/// The smallest.
const LEAST_BITS: usize = 1 << 12;
/// Texts of fewer bytes are as easily read.
const WORTHWHILE: usize = 2048;

/// Returns the sketch of a text; empty for one that is short, and for one so various that nothing could be told from it.
#[must_use]
pub fn sketch(text: &str) -> Vec<u8> {
    if text.len() < WORTHWHILE {
        return Vec::new();
    }
    // Ten bits a letter at most.
    let size = (text.len() * 64).next_power_of_two().min(MOST_BITS);
    let mut bits = vec![0_u8; size / 8];
    let mut last = [0_u32; LONGEST];
    let mut seen = 0;
    let folded = fold::fold(text);
    for c in folded.chars() {
        last.rotate_right(1);
        last[0] = u32::from(c);
        seen = LONGEST.min(seen + 1);
        let mut run = START;
        for letter in last.iter().take(seen) {
            run = with(run, *letter);
            for at in places(run, size) {
                if let Some(byte) = bits.get_mut(at / 8) {
                    *byte |= 1 << (at % 8);
                }
            }
        }
    }
    smallest(bits)
}

/// Whether a word, folded, may be in the text that this is the sketch of.
pub(super) fn may_have(sketch: &[u8], word: &str) -> bool {
    let size = sketch.len() * 8;
    if size == 0 {
        return true;
    }
    let letters: Vec<u32> = word.chars().map(u32::from).collect();
    letters.windows(LONGEST.min(letters.len()).max(1)).all(|run| {
        let run = run.iter().rev().fold(START, |run, letter| with(run, *letter));
        places(run, size).iter().all(|at| sketch.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1))
    })
}

/// Halves a sketch for as long as at most a third of its bits are set. Empty when most of them are.
fn smallest(mut bits: Vec<u8>) -> Vec<u8> {
    let set = |bits: &[u8]| bits.iter().map(|byte| byte.count_ones() as usize).sum::<usize>();
    if set(&bits) * 4 > bits.len() * 8 * 3 {
        return Vec::new();
    }
    while bits.len() * 8 > LEAST_BITS {
        let (low, high) = bits.split_at(bits.len() / 2);
        let half: Vec<u8> = low.iter().zip(high).map(|(a, b)| a | b).collect();
        if set(&half) * 3 > half.len() * 8 {
            break;
        }
        bits = half;
    }
    bits
}

const START: u64 = 0x9e37_79b9_7f4a_7c15;

/// A run with one more letter before it.
fn with(run: u64, letter: u32) -> u64 {
    let mixed = (run ^ u64::from(letter)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 32)
}

/// The two bits of a run in a sketch of so many; in one half as large they are where its halves lie over each other.
fn places(run: u64, size: usize) -> [usize; 2] {
    let spread = run.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    let mask = size - 1;
    [(spread >> 40) as usize & mask, (spread >> 16) as usize & mask]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many words of one letter after the other, all different.
    fn words(count: u32) -> String {
        let letters = |mut n: u32| {
            let mut word = String::new();
            while n > 0 {
                word.push(char::from(b'a' + u8::try_from(n % 26).unwrap_or_default()));
                n /= 26;
            }
            word
        };
        (0..count).map(|n| letters(n.wrapping_mul(2_654_435_761))).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn nothing_that_is_there_is_said_not_to_be() {
        for count in [300, 3_000, 30_000] {
            let text = format!("{} Straße 日本語 née", words(count));
            let sketch = sketch(&text);
            assert!(!sketch.is_empty() && sketch.len().is_power_of_two(), "{}", sketch.len());
            for word in text.split(' ').step_by(7).chain(["strasse", "日本", "nee", "é 日"]) {
                let folded = fold::fold(word);
                for part in [folded.as_str(), folded.get(1..).unwrap_or(&folded)] {
                    assert!(
                        !folded.contains(part) || !text.contains(word) || may_have(&sketch, part),
                        "{part}"
                    );
                }
            }
        }
    }

    #[test]
    fn hardly_anything_else_is_said_to_be_there() {
        let sketch = sketch(&words(5_000));
        let others = words(2_000);
        let others = others.split(' ').map(|word| word.chars().flat_map(|c| ['-', c]).collect::<String>());
        let wrong = others.filter(|word| may_have(&sketch, word)).count();
        assert!(wrong < 60, "{wrong} of 2000");
    }

    #[test]
    fn a_sketch_is_as_small_as_its_text_is_plain_and_none_of_what_it_would_not_help_with() {
        assert!(sketch("short").is_empty());
        assert_eq!(sketch(&"holiday ".repeat(100_000)).len() * 8, LEAST_BITS);
        let chaos: String = (0..400_000_u32)
            .filter_map(|n| char::from_u32(0x4e00 + (n.wrapping_mul(2_654_435_761) >> 12) % 20_000))
            .collect();
        assert!(sketch(&chaos).is_empty() && may_have(&sketch(&chaos), "anything"));
    }
}

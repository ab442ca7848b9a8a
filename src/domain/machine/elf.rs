//! Programs as the kernel reads them (ELF): which loader one names, and the same program with another.
//!
//! `g2` is linked to the C library of the machine that it was built on. In an image as the runner it brings its libraries
//! along, and names a loader of its own, so that it runs whatever C library the image has, or if it has none.

/// The folder in an image for the libraries that a runner brings along. `src/build.rs` has `g2` look there.
pub const LIBRARIES: &str = "/usr/local/lib/g2";
/// The loader there. It is shorter than the usual names, as it has to fit into the place of one.
pub const LOADER: &str = "/usr/local/lib/g2/ld.so";

/// Why a program can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProgram {
    #[error("it is no 64-bit program of this machine")]
    Unknown,
    #[error("the name of its loader is too short for another")]
    NoRoom,
}

/// The type of the segment that names the loader.
const INTERP: u32 = 3;

/// Returns the loader that a program names; `None`: it is static.
///
/// # Errors
/// [`NoProgram::Unknown`]
pub fn loader(program: &[u8]) -> Result<Option<String>, NoProgram> {
    let Some((at, length)) = place(program)? else { return Ok(None) };
    let bytes = program.get(at..at + length).ok_or(NoProgram::Unknown)?;
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8(name.to_vec()).map(Some).map_err(|_| NoProgram::Unknown)
}

/// Has a program name [`LOADER`]. A static one stays as it is.
///
/// # Errors
/// [`NoProgram`]
pub fn name_own_loader(program: &mut [u8]) -> Result<(), NoProgram> {
    let Some((at, length)) = place(program)? else { return Ok(()) };
    if length <= LOADER.len() {
        return Err(NoProgram::NoRoom);
    }
    let place = program.get_mut(at..at + length).ok_or(NoProgram::Unknown)?;
    place.fill(0);
    place[..LOADER.len()].copy_from_slice(LOADER.as_bytes());
    Ok(())
}

/// Where a program names its loader: offset and length, with the byte 0 at its end.
fn place(program: &[u8]) -> Result<Option<(usize, usize)>, NoProgram> {
    // 64 bits, little-endian.
    if program.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err(NoProgram::Unknown);
    }
    let number = |at: usize, length: usize| -> Result<usize, NoProgram> {
        let bytes = at.checked_add(length).and_then(|end| program.get(at..end)).ok_or(NoProgram::Unknown)?;
        let value = bytes.iter().rev().fold(0u64, |value, byte| (value << 8) | u64::from(*byte));
        usize::try_from(value).map_err(|_| NoProgram::Unknown)
    };
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for nth in 0..count {
        let segment = nth.checked_mul(size).and_then(|at| at.checked_add(table)).ok_or(NoProgram::Unknown)?;
        if number(segment, 4)? == INTERP as usize {
            let (at, length) =
                (number(segment.saturating_add(8), 8)?, number(segment.saturating_add(32), 8)?);
            let inside = at.checked_add(length).is_some_and(|end| end <= program.len());
            return if inside { Ok(Some((at, length))) } else { Err(NoProgram::Unknown) };
        }
    }
    Ok(None)
}

/// Returns the libraries that `ldd` says a program needs, by the names under which they are asked for, each with its path.
#[must_use]
pub fn libraries(ldd: &str) -> Vec<(&str, &str)> {
    let lines = ldd.lines().filter_map(|line| line.trim().split_once(" => "));
    let found = lines.filter_map(|(name, rest)| Some((name, rest.split_once(" (")?.0)));
    found.filter(|(name, path)| path.starts_with('/') && !name.contains('/')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with one segment that names a loader.
    fn program(loader: &str) -> Vec<u8> {
        let mut bytes = vec![0; 120];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64] = 3;
        bytes[72] = 120;
        bytes[96] = u8::try_from(loader.len() + 1).unwrap();
        bytes.extend(loader.as_bytes());
        bytes.push(0);
        bytes
    }

    #[test]
    fn a_program_names_another_loader_and_stays_as_long_as_it_was() {
        for usual in ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-x86_64.so.1"]
        {
            let mut bytes = program(usual);
            let length = bytes.len();
            assert_eq!(loader(&bytes), Ok(Some(usual.to_owned())));
            assert_eq!(name_own_loader(&mut bytes), Ok(()));
            assert_eq!((loader(&bytes), bytes.len()), (Ok(Some(LOADER.to_owned())), length));
        }
        assert_eq!(name_own_loader(&mut program("/lib/ld.so")), Err(NoProgram::NoRoom));
    }

    #[test]
    fn a_static_program_has_no_loader_and_what_is_no_program_is_told() {
        let mut bytes = program("/lib64/ld-linux-x86-64.so.2");
        bytes[64] = 1;
        assert_eq!(loader(&bytes), Ok(None));
        assert_eq!(name_own_loader(&mut bytes), Ok(()));
        for end in [0, 5, 40, 100] {
            assert_eq!(
                loader(&program("/lib64/ld-linux-x86-64.so.2")[..end]),
                Err(NoProgram::Unknown),
                "{end}"
            );
        }
        let mut bytes = program("/lib64/ld-linux-x86-64.so.2");
        bytes[72..80].fill(0xff);
        assert_eq!(loader(&bytes), Err(NoProgram::Unknown));
        assert_eq!(loader(b"#!/bin/sh\n"), Err(NoProgram::Unknown));
    }

    #[test]
    fn libraries_are_read_by_name_and_path() {
        let said = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\
                    \tlibx.so => not found\n";
        assert_eq!(
            libraries(said),
            [
                ("libgcc_s.so.1", "/lib/x86_64-linux-gnu/libgcc_s.so.1"),
                ("libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6")
            ]
        );
        assert!(libraries("\tstatically linked\n").is_empty());
    }
}

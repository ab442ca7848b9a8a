//! From a path to what stands there.

use rustix::io::{Errno, Result};

use super::disk::{Disk, ENTER, Kind, Number, ROOT, Who};

/// The longest name, bytes.
pub(super) const NAME: usize = 255;
/// The longest path, bytes, with the zero behind it.
const PATH: usize = 4096;
/// The most links that are followed on one way.
const LINKS: usize = 40;

/// How a path is followed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct How {
    /// Through no link, and never above where it begins.
    pub(super) beneath: bool,
    /// A link as its last name is followed.
    pub(super) follows: bool,
}

impl How {
    /// The same to look at what stands there: a slash behind a link has it followed.
    pub(super) fn to_look(self, path: &[u8]) -> Self {
        Self { follows: self.follows || path.ends_with(b"/"), ..self }
    }
}

/// The end of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Last {
    Name(Vec<u8>),
    /// `.`, or `/`.
    Here,
    /// `..`
    Above,
}

/// What stands somewhere, and by which name in which folder.
pub(super) type Found = (Number, Option<(Number, Vec<u8>)>);

/// Where a path leads.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    /// Where its last name would be; of `..`, what that is.
    pub(super) folder: Number,
    pub(super) last: Last,
    /// A slash is behind it.
    pub(super) slash: bool,
}

impl Disk {
    /// Follows a path to the folder of its last name.
    pub(super) fn walk(&self, at: Number, path: &[u8], how: How, who: Who) -> Result<Spot> {
        if path.len() >= PATH {
            return Err(Errno::NAMETOOLONG);
        }
        self.walk_on(at, path, how, who, &mut 0)
    }

    fn walk_on(&self, at: Number, path: &[u8], how: How, who: Who, links: &mut usize) -> Result<Spot> {
        let (mut here, mut depth) = (at, 0_usize);
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        if path[0] == b'/' {
            if how.beneath {
                return Err(Errno::XDEV);
            }
            here = ROOT;
        }
        let slash = path.ends_with(b"/");
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let Some((last, way)) = names.split_last() else {
            return Ok(Spot { folder: here, last: Last::Here, slash });
        };
        for name in way {
            self.enter(here, who)?;
            here = match *name {
                b"." => here,
                b".." => self.above(here, &mut depth, how)?,
                name => {
                    depth += 1;
                    self.through(here, name, how, who, links)?
                }
            };
        }
        self.enter(here, who)?;
        match *last {
            b"." => Ok(Spot { folder: here, last: Last::Here, slash }),
            b".." => Ok(Spot { folder: self.above(here, &mut depth, how)?, last: Last::Above, slash }),
            name => {
                if let Ok(number) = self.find(here, name)
                    && let Kind::Link(to) = &self.node(number)?.kind
                    && how.follows
                {
                    Self::count(how, links)?;
                    return self.walk_on(here, to, How { follows: true, ..how }, who, links);
                }
                Ok(Spot { folder: here, last: Last::Name(name.to_owned()), slash })
            }
        }
    }

    fn enter(&self, here: Number, who: Who) -> Result<()> {
        if !self.is_folder(here) {
            return Err(Errno::NOTDIR);
        }
        self.ask(here, who, ENTER)
    }

    fn above(&self, here: Number, depth: &mut usize, how: How) -> Result<Number> {
        if how.beneath && *depth == 0 {
            return Err(Errno::XDEV);
        }
        *depth = depth.saturating_sub(1);
        self.folder(here).map(|folder| folder.parent)
    }

    fn count(how: How, links: &mut usize) -> Result<()> {
        *links += 1;
        if how.beneath || *links > LINKS { Err(Errno::LOOP) } else { Ok(()) }
    }

    /// Returns what stands at a name on the way, links followed.
    fn through(&self, here: Number, name: &[u8], how: How, who: Who, links: &mut usize) -> Result<Number> {
        let number = self.find(here, name)?;
        let Kind::Link(to) = &self.node(number)?.kind else { return Ok(number) };
        Self::count(how, links)?;
        let spot = self.walk_on(here, to, How { follows: true, ..how }, who, links)?;
        self.found(&spot).map(|(number, _)| number)
    }

    /// Returns what stands at a spot, and by which name.
    pub(super) fn found(&self, spot: &Spot) -> Result<Found> {
        let Last::Name(name) = &spot.last else { return Ok((spot.folder, None)) };
        let number = self.find(spot.folder, name)?;
        if spot.slash && !self.is_folder(number) {
            return Err(Errno::NOTDIR);
        }
        Ok((number, Some((spot.folder, name.clone()))))
    }

    /// Returns what stands at a path.
    pub(super) fn find_at(&self, at: Number, path: &[u8], how: How, who: Who) -> Result<Number> {
        let spot = self.walk(at, path, how.to_look(path), who)?;
        self.found(&spot).map(|(number, _)| number)
    }
}

//! Finds a document's shallow values without keeping the document.

/// How deep objects are looked into.
const DEEPEST: usize = 3;
/// The longest key or value that is kept, bytes; of longer ones nothing is told.
const LONGEST: usize = 128;

/// Goes through JSON a byte at a time and tells the strings, numbers and words that stand in objects, at most
/// [`DEEPEST`] deep and in no array. It survives text that is no JSON, and reports nothing useful of it.
#[derive(Default)]
pub(super) struct Scan {
    depth: usize,
    levels: [Level; DEEPEST],
    token: Token,
    text: Text,
}

#[derive(Default)]
struct Level {
    /// An object's key is told with what it holds; an array's places are not.
    is_object: bool,
    key_is_next: bool,
    key: Text,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Token {
    #[default]
    None,
    /// In a string.
    String,
    /// In a string, after a backslash.
    Escape,
    /// In a number or a word.
    Word,
}

/// Bytes up to a bound, and whether there were more.
#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Text {
    fn clear(&mut self) {
        self.bytes.clear();
        self.is_cut = false;
    }

    fn push(&mut self, byte: u8) {
        if self.bytes.len() < LONGEST {
            self.bytes.push(byte);
        } else {
            self.is_cut = true;
        }
    }

    fn get(&self) -> Option<&str> {
        if self.is_cut { None } else { std::str::from_utf8(&self.bytes).ok() }
    }
}

impl Scan {
    /// Takes a byte (`None`: the document is over) and tells `found` each value with the keys that lead to it.
    pub(super) fn push(&mut self, byte: Option<u8>, found: &mut impl FnMut(&[&str], &str)) {
        let Some(byte) = byte else {
            self.depth = 0;
            self.token = Token::None;
            return;
        };
        match (self.token, byte) {
            (Token::Escape, _) => {
                self.text.push(byte);
                self.token = Token::String;
            }
            (Token::String, b'\\') => self.token = Token::Escape,
            (Token::String, b'"') => {
                self.token = Token::None;
                self.string_ends(found);
            }
            (Token::String, _) => self.text.push(byte),
            (Token::Word, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') => {
                self.token = Token::None;
                self.tell(found);
                self.structure(byte);
            }
            (Token::Word, _) => self.text.push(byte),
            (Token::None, _) => self.structure(byte),
        }
    }

    fn structure(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => {
                self.depth = self.depth.saturating_add(1);
                if let Some(level) = self.level() {
                    level.is_object = byte == b'{';
                    level.key_is_next = byte == b'{';
                    level.key.clear();
                }
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b',' => {
                if let Some(level) = self.level() {
                    level.key_is_next = level.is_object;
                }
            }
            b':' => {
                if let Some(level) = self.level() {
                    level.key_is_next = false;
                }
            }
            b' ' | b'\n' | b'\r' | b'\t' => {}
            b'"' => {
                self.token = Token::String;
                self.text.clear();
            }
            _ => {
                self.token = Token::Word;
                self.text.clear();
                self.text.push(byte);
            }
        }
    }

    fn level(&mut self) -> Option<&mut Level> {
        self.depth.checked_sub(1).and_then(|at| self.levels.get_mut(at))
    }

    fn string_ends(&mut self, found: &mut impl FnMut(&[&str], &str)) {
        let depth = self.depth;
        let at = depth.checked_sub(1).and_then(|at| self.levels.get_mut(at));
        match at {
            Some(level) if level.key_is_next => std::mem::swap(&mut level.key, &mut self.text),
            Some(_) | None => self.tell(found),
        }
    }

    fn tell(&self, found: &mut impl FnMut(&[&str], &str)) {
        let Some(levels) = self.levels.get(..self.depth).filter(|levels| levels.iter().all(|l| l.is_object))
        else {
            return;
        };
        let mut path = [""; DEEPEST];
        for (key, level) in path.iter_mut().zip(levels) {
            let Some(known) = level.key.get() else { return };
            *key = known;
        }
        if let (Some(path), Some(value)) = (path.get(..self.depth), self.text.get()) {
            found(path, value);
        }
    }
}

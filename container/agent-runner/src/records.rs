//! Records on stdout: numbered, each in one write, ASCII only.

use std::{
    fmt::Write as _,
    io::{self, Write},
    sync::{Mutex, PoisonError},
};

use ipc_handlers::wire::{OUTPUT_END, OUTPUT_START, Record};

/// Nobody reads stdout any more; there is no point in going on.
#[derive(Debug, thiserror::Error)]
#[error("writing to stdout failed")]
pub struct OutputGone(#[source] io::Error);

/// The way out for records. Threads may share it: a record is never cut by another.
pub(crate) struct Records {
    out: Mutex<Out>,
}

struct Out {
    to: Box<dyn Write + Send>,
    seq: u64,
}

impl Records {
    /// Returns records that go to `to`, which must not buffer.
    pub(crate) fn new(to: Box<dyn Write + Send>) -> Self {
        Self { out: Mutex::new(Out { to, seq: 0 }) }
    }

    /// Gives the record the next number and writes it.
    pub(crate) fn write(&self, record: Record) -> Result<(), OutputGone> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.seq += 1;
        let line = ascii_json(&Record { seq: Some(out.seq), ..record });
        let whole = format!("{OUTPUT_START}\n{line}\n{OUTPUT_END}\n");
        out.to.write_all(whole.as_bytes()).and_then(|()| out.to.flush()).map_err(OutputGone)
    }

    /// Writes bytes that are no record.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<(), OutputGone> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.to.write_all(bytes).and_then(|()| out.to.flush()).map_err(OutputGone)
    }
}

/// Returns the record as one line of JSON in which all but ASCII is escaped, so that no reader can split a character.
fn ascii_json(record: &Record) -> String {
    let json = serde_json::to_string(record).expect("a record holds nothing that JSON can't");
    if json.is_ascii() {
        return json;
    }
    // Characters beyond ASCII can only stand inside a JSON string.
    let mut line = String::with_capacity(json.len() * 2);
    let mut units = [0; 2];
    for c in json.chars() {
        if c.is_ascii() {
            line.push(c);
        } else {
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(line, "\\u{unit:04x}");
            }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn saying(text: &str) -> Record {
        Record { result: Some(text.to_owned()), ..Record::default() }
    }

    #[test]
    fn what_is_not_ascii_is_escaped_in_utf_16_units() {
        let line = ascii_json(&saying("é 🦀 \u{7f} \n"));
        assert!(line.contains(r#""\u00e9 \ud83e\udd80 "#), "{line}");
        assert!(line.is_ascii() && !line.contains('\n'));
    }

    proptest! {
        #[test]
        fn every_text_survives_the_wire(text in ".*") {
            let line = ascii_json(&saying(&text));
            prop_assert!(line.is_ascii() && !line.contains('\n'));
            prop_assert_eq!(serde_json::from_str::<Record>(&line).unwrap().result, Some(text));
        }
    }
}

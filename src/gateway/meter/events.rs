//! The lines of an event stream: takes the `data` of each event out.

/// The name of the lines that matter, with its colon.
const DATA: &[u8] = b"data:";

/// Where in a stream of events the next byte stands.
#[derive(Default)]
pub(super) struct Events {
    /// How much of [`DATA`] the line has begun with; `None`: the line is another one.
    named: Option<usize>,
    /// Something stands in this line.
    begun: bool,
    /// The byte before was a carriage return: a line feed belongs to it.
    after_return: bool,
}

impl Events {
    /// Takes a byte; tells `read` the bytes of data, and with `None` that an event has ended.
    pub(super) fn push(&mut self, byte: u8, read: &mut impl FnMut(Option<u8>)) {
        let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
        match byte {
            b'\n' if after_return => {}
            b'\n' | b'\r' => {
                // An empty line ends an event; lines of data are joined with a line feed.
                read(self.begun.then_some(b'\n'));
                *self = Self { after_return: self.after_return, ..Self::default() };
            }
            _ => {
                if !self.begun {
                    self.named = Some(0);
                    self.begun = true;
                }
                match self.named {
                    Some(n) if n == DATA.len() => read(Some(byte)),
                    Some(n) => self.named = (byte == DATA[n]).then_some(n + 1),
                    None => {}
                }
            }
        }
    }
}

//! Rows of a foreign table, a page at a time, in the order of their numbers. A damaged place is passed over, and told.

use rusqlite::{params_from_iter, types::ValueRef};

use super::{Foreign, LONGEST_VALUE, LOOKS, schema::quoted};

/// A page has at most about this many bytes.
const PAGE_BYTES: usize = 4 << 20;
/// As many texts are looked for by one statement.
const AT_ONCE: usize = 100;

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    Int(i64),
    Real(f64),
    /// `mended`: some of its bytes were no UTF-8, and are U+FFFD now.
    Text {
        text: String,
        mended: bool,
    },
    /// Bytes: no column that is read has any.
    Blob,
}

/// A row that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    pub number: i64,
    /// A value of it is longer than is read: it is not taken.
    pub too_long: bool,
    cells: Vec<(&'static str, Cell)>,
}

impl Read {
    /// Returns a value; a column that its version has not is null.
    #[must_use]
    pub fn cell(&self, column: &str) -> &Cell {
        self.cells.iter().find(|(name, _)| *name == column).map_or(&Cell::Null, |(_, cell)| cell)
    }

    /// Returns a text; numbers are written out.
    #[must_use]
    pub fn text(&self, column: &str) -> Option<String> {
        match self.cell(column) {
            Cell::Text { text, .. } => Some(text.clone()),
            Cell::Int(number) => Some(number.to_string()),
            Cell::Real(number) => Some(number.to_string()),
            Cell::Null | Cell::Blob => None,
        }
    }

    /// Returns a number; texts are read as numbers.
    #[must_use]
    pub fn int(&self, column: &str) -> Option<i64> {
        match self.cell(column) {
            Cell::Int(number) => Some(*number),
            Cell::Real(number) => number.is_finite().then_some(number.round() as i64),
            Cell::Text { text, .. } => text.trim().parse().ok(),
            Cell::Null | Cell::Blob => None,
        }
    }

    /// Returns how many bytes its texts have.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of = |cell: &Cell| if let Cell::Text { text, .. } = cell { text.len() } else { 0 };
        self.cells.iter().map(|(_, cell)| of(cell)).sum()
    }

    /// Whether some text of it had bytes that are no UTF-8.
    #[must_use]
    pub fn mended(&self) -> bool {
        self.cells.iter().any(|(_, cell)| matches!(cell, Cell::Text { mended: true, .. }))
    }

    /// Whether a value of it is bytes.
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        self.cells.iter().any(|(_, cell)| *cell == Cell::Blob)
    }
}

/// Which rows are read.
#[derive(Clone, Copy)]
enum Which<'a> {
    /// This number of rows after this one.
    After(i64, usize),
    /// Those that have one of these texts in a column.
    With(&'static str, &'a [String]),
}

/// Some rows, and the place from which the next ones are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    pub rows: Vec<Read>,
    /// Numbers between which rows can't be read, and why.
    pub lost: Option<(i64, i64, String)>,
    /// `None`: there are no more.
    pub next: Option<i64>,
}

impl Foreign {
    /// Returns the rows of a table after the number `after`, at most `most`; first `i64::MIN`.
    #[must_use]
    pub fn page(&self, table: &str, columns: &[&'static str], after: i64, most: usize) -> Page {
        if !self.has(table) {
            return Page::default();
        }
        let (rows, fault) = self.some(table, columns, after, most);
        let end = rows.last().map(|row| row.number);
        match (end, fault) {
            // What came before the fault is taken; it comes again as the first row of the next page.
            (Some(end), Some(_)) => Page { rows, lost: None, next: Some(end) },
            (Some(end), None) => {
                let next = (end < i64::MAX).then_some(end);
                Page { rows, lost: None, next }
            }
            (None, None) => Page::default(),
            (None, Some(why)) => self.beyond(table, columns, after, most, why),
        }
    }

    /// Looks for rows beyond a damaged place.
    fn beyond(&self, table: &str, columns: &[&'static str], after: i64, most: usize, why: String) -> Page {
        let start = after.max(0);
        for step in 0..62_u32 {
            let Some(from) = start.checked_add(1 << step) else { break };
            let (rows, _) = self.some(table, columns, from, most);
            if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
                let lost = Some((after.saturating_add(1), first.number - 1, why));
                let next = Some(last.number);
                return Page { rows, lost, next };
            }
        }
        Page { rows: Vec::new(), lost: Some((after.saturating_add(1), i64::MAX, why)), next: None }
    }

    /// Returns the rows with these numbers that can be read.
    #[must_use]
    pub fn numbered(&self, table: &str, columns: &[&'static str], numbers: &[i64]) -> Vec<Read> {
        let rows = numbers.iter().filter_map(|number| {
            let before = number.checked_sub(1).unwrap_or(*number);
            let (rows, _) = self.some(table, columns, before, 1);
            rows.into_iter().find(|row| row.number == *number)
        });
        rows.collect()
    }

    /// Returns the rows of a table in which the column `key` has one of these texts, and why not all of them can be read: then there may
    /// be more.
    #[must_use]
    pub fn with(
        &self,
        table: &str,
        columns: &[&'static str],
        key: &'static str,
        texts: &[String],
    ) -> (Vec<Read>, Option<String>) {
        if !self.has_column(table, key) {
            return (Vec::new(), Some(format!("there is no {key} in {table}")));
        }
        let known = self.known(table, columns);
        let mut rows = Vec::new();
        let fault = texts
            .chunks(AT_ONCE)
            .find_map(|texts| self.try_some(table, &known, Which::With(key, texts), &mut rows).err());
        (rows, fault.map(|error| error.to_string()))
    }

    fn known(&self, table: &str, columns: &[&'static str]) -> Vec<&'static str> {
        columns.iter().copied().filter(|column| self.has_column(table, column)).collect()
    }

    /// Reads rows as far as they can be read.
    fn some(
        &self,
        table: &str,
        columns: &[&'static str],
        after: i64,
        most: usize,
    ) -> (Vec<Read>, Option<String>) {
        let known = self.known(table, columns);
        let mut rows = Vec::new();
        let fault = self.try_some(table, &known, Which::After(after, most), &mut rows).err();
        (rows, fault.map(|error| error.to_string()))
    }

    fn try_some(
        &self,
        table: &str,
        columns: &[&'static str],
        which: Which<'_>,
        rows: &mut Vec<Read>,
    ) -> rusqlite::Result<()> {
        let name = |column: &&str| quoted(column);
        let long = |column: &&str| format!("coalesce(octet_length({}), 0) > {LONGEST_VALUE}", quoted(column));
        let read: Vec<String> = columns
            .iter()
            .map(|column| format!("CASE WHEN {} THEN NULL ELSE {} END", long(column), name(column)))
            .collect();
        let too_long: Vec<String> = columns.iter().map(long).collect();
        let too_long = if too_long.is_empty() { "0".to_owned() } else { too_long.join(" OR ") };
        let from = match which {
            Which::After(..) => "NOT INDEXED WHERE _rowid_ > ?1 ORDER BY _rowid_ LIMIT ?2".to_owned(),
            Which::With(key, texts) => {
                format!("WHERE {} IN ({})", quoted(key), vec!["?"; texts.len()].join(", "))
            }
        };
        let sql = format!(
            "SELECT _rowid_, {too_long}{}{} FROM {} {from}",
            if read.is_empty() { "" } else { ", " },
            read.join(", "),
            quoted(table),
        );
        let mut statement = self.c.bound(LOOKS).prepare_cached(&sql)?;
        let (mut found, mut last) = match which {
            Which::After(after, most) => (statement.query((after, most))?, Some(after)),
            Which::With(_, texts) => (statement.query(params_from_iter(texts))?, None),
        };
        let mut bytes = 0;
        while let Some(row) = found.next()? {
            let number = row.get::<_, i64>(0)?;
            if last.is_some_and(|last| number <= last) {
                let damaged = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
                return Err(rusqlite::Error::SqliteFailure(
                    damaged,
                    Some("its rows are out of order".into()),
                ));
            }
            last = last.map(|_| number);
            let mut cells = Vec::with_capacity(columns.len());
            for (at, column) in columns.iter().enumerate() {
                let cell = cell(row.get_ref(at + 2)?);
                if let Cell::Text { text, .. } = &cell {
                    bytes += text.len();
                }
                cells.push((*column, cell));
            }
            rows.push(Read { number, too_long: row.get(1)?, cells });
            match which {
                Which::After(..) if bytes > PAGE_BYTES => break,
                Which::With(..) if bytes > PAGE_BYTES => {
                    let long = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_TOOBIG);
                    let why = format!("its rows have more than {PAGE_BYTES} bytes");
                    return Err(rusqlite::Error::SqliteFailure(long, Some(why)));
                }
                Which::After(..) | Which::With(..) => {}
            }
        }
        Ok(())
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Int(number),
        ValueRef::Real(number) => Cell::Real(number),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Cell::Text { text: text.replace('\0', "\u{fffd}"), mended: bytes.contains(&0) },
            Err(_) => Cell::Text { text: lossy(bytes), mended: true },
        },
        ValueRef::Blob(_) => Cell::Blob,
    }
}

/// A text whose bytes are no UTF-8, such as halves of surrogate pairs that JavaScript left over.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

/// Returns about how many rows a table has: the number of its last one.
pub(super) fn last_row(foreign: &Foreign, table: &str) -> u64 {
    if !foreign.has(table) {
        return 0;
    }
    let sql = format!("SELECT coalesce(max(_rowid_), 0) FROM {}", quoted(table));
    let last: rusqlite::Result<i64> = foreign.c.bound(LOOKS).query_row(&sql, [], |row| row.get(0));
    last.map_or(0, |last| u64::try_from(last).unwrap_or(0))
}

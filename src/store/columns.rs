//! Columns of types that SQLite does not have: closed sets of words, folders, instants.

use ipc_handlers::{Folder, Time, Word};
use rusqlite::{Row, RowIndex, types::Type};

/// A column holds what its type does not know: another program wrote it.
#[derive(Debug, thiserror::Error)]
#[error("{table}.{column} holds {source}")]
struct BadColumn {
    table: &'static str,
    column: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// Reads columns of a row, by name; the only column of a row is also read by its position, 0.
pub(super) trait Columns {
    /// Reads one of a closed set of words.
    ///
    /// # Errors
    /// One that names table, column and value, where it is none of them.
    fn word<W: Word>(&self, table: &'static str, at: impl RowIndex) -> rusqlite::Result<W>;

    /// The same of a column that may be `NULL`.
    ///
    /// # Errors
    /// As [`Columns::word`].
    fn word_or_null<W: Word>(&self, table: &'static str, at: impl RowIndex) -> rusqlite::Result<Option<W>>;

    /// Reads the folder of a group.
    ///
    /// # Errors
    /// One that names column and value, where it is none.
    fn folder(&self, at: impl RowIndex) -> rusqlite::Result<Folder>;

    /// Reads a value that is written as JSON.
    ///
    /// # Errors
    /// One that names table and column, where it is none.
    fn json<T: serde::de::DeserializeOwned>(
        &self,
        table: &'static str,
        at: impl RowIndex,
    ) -> rusqlite::Result<T>;

    /// Reads an instant.
    ///
    /// # Errors
    /// Where it is no number.
    fn time(&self, at: impl RowIndex) -> rusqlite::Result<Time>;

    /// Reads an instant that may be `NULL`.
    ///
    /// # Errors
    /// Where it is no number.
    fn time_or_null(&self, at: impl RowIndex) -> rusqlite::Result<Option<Time>>;
}

impl Columns for Row<'_> {
    fn word<W: Word>(&self, table: &'static str, at: impl RowIndex) -> rusqlite::Result<W> {
        let text = self.get_ref(at)?.as_str()?;
        W::from_word(text).map_err(|source| bad(self, table, at, source))
    }

    fn word_or_null<W: Word>(&self, table: &'static str, at: impl RowIndex) -> rusqlite::Result<Option<W>> {
        match self.get_ref(at)?.as_str_or_null()? {
            Some(text) => W::from_word(text).map(Some).map_err(|source| bad(self, table, at, source)),
            None => Ok(None),
        }
    }

    fn folder(&self, at: impl RowIndex) -> rusqlite::Result<Folder> {
        let text = self.get_ref(at)?.as_str()?;
        Folder::parse(text).map_err(|source| bad(self, "groups", at, source))
    }

    fn json<T: serde::de::DeserializeOwned>(
        &self,
        table: &'static str,
        at: impl RowIndex,
    ) -> rusqlite::Result<T> {
        let text = self.get_ref(at)?.as_str()?;
        serde_json::from_str(text).map_err(|source| bad(self, table, at, source))
    }

    fn time(&self, at: impl RowIndex) -> rusqlite::Result<Time> {
        self.get(at).map(Time)
    }

    fn time_or_null(&self, at: impl RowIndex) -> rusqlite::Result<Option<Time>> {
        Ok(self.get::<_, Option<i64>>(at)?.map(Time))
    }
}

fn bad(
    row: &Row<'_>,
    table: &'static str,
    at: impl RowIndex,
    source: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    let index = at.idx(row.as_ref()).unwrap_or_default();
    let column = row.as_ref().column_name(index).unwrap_or("?").to_owned();
    rusqlite::Error::FromSqlConversionFailure(
        index,
        Type::Text,
        Box::new(BadColumn { table, column, source: Box::new(source) }),
    )
}

#[cfg(test)]
mod tests {
    use ipc_handlers::TaskStatus;

    use super::*;

    #[test]
    fn a_word_that_nobody_knows_is_an_error_that_names_table_column_and_value() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let read = |sql: &str| {
            connection.query_row(sql, [], |r| r.word::<TaskStatus>("tasks", "status")).map_err(|error| {
                let mut all = vec![error.to_string()];
                let mut cause = std::error::Error::source(&error);
                while let Some(error) = cause {
                    all.push(error.to_string());
                    cause = error.source();
                }
                all.join(": ")
            })
        };
        assert_eq!(read("SELECT 'paused' AS status"), Ok(TaskStatus::Paused));
        let error = read("SELECT 'napping' AS status").unwrap_err();
        assert!(error.contains(r#"tasks.status holds "napping", which is no task status"#), "{error}");
        assert!(read("SELECT 7 AS status").is_err());
    }
}

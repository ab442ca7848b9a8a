//! Which rows of a long list are wanted. What can be said in SQL is; a text is looked for in each row that is left, newest
//! first, until there are enough.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, Row, params_from_iter, types::Value};

use super::{Result, at_most, oldest_first};
use crate::domain::kept::prune::DAY_MS;

/// Which rows of a list are wanted; `None`: all.
#[derive(Clone, Debug, Default)]
pub struct Which {
    pub chat: Option<String>,
    pub group: Option<Folder>,
    /// A word of the list's own states.
    pub state: Option<&'static str>,
    /// From this time on.
    pub since: Option<Time>,
    /// Before this time.
    pub until: Option<Time>,
    /// A text that stands in the row.
    pub text: Option<Text>,
    /// The newest of those; they come oldest first.
    pub limit: Option<usize>,
}

/// A text that is looked for, in capitals or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(String);

impl Text {
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(text.to_lowercase())
    }

    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.0)
    }
}

/// What rows have to be, in SQL.
#[derive(Default)]
pub(super) struct Conditions {
    sql: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    /// A condition without a value.
    pub(super) fn is(mut self, sql: &str) -> Self {
        self.sql.push(sql.to_owned());
        self
    }

    /// A condition in which `?` stands for the value, where there is one.
    pub(super) fn with<V: Into<Value>>(mut self, sql: &str, value: Option<V>) -> Self {
        if let Some(value) = value {
            self.sql.push(sql.to_owned());
            self.values.push(value.into());
        }
        self
    }
}

impl Conditions {
    /// Rows from a time on, of a table with its ids and its times. Ids are given in the order of time: behind a row that is
    /// older by more than a clock may have been set back, nothing is looked at.
    pub(super) fn since(self, (from_table, id, at): (&str, &str, &str), since: Option<Time>) -> Self {
        let behind = from(from_table, id, at, "?");
        self.with(&format!("{at} >= ?"), since.map(|at| at.0))
            .with(&format!("{id} > {behind}"), since.map(|at| at.0))
    }
}

/// The id behind which no row of a table (`FROM messages`) is as young as the instant `since`, a place of a statement.
pub(super) fn from(from_table: &str, id: &str, at: &str, since: &str) -> String {
    format!(
        "coalesce((SELECT past.{id} {from_table} past WHERE past.{at} < {since} - {DAY_MS} ORDER BY past.{id} DESC LIMIT 1), {})",
        i64::MIN
    )
}

impl Which {
    /// Returns rows of `select` that fit, oldest first; `by` is the column of their order. `texts` are those of a row that are
    /// searched.
    pub(super) fn rows<T>(
        &self,
        c: &Connection,
        (select, by): (&str, &str),
        mut conditions: Conditions,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
        texts: impl Fn(&T) -> Vec<&str>,
    ) -> Result<Vec<T>> {
        // Where a text is looked for, the rows are counted that have it.
        conditions.values.push(at_most(self.limit.filter(|_| self.text.is_none())).into());
        let which = match conditions.sql.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", conditions.sql.join(" AND ")),
        };
        let mut newest = c.prepare_cached(&format!("{select}{which} ORDER BY {by} DESC LIMIT ?"))?;
        let fits = |row: &rusqlite::Result<T>| match (row, &self.text) {
            (Ok(row), Some(text)) => texts(row).into_iter().any(|found| text.is_in(found)),
            _ => true,
        };
        let rows = newest.query_map(params_from_iter(conditions.values), row)?.filter(fits);
        oldest_first(rows.take(self.limit.unwrap_or(usize::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(which: &Which) -> Vec<i64> {
        let c = Connection::open_in_memory().unwrap();
        c.execute_batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, at INTEGER, text TEXT);
             INSERT INTO t VALUES (1, 10, 'Äpfel'), (2, 20, 'pears'), (3, 30, 'äpfel and pears'), (4, 40, 'plums')",
        )
        .unwrap();
        let conditions = Conditions::default()
            .with("at >= ?", which.since.map(|at| at.0))
            .with("at < ?", which.until.map(|at| at.0));
        let row = |r: &Row<'_>| Ok((r.get("id")?, r.get("text")?));
        let rows =
            which.rows(&c, ("SELECT id, text FROM t", "id"), conditions, row, |row: &(i64, String)| {
                vec![&row.1]
            });
        rows.unwrap().into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn the_newest_rows_that_fit_come_oldest_first() {
        let text = |text: &str| Some(Text::of(text));
        for (which, ids) in [
            (Which::default(), vec![1, 2, 3, 4]),
            (Which { limit: Some(2), ..Which::default() }, vec![3, 4]),
            (Which { since: Some(Time(20)), until: Some(Time(40)), ..Which::default() }, vec![2, 3]),
            (Which { text: text("ÄPFEL"), ..Which::default() }, vec![1, 3]),
            (Which { text: text("pears"), limit: Some(1), ..Which::default() }, vec![3]),
            (Which { text: text("pears"), until: Some(Time(30)), ..Which::default() }, vec![2]),
            (Which { text: text("%"), ..Which::default() }, vec![]),
        ] {
            assert_eq!(found(&which), ids, "{which:?}");
        }
    }
}

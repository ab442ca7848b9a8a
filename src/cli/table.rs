//! The layout of tables, pure: which columns fit into a terminal, and where a cell is cut.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Blanks between two columns.
const BETWEEN: usize = 2;
/// As wide as texts stay while there are columns that may go.
const TEXT: usize = 24;
/// As wide as texts stay while other cells are whole.
const SHORT_TEXT: usize = 12;
/// As wide as any column stays.
const LEAST: usize = 4;
/// Where nothing is cut, cells that are wider do not push the columns behind them away.
const WIDEST: usize = 160;

/// A column with its cells.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) cells: Vec<String>,
    pub(super) gives: Gives,
}

/// What a column does where there is no room for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    /// It stays whole as long as it can.
    Nothing,
    /// It is a text, which is cut.
    Width,
    /// It is cut, and left out.
    Way,
}

impl Column {
    fn width(&self) -> usize {
        self.cells.iter().map(|cell| cell.width()).max().unwrap_or(0).max(self.name.width())
    }

    fn is_empty(&self) -> bool {
        self.cells.iter().all(|cell| cell == "-" || cell.is_empty())
    }
}

/// A table that is laid out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Laid {
    /// Which columns are left, by their places.
    pub(super) columns: Vec<usize>,
    /// The heading and each row: cells as wide as their columns, the last one without blanks behind it.
    pub(super) lines: Vec<Vec<String>>,
    /// Names of columns that hold something and were left out.
    pub(super) left_out: Vec<String>,
}

/// Returns a table of which nothing is cut or left out.
pub(super) fn whole(columns: &[Column]) -> Laid {
    let wide = |column: &Column| {
        let cells = column.cells.iter().map(|cell| cell.width()).filter(|width| *width <= WIDEST);
        cells.max().unwrap_or(0).max(column.name.width())
    };
    let widths: Vec<usize> = columns.iter().map(wide).collect();
    let kept: Vec<usize> = (0..columns.len()).collect();
    let lines = lines(columns, &kept, &widths, |text, _| text.to_owned());
    Laid { columns: kept, lines, left_out: Vec::new() }
}

/// Returns a table at most `room` wide. First, columns without a value go; then those that give way, from the right; then
/// texts are cut; then all cells; then columns go from the right. The first column stays.
pub(super) fn fitted(columns: &[Column], room: usize) -> Laid {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let mut left_out = Vec::new();
    let fits = |kept: &[usize], most: usize| {
        let width = |at: &usize| match columns[*at].gives {
            Gives::Nothing => columns[*at].width(),
            Gives::Width | Gives::Way => columns[*at].width().min(most),
        };
        kept.iter().map(width).sum::<usize>() + BETWEEN * kept.len().saturating_sub(1) <= room
    };
    if !fits(&kept, usize::MAX) && columns.iter().any(|column| !column.is_empty()) {
        kept.retain(|at| *at == 0 || !columns[*at].is_empty());
    }
    while !fits(&kept, TEXT) {
        let Some(last) = kept.iter().rposition(|at| *at > 0 && columns[*at].gives == Gives::Way) else {
            break;
        };
        left_out.insert(0, columns[kept.remove(last)].name.clone());
    }
    while kept.len() > 1 && (LEAST + BETWEEN) * kept.len() > room + BETWEEN {
        left_out.extend(kept.pop().map(|at| columns[at].name.clone()));
    }
    let widths = cut_to(columns, &kept, room);
    Laid { lines: lines(columns, &kept, &widths, cut), columns: kept, left_out }
}

/// Returns a width for each column that is kept, so that they fit: the widest are cut first.
fn cut_to(columns: &[Column], kept: &[usize], room: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = kept.iter().map(|at| columns[*at].width()).collect();
    let room = room.saturating_sub(BETWEEN * kept.len().saturating_sub(1));
    for (which, least) in [(Gives::Width, SHORT_TEXT), (Gives::Nothing, SHORT_TEXT), (Gives::Nothing, LEAST)]
    {
        let may_be = |n: &usize| which == Gives::Nothing || columns[kept[*n]].gives != Gives::Nothing;
        loop {
            let over = widths.iter().sum::<usize>().saturating_sub(room);
            let widest = (0..widths.len()).filter(may_be).max_by_key(|n| widths[*n]);
            let Some(widest) = widest.filter(|n| over > 0 && widths[*n] > least) else { break };
            // Down to the next one at once; between equals, by one.
            let next = (0..widths.len()).filter(may_be).filter(|n| *n != widest).map(|n| widths[n]).max();
            let to = next.unwrap_or(0).max(least).min(widths[widest] - 1);
            widths[widest] = to.max(widths[widest].saturating_sub(over));
        }
    }
    widths
}

fn lines(
    columns: &[Column],
    kept: &[usize],
    widths: &[usize],
    cut: impl Fn(&str, usize) -> String,
) -> Vec<Vec<String>> {
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let line = |row: Option<usize>| {
        let text = |column: &Column| row.map_or(column.name.clone(), |row| column.cells[row].clone());
        let mut cells: Vec<String> =
            kept.iter().zip(widths).map(|(at, width)| cut(&text(&columns[*at]), *width)).collect();
        while cells.last().is_some_and(|cell| cell.is_empty()) {
            cells.pop();
        }
        let last = cells.len().saturating_sub(1);
        for (cell, width) in cells.iter_mut().zip(widths).take(last) {
            cell.push_str(&" ".repeat(width.saturating_sub(cell.width())));
        }
        cells
    };
    std::iter::once(None).chain((0..rows).map(Some)).map(line).collect()
}

/// Returns a text at most `width` columns wide; one that is cut ends in `…`.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut kept, mut wide) = (String::new(), 1);
    for piece in text.graphemes(true) {
        wide += piece.width();
        if wide > width {
            break;
        }
        kept.push_str(piece);
    }
    kept.truncate(kept.trim_end().len());
    kept + "…"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn column(name: &str, gives: Gives, cells: &[&str]) -> Column {
        Column { name: name.into(), cells: cells.iter().map(|cell| (*cell).to_owned()).collect(), gives }
    }

    fn shown(laid: &Laid) -> Vec<String> {
        laid.lines.iter().map(|cells| cells.join("  ")).collect()
    }

    fn runs() -> Vec<Column> {
        vec![
            column("ID", Gives::Nothing, &["1", "2"]),
            column("LANE", Gives::Nothing, &["main local:main", "family local:family"]),
            column("ENDED", Gives::Way, &["-", "-"]),
            column("RECORDS", Gives::Way, &["3", "4"]),
            column("ERROR", Gives::Width, &["-", "the agent said nothing for ten minutes and was stopped"]),
        ]
    }

    #[test]
    fn what_fits_is_whole_and_what_does_not_gives_way_in_order() {
        assert_eq!(fitted(&runs(), 200), whole(&runs()));
        let at_80 = fitted(&runs(), 80);
        assert_eq!(
            shown(&at_80),
            [
                "ID  LANE                 RECORDS  ERROR",
                "1   main local:main      3        -",
                "2   family local:family  4        the agent said nothing for ten minutes and wa…",
            ]
        );
        assert!(at_80.left_out.is_empty(), "a column without values is not missed");
        let at_50 = fitted(&runs(), 50);
        assert_eq!(at_50.left_out, ["RECORDS"]);
        assert_eq!(shown(&at_50)[2], "2   family local:family  the agent said nothing f…");
        assert_eq!(shown(&fitted(&runs(), 24))[2], "2   family l…  the agen…");
        assert_eq!(shown(&fitted(&runs(), 5))[2], "2");
    }

    #[test]
    fn columns_stand_below_each_other_whatever_script_a_name_is_in() {
        let columns = [
            column("NAME", Gives::Width, &["日本", "Zoe\u{308}", "abcde"]),
            column("ID", Gives::Nothing, &["7", "7", "7"]),
        ];
        assert_eq!(shown(&whole(&columns)), ["NAME   ID", "日本   7", "Zoe\u{308}    7", "abcde  7"]);
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("Zoe\u{308}!", 4), "Zoe\u{308}!");
    }

    #[test]
    fn in_a_pipe_a_very_long_cell_is_whole_and_pushes_no_other_away() {
        let long = "x".repeat(5_000);
        let columns =
            [column("TEXT", Gives::Width, &["a", &long]), column("ID", Gives::Nothing, &["1", "2"])];
        assert_eq!(shown(&whole(&columns)), ["TEXT  ID".to_owned(), "a     1".into(), format!("{long}  2")]);
    }

    proptest! {
        #[test]
        fn a_table_is_never_wider_than_its_room(
            rows in proptest::collection::vec(proptest::collection::vec("[a-z日é ]{0,60}|-", 5), 0..6),
            gives in proptest::collection::vec(proptest::sample::select(vec![Gives::Nothing, Gives::Width, Gives::Way]), 5),
            room in 4_usize..140,
        ) {
            let columns: Vec<Column> = (0..5).map(|at| Column {
                name: format!("COLUMN{at}"),
                cells: rows.iter().map(|row| row[at].clone()).collect(),
                gives: gives[at],
            }).collect();
            let laid = fitted(&columns, room);
            prop_assert_eq!(laid.lines.len(), rows.len() + 1);
            for line in shown(&laid) {
                prop_assert!(line.width() <= room, "{} in {room}: {line:?}", line.width());
            }
        }
    }
}

//! The live table: one line for each rank.

use std::fmt::Write as _;
use std::sync::Arc;

use kv_routing::load::View;
use tokio::time::sleep;

use super::api::because;
use super::app::App;
use super::fleet::{Engine, Rank};
use super::limits::TABLE_EVERY;
use super::screen::Screen;

/// The table of one gateway.
#[derive(Clone)]
pub(super) struct Table {
    app: Arc<App>,
}

impl Table {
    pub(super) fn of(app: Arc<App>) -> Self {
        Self { app }
    }

    /// Shows the table until the task is aborted: always on a terminal, once in a while and only when something has
    /// changed where the output goes elsewhere.
    pub(super) async fn keep_shown(self, screen: Screen) {
        let (drawn, printed) = TABLE_EVERY;
        let mut last = String::new();
        loop {
            sleep(if screen.is_live() { drawn } else { printed }).await;
            let table = self.render();
            if table != last {
                screen.show(&table);
                last = table;
            }
        }
    }

    /// The table as text.
    pub(super) fn render(&self) -> String {
        let mut rows = vec![HEAD.map(str::to_owned)];
        for engine in self.app.fleet.engines() {
            rows.extend(engine.ranks().iter().map(|rank| row(&self.app, engine, rank)));
        }
        layout(&rows)
    }
}

fn row(app: &App, engine: &Engine, rank: &Rank) -> [String; COLUMNS] {
    let (stream, tally, view) = (rank.stream(), &rank.tally, rank.books.view());
    let name = if engine.ranks().len() > 1 { format!("{}#{}", engine.name(), rank.number) } else { engine.name().to_owned() };
    let told = tally.compared.value() > 0;
    let if_told = |text: String| if told { text } else { "-".to_owned() };
    [
        name,
        state(app, engine, rank),
        grouped(app.blocks(&stream)),
        grouped(tally.requests.value()),
        grouped(u64::from(view.in_flight)),
        waiting(&view),
        tally.hit_rate().map_or("-".to_owned(), |rate| format!("{:.1} %", rate * 100.0)),
        if_told(grouped(tally.predicted_tokens.value())),
        if_told(grouped(tally.cached_tokens.value())),
        if_told(format!("{}/{}", tally.equal.value(), tally.compared.value())),
    ]
}

/// How far its index can be believed, or why it is not ready; and what sets the rank apart from others in decisions.
fn state(app: &App, engine: &Engine, rank: &Rank) -> String {
    if let Some(absence) = engine.absence() {
        return absence.to_owned();
    }
    let trust = rank.stream().trust().as_str();
    let words: Vec<&str> = [trust].into_iter().chain(because(app, engine, rank)).collect();
    words.join(", ")
}

/// Requests that wait, by the rank's own account.
fn waiting(view: &View) -> String {
    if view.is_reported() { grouped(u64::from(view.waiting)) } else { "-".to_owned() }
}

/// Columns as wide as their widest cell; names and words to the left, numbers to the right.
fn layout(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            _ = if column < WORD_COLUMNS { write!(line, "{cell:<width$}  ") } else { write!(line, "{cell:>width$}  ") };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

const COLUMNS: usize = 10;
const HEAD: [&str; COLUMNS] =
    ["worker", "state", "blocks", "requests", "running", "waiting", "hit rate", "predicted", "reported", "equal"];
/// Columns of words come first.
const WORD_COLUMNS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([0, 999, 1000, 12_345, 1_234_567].map(grouped), ["0", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn columns_line_up() {
        let row = |name: &str, blocks: &str| {
            let mut row = HEAD.map(|_| String::new());
            (row[0], row[2]) = (name.to_owned(), blocks.to_owned());
            row
        };
        assert_eq!(layout(&[row("worker", "blocks"), row("a", "7")]), "worker    blocks\na              7\n");
    }
}

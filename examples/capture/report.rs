//! A report as people read it.

use std::fmt;

use super::check::{Report, Row};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  {}", self.file, self.title)?;
        let engine = self.dialect.unwrap_or("not recognised");
        write!(f, "  {engine}; stored {}, removed {}, cleared {}; ", self.stored, self.removed, self.cleared)?;
        writeln!(f, "{} blocks at the end", self.blocks)?;
        if !self.caveats.is_empty() {
            writeln!(f, "  the wire leaves open: {}", self.caveats.join(", "))?;
        }
        for (reason, count) in &self.losses {
            writeln!(f, "  left out: {count} {reason}")?;
        }
        if self.missed_batches > 0 {
            writeln!(f, "  missed: {} batches", self.missed_batches)?;
        }
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))?;
        let exact = self.rows.iter().filter(|row| row.label.is_none());
        let (all, equal) = exact.fold((0, 0), |(all, equal), row| (all + 1, equal + u32::from(!row.differs())));
        if !self.rows.is_empty() {
            writeln!(
                f,
                "  {equal} of {all} requests labelled exact are predicted exactly; {} are not labelled exact",
                self.rows.len() - all
            )?;
        }
        write!(f, "  {}", if self.passes() { "passes" } else { "DIFFERS" })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.differs() { "DIFFERS" } else { "" };
        write!(f, "    {:28} predicted {:5}  reported {:5}  {mark}", self.name, self.predicted, self.reported)?;
        if self.side_by_side {
            f.write_str("  (side by side)")?;
        }
        self.label.map_or(Ok(()), |label| write!(f, "  [{label}]"))
    }
}

//! Records a live engine's events and requests.

mod record;

use std::fs::File;
use std::io::BufWriter;

use clap::Parser;

/// Records engines.
#[derive(Parser)]
enum Command {
    /// Record a live engine.
    Record(record::RecordOptions),
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Command::Record(options) = Command::parse();
    let counts = record::record(&options, BufWriter::new(File::create(&options.out)?)).await?;
    eprintln!("{}: {counts:?}", options.out.display());
    Ok(())
}

//! Plays a fleet in virtual time. See `--help`.

use clap::Parser;
use kv_examples::simulate::{Contender, Options, run, table};

fn main() {
    let options = Options::parse();
    println!("seed {}", options.seed);
    for scene in options.scenes() {
        println!("\n{}: {} ({} requests)", scene.name, scene.shows, scene.arrivals.len());
        let contenders = Contender::all();
        let rows: Vec<_> = contenders.iter().map(|contender| (contender.name(), run(&scene, contender, options.seed))).collect();
        print!("{}", table(&rows));
    }
}

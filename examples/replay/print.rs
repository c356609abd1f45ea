//! A report for people.

use std::fmt;

use super::report::{Distribution, FloorReport, OracleReport, PredictionReport, Report};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "requests      {} in {:.1} s, {} failed, {} counted", self.requests, self.wall_s, self.failed, self.counted)?;
        for (reason, count) in &self.failures {
            writeln!(f, "  failed      {count} x {reason}")?;
        }
        line(f, "TTFT ms", &self.ttft_ms)?;
        line(f, "ITL ms", &self.itl_ms)?;
        line(f, "sent late ms", &self.late_ms)?;
        let slo = &self.slo;
        writeln!(
            f,
            "in SLO        {} (TTFT <= {} ms, mean ITL <= {} ms), {} with p99 ITL; goodput {:.2}/s",
            slo.within, slo.ttft_ms, slo.itl_ms, slo.within_strict, slo.goodput_per_s
        )?;
        let tokens = format!("{} of {} prompt tokens", self.cached_tokens, self.prompt_tokens);
        writeln!(f, "prefix reuse  {}  {tokens}", percent(self.prefix_reuse))?;
        self.oracle.iter().try_for_each(|oracle| write_oracle(f, oracle))?;
        self.floor.iter().try_for_each(|floor| write_floor(f, floor))?;
        self.predictions.iter().try_for_each(|predictions| write_predictions(f, predictions))?;
        self.write_workers(f)
    }
}

impl Report {
    fn write_workers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(balance) = self.balance else {
            return writeln!(f, "workers       unknown: no answer had the header x-kv-worker");
        };
        writeln!(f, "workers       busiest over mean {balance:.2}")?;
        let all: usize = self.workers.values().sum();
        for (worker, &requests) in &self.workers {
            let share = super::report::share(requests as u64, all as u64);
            writeln!(f, "  {}  {requests:>6}  {worker}", percent(share))?;
        }
        Ok(())
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, d: &Distribution) -> fmt::Result {
    writeln!(f, "{name:<13} p50 {:<9.1} p90 {:<9.1} p99 {:<9.1} mean {:.1}", d.p50, d.p90, d.p99, d.mean)
}

fn write_oracle(f: &mut fmt::Formatter<'_>, oracle: &OracleReport) -> fmt::Result {
    let what = "the best engine's cache at each arrival";
    writeln!(f, "  oracle      {}  {what} ({} requests)", percent(oracle.prefix_reuse), oracle.joined)?;
    writeln!(f, "  hit/oracle  {}", percent(oracle.hit_over_oracle))
}

fn write_floor(f: &mut fmt::Formatter<'_>, floor: &FloorReport) -> fmt::Result {
    let room = floor.kv_blocks.map_or_else(|| "unbounded".to_owned(), |blocks| format!("{blocks} blocks of"));
    writeln!(
        f,
        "simulated     one request after the other, {} workers, {room} {} tokens, {} requests:",
        floor.workers, floor.block_size, floor.requests
    )?;
    let rows = [
        ("measured", floor.measured_reuse, "what was reused of these requests"),
        ("as placed", floor.placed_reuse, "what the chosen workers could have reused"),
        ("best worker", floor.best_reuse, "a perfect router, given the same placements"),
        ("round robin", floor.round_robin_reuse, "workers by turns"),
        ("one cache", floor.shared_reuse, "no routing can exceed this"),
    ];
    rows.iter().try_for_each(|(name, reuse, what)| writeln!(f, "  {name:<12}{}  {what}", percent(*reuse)))
}

fn write_predictions(f: &mut fmt::Formatter<'_>, predictions: &PredictionReport) -> fmt::Result {
    let share = super::report::share(predictions.exact as u64, predictions.compared() as u64);
    writeln!(
        f,
        "predictions   {}  equal to the engine's report; {} over, {} under, of {}",
        percent(share),
        predictions.over,
        predictions.under,
        predictions.compared()
    )
}

fn percent(share: f64) -> String {
    format!("{:>6.2} %", share * 100.0)
}

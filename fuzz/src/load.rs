//! What an engine's load endpoints, or whoever answers there, can do to a worker's books.

use std::time::Duration;

use kv_routing::load::wire::{metrics, sglang};
use kv_routing::load::{Ledger, Options};
use kv_routing::{Candidate, Policy, Request, Router};

const NOW: Duration = Duration::from_secs(100);

/// Any body reads, or is refused; what is read leaves the books with numbers that a decision can use, and every sample is used or
/// counted as refused.
pub fn load_body(data: &[u8]) {
    let Some((&kind, body)) = data.split_first() else { return };
    let loads = if kind & 1 == 0 { metrics::loads(body, NOW) } else { sglang::loads(body, NOW) };
    let Ok(loads) = loads else { return };
    assert!(!loads.ranks.is_empty() && loads.ranks.is_sorted_by(|before, after| before.0 < after.0), "{:?}", loads.ranks);
    let ledger = Ledger::new(Options::default());
    let used = loads.ranks.iter().filter(|(rank, sample)| ledger.handle_sample(NOW, *rank, sample).is_ok()).count();
    let view = ledger.view(NOW);
    assert_eq!(view.is_reported(), used > 0);
    assert!(view.kv_usage.is_none_or(|usage| (0.0..=1.0).contains(&usage)), "{view:?}");
    assert!(view.rate_tokens_per_s.is_none_or(|rate| rate.is_finite() && rate >= 0.0), "{view:?}");
    let loaded = Candidate { load: view.load(view.rate_tokens_per_s), ..Candidate::default() };
    let fleet = [loaded, Candidate { worker: 1, ..Candidate::default() }];
    for policy in [Policy::Blend, Policy::CacheAware, Policy::LeastLoad] {
        let decision =
            Router::new(policy).decide(Request { prompt_tokens: 1_000, home: None }, &fleet, 7).expect("nobody is ruled out");
        assert!(decision.record.scored.iter().all(|scored| scored.costs.total_s().is_finite()), "{:?}", decision.record);
    }
}

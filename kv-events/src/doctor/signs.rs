//! One small rule for each cause.

use super::{Cause, Chart, Diagnosis, Filling, Requests, Silence};
use crate::limits::{EVIDENCE_MIN, SILENCE_MIN};
use crate::{Caveat, Loss};

/// Whether a chart shows one cause.
type Sign = fn(&Chart<'_>, &Silence) -> Option<Diagnosis>;

/// In the order of [`Cause::ALL`].
pub(super) const ALL: [Sign; Cause::ALL.len()] = [
    never_heard,
    fell_silent,
    unreadable,
    hashing_differs,
    roots_differ,
    chains_differ,
    parents_unknown,
    blocks_differ,
    request_blocks_differ,
    removals_missing,
    salt_not_shown,
    salt_not_sent,
    tokens_differ,
    nothing_reused,
    nothing_shared,
];

fn never_heard(chart: &Chart<'_>, _: &Silence) -> Option<Diagnosis> {
    let shows = chart.subscribed && chart.counts.batches == 0 && chart.requests.sent >= EVIDENCE_MIN;
    shown(shows, Cause::NeverHeard, || format!("{} requests were sent there, and no batch came", chart.requests.sent))
}

fn fell_silent(chart: &Chart<'_>, silence: &Silence) -> Option<Diagnosis> {
    let block = chart.profile.scheme.map_or(u64::MAX, |scheme| scheme.block_tokens.get().into());
    let computed = silence.computed_tokens / block.max(1) >= EVIDENCE_MIN && silence.answers >= EVIDENCE_MIN;
    let shows = chart.subscribed && chart.counts.batches > 0 && silence.lasted >= SILENCE_MIN && computed;
    shown(shows, Cause::FellSilent, || {
        let Silence { lasted, computed_tokens, answers } = *silence;
        format!("{answers} answers took {computed_tokens} new tokens since the last batch, {} s ago", lasted.as_secs())
    })
}

fn unreadable(chart: &Chart<'_>, _: &Silence) -> Option<Diagnosis> {
    let lost = |reasons: &[Loss]| reasons.iter().map(|loss| chart.counts.losses.count(*loss)).sum::<u64>();
    let unread = lost(&[Loss::UnreadablePayload, Loss::UnknownType, Loss::Malformed]);
    let read = chart.counts.stored + chart.counts.removed;
    let shows = unread >= EVIDENCE_MIN && unread >= read / 8;
    shown(shows, Cause::Unreadable, || format!("{unread} events or payloads could not be read, beside {read} blocks that were"))
}

fn hashing_differs(chart: &Chart<'_>, _: &Silence) -> Option<Diagnosis> {
    let hashes = chart.hashes.filter(|hashes| hashes.matched == 0 && hashes.mismatched_roots > 0)?;
    let roots = hashes.mismatched_roots;
    let actual =
        hashes.first.and_then(|first| first.actual).map_or(String::new(), |way| format!("; the first is called as by {way}"));
    shown(true, Cause::HashingDiffers, || {
        format!("no block is called as recomputed, {roots} prompts from their first block on{actual}")
    })
}

fn roots_differ(chart: &Chart<'_>, _: &Silence) -> Option<Diagnosis> {
    let hashes = chart.hashes.filter(|hashes| hashes.matched > 0 && hashes.mismatched_roots > 0)?;
    shown(true, Cause::RootsDiffer, || {
        format!(
            "{} prompts differ from their first block on, beside {} blocks that match",
            hashes.mismatched_roots, hashes.matched
        )
    })
}

fn chains_differ(chart: &Chart<'_>, _: &Silence) -> Option<Diagnosis> {
    let inside = chart.hashes.map_or(0, |hashes| hashes.mismatched - hashes.mismatched_roots);
    shown(inside > 0, Cause::ChainsDiffer, || {
        format!("{inside} blocks behind others that match are called otherwise than recomputed")
    })
}

fn parents_unknown(chart: &Chart<'_>, _: &Silence) -> Option<Diagnosis> {
    let waiting = chart.findings.waiting_blocks as u64;
    let shows = waiting >= EVIDENCE_MIN;
    shown(shows, Cause::ParentsUnknown, || {
        format!("{waiting} blocks wait for a parent, beside {} that were stored", chart.counts.stored)
    })
}

fn blocks_differ(chart: &Chart<'_>, _: &Silence) -> Option<Diagnosis> {
    let shows = chart.profile.caveats.contains(&Caveat::MixedSchemes) && !fixed_otherwise(chart);
    let first = chart.profile.scheme.map_or(0, |scheme| scheme.block_tokens.get());
    shown(shows, Cause::BlocksDiffer, || format!("the first blocks had {first} tokens, and others came that fit none of those"))
}

fn request_blocks_differ(chart: &Chart<'_>, _: &Silence) -> Option<Diagnosis> {
    let unaligned = chart.counts.losses.count(Loss::UnalignedBlocks);
    let shows = fixed_otherwise(chart) && unaligned >= EVIDENCE_MIN;
    let fixed = chart.request_block_tokens.map_or(0, std::num::NonZeroU32::get);
    shown(shows, Cause::RequestBlocksDiffer, || {
        format!("requests are cut into blocks of {fixed} tokens, and {unaligned} of the engine's stores are no multiple of it")
    })
}

/// The setting, and not the stream, says how long blocks are, and no store fits it.
fn fixed_otherwise(chart: &Chart<'_>) -> bool {
    chart.request_block_tokens.is_some() && chart.counts.stored == 0 && chart.counts.losses.count(Loss::UnalignedBlocks) > 0
}

fn removals_missing(chart: &Chart<'_>, _: &Silence) -> Option<Diagnosis> {
    let (counts, requests) = (chart.counts, &chart.requests);
    if let Some(Filling { held_blocks, pool_blocks }) = chart.filling.filter(|filling| filling.held_blocks > filling.pool_blocks)
    {
        let because = || format!("{held_blocks} blocks are held here, and the engine has room for {pool_blocks}");
        return shown(true, Cause::RemovalsMissing, because);
    }
    let never = counts.removed + counts.removed_copies + counts.clears == 0 && counts.stored >= EVIDENCE_MIN;
    let missed = requests.predicted_tokens.saturating_sub(requests.cached_tokens);
    let shows =
        never && requests.compared >= EVIDENCE_MIN && requests.cached_tokens > 0 && missed >= requests.predicted_tokens / 4;
    shown(shows && missed > 0, Cause::RemovalsMissing, || {
        let predicted = requests.predicted_tokens;
        format!("{missed} of {predicted} predicted tokens were not cached any more, and no block was ever removed")
    })
}

fn salt_not_shown(chart: &Chart<'_>, _: &Silence) -> Option<Diagnosis> {
    let salted = chart.requests.salted;
    let shows = salted > 0 && chart.profile.caveats.contains(&Caveat::SaltNotShown) && chart.counts.salted_stores == 0;
    shown(shows, Cause::SaltNotShown, || format!("{salted} requests had a salt, and none of the engine's stores shows one"))
}

fn salt_not_sent(chart: &Chart<'_>, _: &Silence) -> Option<Diagnosis> {
    let (stores, requests) = (chart.counts.salted_stores, &chart.requests);
    let shows = stores >= EVIDENCE_MIN && requests.salted == 0 && requests.sent >= EVIDENCE_MIN;
    shown(shows, Cause::SaltNotSent, || {
        format!("{stores} of the engine's stores have a salt, and none of {} requests", requests.sent)
    })
}

fn tokens_differ(chart: &Chart<'_>, _: &Silence) -> Option<Diagnosis> {
    let requests = &chart.requests;
    let seen = chart.counts.stored > 0 && requests.compared >= EVIDENCE_MIN;
    let shows = seen && requests.predicted_tokens == 0 && requests.cached_tokens > 0;
    shown(shows, Cause::TokensDiffer, || {
        let Requests { compared, prompt_tokens, cached_tokens, .. } = *requests;
        format!("{cached_tokens} of {prompt_tokens} tokens were cached in {compared} answers, and none was predicted to be")
    })
}

fn nothing_reused(chart: &Chart<'_>, _: &Silence) -> Option<Diagnosis> {
    let requests = &chart.requests;
    let shows = requests.compared >= EVIDENCE_MIN && requests.cached_tokens == 0 && requests.predicted_tokens > 0;
    shown(shows, Cause::NothingReused, || {
        format!("{} tokens were predicted to be cached in {} answers, and none was", requests.predicted_tokens, requests.compared)
    })
}

fn nothing_shared(chart: &Chart<'_>, _: &Silence) -> Option<Diagnosis> {
    let requests = &chart.requests;
    let none = requests.cached_tokens == 0 && requests.predicted_tokens == 0;
    let shows = none && chart.counts.stored > 0 && requests.compared >= 8 * EVIDENCE_MIN;
    shown(shows, Cause::NothingShared, || {
        format!("{} blocks were stored, and none was reused in {} answers", chart.counts.stored, requests.compared)
    })
}

fn shown(shows: bool, cause: Cause, because: impl FnOnce() -> String) -> Option<Diagnosis> {
    shows.then(|| Diagnosis { cause, because: because() })
}
